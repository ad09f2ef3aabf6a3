"""Reads a session and its events for whoever may see them."""

from __future__ import annotations

from consolidator.database import Database
from consolidator.models.event import Event
from consolidator.models.session import SessionRow
from consolidator.runtime.session.changes import check_driven_here
from consolidator.service.sessions.access import get_session
from consolidator.service.viewer import OWNER, Viewer
from consolidator.store.sessions.lineage import load_lineage, read_lineage


async def load_session(database: Database, session_id: str, *, viewer: Viewer = OWNER) -> SessionRow:
    """Return the row of a session. Raises NotFound."""
    async with database.connection() as conn:
        return await get_session(conn, viewer, session_id, "read")


async def load_events(
    database: Database,
    session_id: str,
    *,
    after: int | None = None,
    history: bool = False,
    limit: int = 100,
    viewer: Viewer = OWNER,
) -> tuple[SessionRow, list[Event]]:
    """Return a session's row, and its next events after a seq, by default from the beginning. Raises NotFound.

    With `history`, what a child reads of its ancestors' logs comes first.
    """
    async with database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "read")
        lineage = await load_lineage(conn, session.id, session)
        begin = after if history else max(session.base_seq if after is None else after, session.base_seq)
        return session, await read_lineage(conn, lineage, after=begin, upto=session.head, limit=limit)


async def load_session_to_drive(database: Database, session_id: str, *, viewer: Viewer = OWNER) -> SessionRow:
    """Return the row of a session that is driven here. Raises NotFound, and SessionClosed for one that is only read."""
    async with database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "write")
    check_driven_here(session)
    return session
