"""What agents do again and again."""

from __future__ import annotations

from consolidator.database import Database
from consolidator.models.procedure import ProcedureRow
from consolidator.store.memory import lookup


async def list_procedures(
    database: Database,
    *,
    query: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    limit: int = 50,
) -> list[ProcedureRow]:
    """Return procedures, the best first."""
    async with database.connection() as conn:
        return await lookup.list_procedures(conn, query=query, agent=agent, project=project, limit=limit)
