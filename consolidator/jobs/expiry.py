"""Ends sessions whose time to live is over: with a SessionEnd, in bounded batches; nothing is deleted by it.

A session that a harness holds is left for the next night. One in which something is to be answered or decided is left
for a time of grace, so that an approval over a weekend is not lost, and then ended with it. Sub-agents at work end with
their parents, as both logs say.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from consolidator.database import Database
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.principal import Role
from consolidator.runtime.turn.sub_agents import finish_abandoned
from consolidator.store.log import events
from consolidator.store.log import retention as store
from consolidator.store.log.retention import ExpiredSession
from consolidator.store.sessions import sessions

GRACE = timedelta(days=7)  # for a session in which something is to be answered or decided
BATCH = 100  # sessions ended in one transaction
_END = NewEvent(EventType.SESSION_END, {"reason": "expired"}, principal=Role.OPERATOR.value)


async def end_expired(database: Database, *, dry_run: bool) -> tuple[int, Counter[str]]:
    """End the sessions whose time to live is over; with `dry_run` only count them.

    Return how many were or would be ended, and how many were spared, by reason.
    """
    now = database.clock.now()
    ended, spared = 0, Counter[str]()
    last: ExpiredSession | None = None
    while True:
        async with database.connection() as conn:
            page = await store.list_expired(conn, now=now, grace=now - GRACE, after=last, batch=BATCH)
        if not page:
            if not dry_run:
                await finish_abandoned(database)
            return ended, spared
        last = page[-1]
        spared.update(reason for session in page if (reason := _spared_because(session)))
        ids = [session.id for session in page if _spared_because(session) is None]
        done = len(ids) if dry_run else await _end(database, ids, now)
        ended += done
        if done < len(ids):
            spared["changed meanwhile"] += len(ids) - done


async def has_expired(database: Database) -> bool:
    """Tell whether the time to live of any session is over."""
    now = database.clock.now()
    async with database.connection() as conn:
        return bool(await store.list_expired(conn, now=now, grace=now - GRACE, after=None, batch=1))


def _spared_because(session: ExpiredSession) -> str | None:
    """Return why an expired session is not ended tonight; None if it is."""
    if session.is_held:
        return "driven at this moment"
    return "something awaits an answer" if session.is_awaited else None


async def _end(database: Database, ids: list[str], now: datetime) -> int:
    """End sessions in one transaction; those that somebody touches at this moment stay. Return how many ended."""
    async with database.transaction() as conn:
        locked = await store.lock_expired(conn, ids, now, now - GRACE)
        for session_id in locked:
            await events.append(conn, session_id, [_END], now=now)
            await sessions.retire(conn, session_id, hide=False)
    return len(locked)
