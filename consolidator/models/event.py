"""An event of a session's log: the value that memory and the front ends see, its row, its pieces, and its task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any

from consolidator.models import ESCAPED
from consolidator.models.payload import EventType
from consolidator.models.principal import find_role, is_persons_word, name_principal

_MAX_CACHED_CHARS = 64  # of a time that is cached


def parse_timestamp(text: Any) -> datetime | None:
    """Return a foreign log's ISO 8601 time as an aware datetime, in UTC if it has no zone; None if it is not one."""
    if not isinstance(text, str):
        return None
    return _parse_cached(text) if len(text) <= _MAX_CACHED_CHARS else _parse_timestamp(text)


def _parse_timestamp(text: str) -> datetime | None:
    try:
        parsed = datetime.fromisoformat(text)
        return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # the calendar's first and last hours overflow in some zones
        return None


_parse_cached = lru_cache(maxsize=256)(_parse_timestamp)  # each event's time is read several times


def parse_utc_offset(text: Any) -> timedelta | None:
    """Return the UTC offset of a foreign log's ISO 8601 time; None if it has none."""
    try:
        return datetime.fromisoformat(text).utcoffset() if isinstance(text, str) else None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event as the table holds it; texts are escaped as PostgreSQL needs them, and large values are in blobs."""

    id: int
    session_id: str
    seq: int
    event_type: str
    data: dict[str, Any]
    created_at: datetime
    consolidated_at: datetime | None
    task_id: str | None
    tool_name: str | None
    principal: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it was logged: its row with a complete payload."""

    session_id: str
    seq: int
    type: EventType
    data: Mapping[str, Any]
    created_at: datetime
    consolidated_at: datetime | None = None
    task_id: str | None = None
    tool_name: str | None = None
    id: int | None = None
    principal: str | None = None  # who says it (see `models.principal`); null in events from before principals
    unreadable: str | None = None  # which of its values are lost, and where: their blobs are gone or damaged

    @property
    def occurred_at(self) -> datetime:
        """When it happened according to a foreign log, else when it was ingested; never after that."""
        return min(parse_timestamp(self.data.get("occurred_at")) or self.created_at, self.created_at)

    @property
    def is_persons_word(self) -> bool:
        """Whether a message is what a person said, by its door and its payload."""
        return is_persons_word(self.principal, self.data)

    @property
    def is_user_message(self) -> bool:
        """Whether it is a message of the user's side, by its payload alone."""
        return self.type is EventType.USER_MESSAGE and self.data.get("origin", "user") == "user"

    def to_local_time(self, zone: tzinfo) -> datetime:
        """When it happened in local time: at the log's own UTC offset if it has one, else in `zone`."""
        offset = parse_utc_offset(self.data.get("occurred_at"))
        with suppress(OverflowError):  # the calendar's first and last hours overflow in some zones
            return self.occurred_at.astimezone(timezone(offset) if offset else zone)
        return self.occurred_at


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to append."""

    type: EventType
    data: Mapping[str, Any] = field(default_factory=dict)
    task_id: str | None = None
    tool_name: str | None = None
    principal: str | None = None  # who says it, set by whoever appends it and never from a payload


def with_principals(new_events: Iterable[NewEvent], name: str | None = None) -> list[NewEvent]:
    """Return events with the principals that their types imply, where they have none; `name` goes to each of them."""
    return [
        event
        if event.principal is not None
        else replace(event, principal=name_principal(find_role(event.type, event.data), name))
        for event in new_events
    ]


_TASK_EVENTS = (EventType.TASK_START, EventType.TASK_END)
_MOVES = (*_TASK_EVENTS, EventType.SESSION_END)


def follow_task(open_task: str | None, event_type: EventType, data: Mapping[str, Any]) -> str | None:
    """Return the id of the task that is open after an event; None if none is."""
    if event_type is EventType.TASK_START:
        return str(data.get("task_id"))
    if event_type is EventType.SESSION_END or (
        event_type is EventType.TASK_END and str(data.get("task_id")) == open_task
    ):
        return None
    return open_task


def number_tasks(new_events: Sequence[NewEvent], open_task: str | None) -> tuple[list[NewEvent], str | None]:
    """Return events, each with the id of the task that it belongs to, and the task that is open after them.

    `open_task` is the one that is open before them. An event that names a task keeps it.
    """
    numbered = []
    for event in new_events:
        before, open_task = open_task, follow_task(open_task, event.type, event.data)
        own = event.data.get("task_id") if event.type in _TASK_EVENTS else before
        is_named = event.task_id is not None or not isinstance(own, str)
        numbered.append(event if is_named else replace(event, task_id=own))
    return numbered, open_task


def concern_task(new_events: Sequence[NewEvent]) -> bool:
    """Tell whether it matters to events which task is open: they get its id, or they change it."""
    return any(event.task_id is None or event.type in _MOVES for event in new_events)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a message's text, committed before anybody saw it."""

    message_id: str = field(metadata=ESCAPED)
    seq: int  # dense in its message, from 1
    delta: str = field(metadata=ESCAPED)
    started_seq: int  # the event that began the message


@dataclass(frozen=True, slots=True)
class PlacedChunk(Chunk):
    """A chunk, and where it stands among the events."""

    after_seq: int | None  # the last event before it, where that is stored


@dataclass(frozen=True, slots=True)
class ChunkRow(PlacedChunk):
    """A chunk, and when it was committed."""

    created_at: datetime


def comes_before(chunk: ChunkRow, event: Event) -> bool:
    """Tell whether a chunk was committed before an event: by the clock alone where nothing else is stored."""
    if chunk.started_seq >= event.seq:
        return False
    return chunk.created_at <= event.created_at if chunk.after_seq is None else chunk.after_seq < event.seq
