"""Hydrates a surface: a session with all that belongs to it, in one call and at one moment."""

from __future__ import annotations

from dataclasses import replace

from consolidator.database import Database
from consolidator.runtime.session import hydration
from consolidator.runtime.session.hydration import MAX_MESSAGES as MAX_MESSAGES
from consolidator.runtime.session.hydration import HydratedSession as HydratedSession
from consolidator.service.sessions.access import get_session
from consolidator.service.sessions.listing import read_titles
from consolidator.service.viewer import OWNER, Viewer
from consolidator.settings import Settings


async def hydrate_session(
    database: Database,
    settings: Settings,
    session_id: str,
    *,
    before: int | None = None,
    limit: int = 50,
    viewer: Viewer = OWNER,
) -> HydratedSession:
    """Return a session with titles, seeds, messages, open calls, notes, children and checkpoints, all of one moment.

    The messages are the latest `limit` before an event. Raises NotFound, and Forbidden.
    """
    async with database.snapshot() as conn:
        row = await get_session(conn, viewer, session_id, "read")
        now = database.clock.now()
        found = await hydration.hydrate_session(conn, settings, row, now=now, before=before, limit=limit)
        return replace(found, titles=await read_titles(conn, [row.id, *(child.id for child in found.children)]))
