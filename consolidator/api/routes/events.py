"""/v1/sessions/{id}/events and /v1/events: the log of a session, in pages or live; events that happened elsewhere."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from consolidator.api import problems
from consolidator.api.call import Reading, Writing, operation, reply
from consolidator.api.problems import Problem
from consolidator.api.schemas import Event, Input, SessionId
from consolidator.api.streaming import STREAMED, stream_session
from consolidator.errors import UsageError
from consolidator.models.event import Event as LoggedEvent
from consolidator.models.viewer import OWNER
from consolidator.runtime.live.items import Cursor
from consolidator.runtime.session import access
from consolidator.service.encoding import MAX_LENGTH, decode_cursor, encode_cursor
from consolidator.service.log import record
from consolidator.service.log.record import MAX_EVENTS

router = APIRouter(tags=["events"])


class StoredEvent(Event):
    """An event as the log has it: `event_type` is its type."""

    id: int | None = Field(description="grows over all sessions")
    session_id: str
    event_type: str
    consolidated_at: datetime | None = Field(description="when a night learned from it")

    @classmethod
    def of(cls, row: LoggedEvent, **own: Any) -> Self:
        """Return an event as the API shows it."""
        return super().of(row, event_type=row.type.value, **own)


class EventPage(BaseModel):
    """A page of a session's events, in order."""

    session_id: str
    events: list[StoredEvent]
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


MAX_SEQ = 2**53 - 1


@router.get("/sessions/{session_id}/events", **operation("read", EventPage, responses=STREAMED))
async def list_events(
    call: Reading,
    session_id: SessionId,
    after: Annotated[int | None, Query(ge=-MAX_SEQ, le=MAX_SEQ, description="begin after this seq")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="how many at most")] = 100,
    cursor: Annotated[str | None, Query(max_length=MAX_LENGTH, description="next_cursor of the page before")] = None,
    whole: Annotated[bool, Query(description="of a stream: answers as events alone, without their pieces")] = False,
    history: Annotated[bool, Query(description="of a child: first what it reads of its ancestors' logs")] = False,
    last_event_id: Annotated[
        str | None, Header(max_length=200, description="of a stream that broke: it goes on after this one")
    ] = None,
) -> Response:
    """Return a session's events in order.

    With `Accept: text/event-stream` they are streamed, and new ones as they are committed, with the pieces of answers:
    frames `event`, `piece`, `void` (pieces that no longer count) and `gap` (events that retention removed).
    """
    if call.wants_stream:
        start_at = _parse_event_id(last_event_id) or Cursor(after or 0)
        return await stream_session(call, session_id, start_at, whole=whole, history=history)
    position = decode_cursor(f"events {session_id}", cursor, int)
    start = after if position is None else position[0]
    session, page = await access.load_events(
        call.database, session_id, after=start, history=history, limit=limit, viewer=call.viewer
    )
    more = bool(page) and page[-1].seq < session.head
    following = encode_cursor(f"events {session_id}", [page[-1].seq]) if more else None
    shown = {"session_id": session.id, "events": [StoredEvent.of(event) for event in page]}
    return reply({**shown, "head": session.head, "next_cursor": following})


@router.post("/events", **operation("record", Recorded))
async def record_events(call: Writing, body: NewEvents) -> Response:
    """Record what an agent did elsewhere, in the session that this client has under a key; all events, or none.

    With the scope `write`, messages of origin `user` are a person's word; else they are a record, as an agent's word.
    What the owner's token records is a record, too.
    """
    options: dict[str, Any] = {"project": body.project, "idempotency_key": body.idempotency_key}
    options["viewer"] = record.RECORDER if call.viewer == OWNER else call.viewer
    new_events = [event.model_dump(exclude_none=True) for event in body.events]
    return await call.change(Recorded.model_validate, record.record_events, body.session_key, new_events, **options)


def _parse_event_id(text: str | None) -> Cursor | None:
    """Return the cursor that an id of a stream names; None without an id."""
    if text is None or text == "":
        return None
    try:
        return Cursor.parse(text)
    except UsageError as error:
        raise Problem(problems.BAD_REQUEST, "Last-Event-ID is none that a stream of this session sent") from error
