"""Records what an agent elsewhere did, in the current session that a client has under a key.

The events are the client's, whatever their payloads claim: it appends to no session but those it opened itself, and
says nothing that only a person, an operator or the runtime may say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from consolidator.database import Database
from consolidator.errors import InvalidEvent, KeyReused
from consolidator.formats.common.agent_words import is_accepted_plan
from consolidator.formats.common.json_parsing import MAX_DEPTH, exceeds_max_depth
from consolidator.models.event import NewEvent, parse_timestamp
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, name_principal
from consolidator.models.viewer import Viewer
from consolidator.runtime.session.creation import parse_key
from consolidator.store.log import events
from consolidator.store.sessions import sessions

MAX_EVENTS = 500  # in one call
MAX_AHEAD = timedelta(days=1)  # of the clock: what happens later has not happened
RECORDER = Viewer(scopes=frozenset({"read", "record"}))  # the owner's own agents: their records are no person's word


async def record_events(
    database: Database,
    key: str,
    new_events: Sequence[Mapping[str, Any]],
    *,
    project: str | None = None,
    idempotency_key: str | None = None,
    viewer: Viewer = RECORDER,
) -> dict[str, Any]:
    """Append events to the session that a client has under a key (`agent:channel:peer`); open one if there is none.

    Each event is `{"type": "UserMessage", "data": {...}, "task_id": ...}`. With an `idempotency_key`, a repeated call
    writes nothing and returns the first call's seqs, also after its session has ended. Raises UsageError for a
    malformed key, KeyReused for an idempotency key of other events, Forbidden without the scope, and InvalidEvent for a
    malformed event or one that no client may record; then nothing is written.
    """
    viewer.check_may("record")
    agent, channel, peer = parse_key(key)
    narrowed = viewer.narrow(agent=agent, project=project, peer=peer)
    if not 1 <= len(new_events) <= MAX_EVENTS:
        raise InvalidEvent(f"between 1 and {MAX_EVENTS} events can be recorded at once, not {len(new_events)}")

    latest = database.clock.now() + MAX_AHEAD
    parsed = [_parse_event(number, event, viewer, latest) for number, event in enumerate(new_events, 1)]
    values = {
        "key": key,
        "agent": narrowed.agent,
        "channel": channel,
        "peer": narrowed.peer,
        "project": narrowed.project,
        "recorded_by": viewer.name,
    }

    async with database.transaction() as conn:
        now = database.clock.now()
        answered = None
        if idempotency_key is not None:
            answered = await sessions.find_answered(conn, key, viewer.name, idempotency_key)
        session_id = answered or await sessions.open_current(conn, values, now=now)
        result = await events.append(conn, session_id, parsed, now=now, key=idempotency_key)
        if result.repeated and not await events.are_stored(conn, session_id, result, parsed):
            raise KeyReused("this idempotency key came with other events: nothing was written, use a new key for each")

    return {
        "session": session_id,
        "first_seq": result.first_seq,
        "last_seq": result.last_seq,
        "repeated": result.repeated,
    }


def _parse_event(number: int, event: Mapping[str, Any], viewer: Viewer, latest: datetime) -> NewEvent:
    event_type, data = event.get("type"), event.get("data", {})
    if not isinstance(event_type, str) or event_type not in set(EventType):
        raise InvalidEvent(f"event {number}: {str(event_type)[:100]!r} is not an event type: {', '.join(EventType)}")
    if not isinstance(data, Mapping):
        raise InvalidEvent(f"event {number}: data is a {type(data).__name__}, not an object")
    if exceeds_max_depth(data):
        raise InvalidEvent(f"event {number}: data is nested deeper than {MAX_DEPTH} levels")
    speaker = data.get("speaker")
    if speaker is not None and not viewer.may_speak_as(speaker):
        raise InvalidEvent(f"event {number}: this credential is for one peer, who is the speaker: leave speaker out")
    occurred_at = parse_timestamp(data.get("occurred_at"))
    if occurred_at is not None and occurred_at > latest:
        raise InvalidEvent(f"event {number}: occurred_at is more than a day ahead of the clock")
    task_id = event.get("task_id", data.get("task_id"))
    if task_id is not None and not isinstance(task_id, str):
        raise InvalidEvent(f"event {number}: task_id is a {type(task_id).__name__}, not a text")
    kind = EventType(event_type)
    is_typed = data.get("origin", "user") == "user" and not is_accepted_plan(str(data.get("text") or ""))
    is_forwarded = kind is EventType.USER_MESSAGE and viewer.may("write") and is_typed
    principal = name_principal(Role.USER if is_forwarded else Role.CLIENT, viewer.name)
    return NewEvent(kind, data, task_id, principal=principal)
