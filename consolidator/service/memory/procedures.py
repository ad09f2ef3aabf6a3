"""What agents do again and again."""

from __future__ import annotations

from collections.abc import Iterable

from consolidator.database import Database
from consolidator.models.procedure import ProcedureRow
from consolidator.service.scope import narrow_scope
from consolidator.service.viewer import OWNER, Viewer
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
    viewer: Viewer = OWNER,
) -> list[ProcedureRow]:
    """Return the procedures that are worth telling, or `everything`, the best first.

    For a peer those of its own sessions, and what enough people share; for a viewer of one project that project's.
    """
    async with database.connection() as conn:
        scope = await narrow_scope(conn, viewer, agent=agent, project=project, peer=peer)
        return await lookup.list_procedures(
            conn,
            query=query,
            agent=scope.agent,
            project=scope.project,
            peer=scope.peer,
            project_alone=viewer.is_of_project,
            everything=everything,
            limit=limit,
        )


def describe_purpose(words: Iterable[str], before: str = "", after: str = "") -> str:
    """Return what a procedure is for, by the words that its sessions' goals have; "" where that is unknown."""
    named = ", ".join(words)
    return f"{before}when the task is about {named}{after}" if named else ""
