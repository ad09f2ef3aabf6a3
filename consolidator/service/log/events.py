"""The events of a session, as they were logged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from consolidator.database import Database
from consolidator.models.event import Event
from consolidator.store.log import events, sessions

EVENTS_PER_READ = 500
POLL_SECONDS = 0.5  # between two looks at a session that is followed


async def read_events(
    database: Database, session_name: str, *, after: int = 0, last: int | None = None, follow: bool = False
) -> AsyncIterator[Event]:
    """Yield a session's events in order, after a seq or only the `last` ones; with `follow` wait for new ones."""
    async with database.connection() as conn:
        session = await sessions.get(conn, await sessions.find_session_id(conn, session_name))
    seq = after if last is None else max(after, session.head - last)
    while True:
        async with database.connection() as conn:
            batch = await events.read(conn, session.id, after=seq, limit=EVENTS_PER_READ)
        for event in batch:
            yield event
            seq = event.seq
        if batch:
            continue
        if not follow:
            return
        await asyncio.sleep(POLL_SECONDS)
