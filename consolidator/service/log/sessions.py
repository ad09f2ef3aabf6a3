"""Sessions of the log, found by what a person types."""

from __future__ import annotations

from consolidator.database import Database
from consolidator.models.session import SessionRow
from consolidator.store.sessions import sessions


async def find_session_id(database: Database, name: str) -> str:
    """Return the id of the session with an id, a foreign name, or the beginning of either; raise NotFound for none."""
    async with database.connection() as conn:
        return await sessions.find_session_id(conn, name)


async def load_session(database: Database, name: str) -> SessionRow:
    """Return the row of the session with an id, a foreign name, or the beginning of either; raise NotFound for none."""
    async with database.connection() as conn:
        return await sessions.get(conn, await sessions.find_session_id(conn, name))
