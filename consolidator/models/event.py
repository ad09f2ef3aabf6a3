"""An event of a session's log: the row as memory and the front ends see it, and its table."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

from sqlalchemy import BigInteger, text
from sqlmodel import Field, SQLModel

from consolidator.models.columns import (
    bigint_column,
    json_object_column,
    nullable_text_column,
    nullable_timestamp_column,
    text_column,
    timestamp_column,
)
from consolidator.models.payload import EventType


def parse_timestamp(told: Any) -> datetime | None:
    """Return a foreign log's word for a time as an aware datetime, where it is one; without a zone it is UTC."""
    if not isinstance(told, str):
        return None
    try:
        found = datetime.fromisoformat(told)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # the first and last hours of the calendar do not exist everywhere
        return None


def parse_utc_offset(told: Any) -> timedelta | None:
    """Return how far from UTC a foreign log's clock is, where its word for a time says so."""
    try:
        return datetime.fromisoformat(told).utcoffset() if isinstance(told, str) else None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event as the table holds it; texts are escaped as PostgreSQL needs them, and large values are in blobs."""

    id: int
    session_id: str
    seq: int  # dense in its session, from 1
    event_type: str
    data: dict[str, Any]  # the payload; `data_ref` in it refers to the values that are in blobs
    created_at: datetime  # when it was ingested
    consolidated_at: datetime | None  # when it was learned from
    task_id: str | None
    tool_name: str | None


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

    @property
    def occurred_at(self) -> datetime:
        """When it happened by the foreign log's word, else when it was ingested."""
        return parse_timestamp(self.data.get("occurred_at")) or self.created_at

    def to_local_time(self, zone: tzinfo) -> datetime:
        """When it happened, by the clock on the wall there: the log's own, where it tells one, else a zone's."""
        offset = parse_utc_offset(self.data.get("occurred_at"))
        with suppress(OverflowError):  # the first and last hours of the calendar do not exist everywhere
            return self.occurred_at.astimezone(timezone(offset) if offset else zone)
        return self.occurred_at


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event that is to be appended."""

    type: EventType
    data: Mapping[str, Any] = field(default_factory=dict)
    task_id: str | None = None
    tool_name: str | None = None


class EventTable(SQLModel, table=True):
    """The log: partitioned by day of `created_at`, append-only; only `consolidated_at` is ever updated, once."""

    __tablename__ = "event"
    __table_args__ = {"postgresql_partition_by": "RANGE (created_at)"}

    id: int = Field(
        sa_type=BigInteger, nullable=False, sa_column_kwargs={"server_default": text("nextval('event_id_seq')")}
    )
    session_id: str = text_column(primary_key=True)
    seq: int = bigint_column(primary_key=True)
    event_type: str = text_column()
    data: dict[str, Any] = json_object_column()
    created_at: datetime = timestamp_column(primary_key=True)
    consolidated_at: datetime | None = nullable_timestamp_column()
    task_id: str | None = nullable_text_column()
    tool_name: str | None = nullable_text_column()


class IdempotencyKeyTable(SQLModel, table=True):
    """What a retriable append was answered the first time."""

    __tablename__ = "idempotency"

    session_id: str = text_column(primary_key=True)
    key: str = text_column(primary_key=True)
    first_seq: int = bigint_column()
    last_seq: int = bigint_column()
    created_at: datetime = timestamp_column()
