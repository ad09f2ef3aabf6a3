"""Records what an agent elsewhere did, in the current session of its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ulid import ULID

from consolidator.database import Database
from consolidator.errors import InvalidEvent
from consolidator.formats.common.json_parsing import MAX_DEPTH, exceeds_max_depth
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, name_principal
from consolidator.runtime.sessions import parse_key
from consolidator.store.log import events, sessions

MAX_EVENTS = 500  # in one call
OWNER = "owner"  # the client's name where no credential gives one


async def record_events(
    database: Database,
    key: str,
    new_events: Sequence[Mapping[str, Any]],
    *,
    project: str | None = None,
    idempotency_key: str | None = None,
    client: str = OWNER,
) -> dict[str, Any]:
    """Append events to the current session of a key (`agent:channel:peer`); open one if there is none.

    Each event is `{"type": "UserMessage", "data": {...}}`. With an `idempotency_key`, a repeated call writes nothing
    and returns the first call's seqs. Raises UsageError for a malformed key and InvalidEvent for a malformed event;
    then nothing is written.
    """
    agent, channel, peer = parse_key(key)
    if not 1 <= len(new_events) <= MAX_EVENTS:
        raise InvalidEvent(f"between 1 and {MAX_EVENTS} events can be recorded at once, not {len(new_events)}")
    principal = name_principal(Role.CLIENT, client)
    parsed = [_parse_event(number, event, principal) for number, event in enumerate(new_events, 1)]
    values = {"agent": agent, "channel": channel, "peer": peer, "project": project, "key": key, "id": str(ULID())}
    async with database.transaction() as conn:
        now = database.clock.now()
        session_id = await sessions.open_current(conn, values, now=now)
        result = await events.append(conn, session_id, parsed, now=now, key=idempotency_key)
    return {
        "session": session_id,
        "first_seq": result.first_seq,
        "last_seq": result.last_seq,
        "repeated": result.repeated,
    }


def _parse_event(number: int, event: Mapping[str, Any], principal: str) -> NewEvent:
    event_type, data = event.get("type"), event.get("data", {})
    if not isinstance(event_type, str) or event_type not in set(EventType):
        raise InvalidEvent(f"event {number}: {str(event_type)[:100]!r} is not an event type: {', '.join(EventType)}")
    if not isinstance(data, Mapping):
        raise InvalidEvent(f"event {number}: data is a {type(data).__name__}, not an object")
    if exceeds_max_depth(data):
        raise InvalidEvent(f"event {number}: data is nested deeper than {MAX_DEPTH} levels")
    return NewEvent(EventType(event_type), data, principal=principal)
