"""The events of a session, as they were logged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from consolidator.database import Database
from consolidator.models.event import Event
from consolidator.store.log import events, sessions
from consolidator.store.log.lineage import load_lineage, read_lineage

EVENTS_PER_READ = 500
POLL_SECONDS = 0.5  # between two looks at a session that is followed


async def read_events(
    database: Database,
    session_name: str,
    *,
    after: int | None = None,
    last: int | None = None,
    follow: bool = False,
    own: bool = False,
) -> AsyncIterator[Event]:
    """Yield a session's events in order, after a seq or only the `last` ones; with `follow` wait for new ones.

    What a child reads of its ancestors' logs comes first, unless only its `own` events are wanted.
    """
    async with database.connection() as conn:
        session = await sessions.get(conn, await sessions.find_session_id(conn, session_name))
        lineage = await load_lineage(conn, session.id, session)
    seq = max(lineage.readable_after, session.base_seq) if own else lineage.readable_after
    seq = max(seq, seq if after is None else after, seq if last is None else session.head - last)
    while seq < session.base_seq:
        async with database.connection() as conn:
            batch = await read_lineage(conn, lineage, after=seq, upto=session.base_seq, limit=EVENTS_PER_READ)
        for event in batch:
            yield event
        seq = batch[-1].seq if batch else session.base_seq
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
