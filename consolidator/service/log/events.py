"""The events of a session as they were logged, and what its people saw."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from consolidator.database import Database
from consolidator.models.event import Event
from consolidator.models.lineage import Lineage
from consolidator.models.session import SessionRow
from consolidator.runtime.live.hub import open_hub
from consolidator.runtime.live.items import Cursor
from consolidator.runtime.session.access import read_past
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import load_lineage


async def read_events(
    database: Database, session_name: str, *, after: int | None = None, last: int | None = None, own: bool = False
) -> AsyncIterator[Event]:
    """Yield a session's events in order, after a seq or only the `last` ones.

    What a child reads of its ancestors' logs comes first, unless only its `own` events are wanted.
    """
    session, lineage = await _find_session(database, session_name)
    begin = _first_seq(session, lineage, after=after, last=last, own=own)
    async for event in read_past(database, session.id, after=begin, upto=session.head):
        yield event


async def follow_events(
    database: Database, session_name: str, *, after: int | None = None, last: int | None = None
) -> AsyncIterator[Event]:
    """Yield a session's events as `read_events` does, then those to come, until the session ends."""
    session, lineage = await _find_session(database, session_name)
    cursor = Cursor(min(_first_seq(session, lineage, after=after, last=last, own=False), session.head))
    async with open_hub(database) as hub, aclosing(hub.follow(session.id, cursor, whole=True, history=True)) as items:
        async for item in items:
            if item.event is not None:
                yield item.event


async def _find_session(database: Database, name: str) -> tuple[SessionRow, Lineage]:
    async with database.connection() as conn:
        session = await sessions.get(conn, await sessions.find_session_id(conn, name))
        return session, await load_lineage(conn, session.id, session)


def _first_seq(session: SessionRow, lineage: Lineage, *, after: int | None, last: int | None, own: bool) -> int:
    """Return the seq after which reading begins."""
    seq = max(lineage.readable_after, session.base_seq) if own else lineage.readable_after
    return max(seq, seq if after is None else after, seq if last is None else session.head - last)
