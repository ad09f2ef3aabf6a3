"""Replay of what a session's people saw."""

from __future__ import annotations

from collections.abc import AsyncIterator

from consolidator.database import Database
from consolidator.runtime.rerun.replay import ReplayedItem, replay
from consolidator.store.sessions import sessions


async def replay_session(
    database: Database, session_name: str, *, channel: str | None = None
) -> AsyncIterator[ReplayedItem]:
    """Yield what people saw of a session, in order: on `channel`, else on the session's own."""
    async with database.connection() as conn:
        async for item in replay(conn, await sessions.find_session_id(conn, session_name), channel=channel):
            yield item
