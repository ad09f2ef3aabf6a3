"""Sessions of the log: list them, and find one by what a person types."""

from __future__ import annotations

from datetime import datetime

from consolidator.database import Database
from consolidator.models.session import SessionRow
from consolidator.store.log import sessions
from consolidator.store.log.projects import resolve_project


async def list_sessions(
    database: Database,
    *,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    since: datetime | None = None,
    hidden: bool = False,
    limit: int = 50,
) -> list[SessionRow]:
    """Return sessions, the latest first; with `hidden` also those that a person deleted in a chat."""
    async with database.connection() as conn:
        project = await resolve_project(conn, project, agent=agent, peer=peer)
        return await sessions.list_latest(
            conn, agent=agent, project=project, peer=peer, since=since, hidden=hidden, limit=limit
        )


async def find_session_id(database: Database, name: str) -> str:
    """Return the id of the session with an id, a foreign name, or the beginning of either; raise NotFound for none."""
    async with database.connection() as conn:
        return await sessions.find_session_id(conn, name)


async def load_session(database: Database, name: str) -> SessionRow:
    """Return the row of the session with an id, a foreign name, or the beginning of either; raise NotFound for none."""
    async with database.connection() as conn:
        return await sessions.get(conn, await sessions.find_session_id(conn, name))
