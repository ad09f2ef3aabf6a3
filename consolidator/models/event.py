"""An event of a session's log: the value that memory and the front ends see, its row, and its table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any

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
