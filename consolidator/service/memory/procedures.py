"""What agents do again and again."""

from __future__ import annotations

from collections.abc import Iterable

from consolidator.database import Database
from consolidator.models.procedure import ProcedureRow
from consolidator.store.log.projects import resolve_project
from consolidator.store.memory import lookup


async def list_procedures(
    database: Database,
    *,
    query: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    everything: bool = False,
    limit: int = 50,
) -> list[ProcedureRow]:
    """Return the procedures that are worth telling, or `everything`, the best first.

    For a peer those of its own sessions, and what enough people share.
    """
    async with database.connection() as conn:
        project = await resolve_project(conn, project, agent=agent, peer=peer)
        return await lookup.list_procedures(
            conn, query=query, agent=agent, project=project, peer=peer, everything=everything, limit=limit
        )


def describe_purpose(words: Iterable[str], before: str = "", after: str = "") -> str:
    """Return what a procedure is for, by the words that its sessions' goals have; "" where that is unknown."""
    named = ", ".join(words)
    return f"{before}when the task is about {named}{after}" if named else ""
