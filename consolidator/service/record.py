"""Records what an agent elsewhere did, in the one session that its key names: through the one door, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ulid import ULID

from consolidator.database import Database
from consolidator.errors import InvalidEvent
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime.sessions import parts_of
from consolidator.store.log import events, sessions

MOST = 500  # events at once


async def record_events(
    database: Database,
    key: str,
    told: Sequence[Mapping[str, Any]],
    *,
    project: str | None = None,
    idempotency_key: str | None = None,
) -> dict[str, Any]:
    """Append events to the current session of a key (`agent:channel:peer`), opened where there is none.

    Each event is `{"type": "UserMessage", "data": {...}}`. With an `idempotency_key` a repeat writes nothing and
    answers as the first time. Raises UsageError for what is no key and InvalidEvent where an event does not fit, and
    writes nothing then.
    """
    agent, channel, peer = parts_of(key)
    if not 1 <= len(told) <= MOST:
        raise InvalidEvent(f"between 1 and {MOST} events can be recorded at once, not {len(told)}")
    new = [_event(number, one) for number, one in enumerate(told, 1)]
    prepared = {"agent": agent, "channel": channel, "peer": peer, "project": project, "key": key, "id": str(ULID())}
    async with database.transaction() as conn:
        now = database.clock.now()
        session = await sessions.open_current(conn, prepared, now=now)
        done = await events.append(conn, session, new, now=now, key=idempotency_key)
    return {
        "session": session,
        "first_seq": done.first_seq,
        "last_seq": done.last_seq,
        "repeated": done.repeated,
    }


def _event(number: int, told: Mapping[str, Any]) -> NewEvent:
    kind, data = told.get("type"), told.get("data", {})
    if kind not in set(EventType):
        raise InvalidEvent(f"event {number}: {kind!r} is no event type: {', '.join(EventType)}")
    if not isinstance(data, Mapping):
        raise InvalidEvent(f"event {number}: data is a {type(data).__name__}, not an object")
    return NewEvent(EventType(kind), data)
