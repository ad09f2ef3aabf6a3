"""Events as the API shows them, and batches of events to record."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, Field

from consolidator.api.schemas.rows import RowAnswer
from consolidator.api.schemas.session import Input
from consolidator.models.event import Event as LoggedEvent
from consolidator.service.log.record import MAX_EVENTS


class Event(RowAnswer):
    """One event of a session's log."""

    seq: int = Field(description="its place in the session, dense")
    type: str = Field(examples=["UserMessage"])
    data: dict[str, Any] = Field(description="the payload of its type")
    created_at: datetime = Field(description="when it was logged")
    task_id: str | None
    tool_name: str | None
    principal: str | None = Field(description="who says it, such as user:web or agent")

    @classmethod
    def of(cls, row: LoggedEvent, **own: Any) -> Self:
        """Return an event as the API shows it."""
        return super().of(row, type=row.type.value, data=dict(row.data), **own)


class EventPage(BaseModel):
    """A page of a session's events, in order."""

    session_id: str
    events: list[Event]
    head: int = Field(description="seq of the session's last event")
    next_cursor: str | None = Field(description="for the next page; null where there was nothing more")


class NewEvent(Input):
    """An event that happened elsewhere."""

    type: str = Field(max_length=100, examples=["UserMessage"])
    data: dict[str, Any] = Field(default_factory=dict, examples=[{"text": "From now on, use tabs."}])
    task_id: str | None = Field(default=None, max_length=200)


class NewEvents(Input):
    """Events to record in the session that this client has under a key."""

    session_key: str = Field(min_length=1, max_length=300, description="agent:channel:peer", examples=["main:cli:mara"])
    events: list[NewEvent] = Field(min_length=1, max_length=MAX_EVENTS)
    project: str | None = Field(default=None, max_length=1000, description="working directory or repository")
    idempotency_key: str | None = Field(
        default=None, min_length=1, max_length=200, description="kept in the log: longer than the header's"
    )


class Recorded(BaseModel):
    """Where events were written."""

    session: str
    first_seq: int
    last_seq: int
    repeated: bool = Field(description="whether the log has them from an earlier request")
