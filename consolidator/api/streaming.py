"""Streams of server-sent events: a session's events and pieces as they are committed.

A stream ends with the session, the client or the service. A frame's id is the cursor after it, for Last-Event-ID.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.responses import StreamingResponse

from consolidator.api import problems
from consolidator.api.call import REPEATED_HEADER, Call, to_document
from consolidator.api.guard import EVENT_STREAM
from consolidator.api.problems import Problem
from consolidator.api.schemas import Event, SubAgent
from consolidator.models.viewer import Scope
from consolidator.runtime.live.items import Cursor, FollowedItem
from consolidator.runtime.session import access
from consolidator.runtime.turn.harness import waits_for_driver
from consolidator.runtime.turn.sub_agents import read_sub_agent
from consolidator.service.sessions.following import SessionMarks, keep_alive

ALSO_READ: dict[Scope, str] = {"read": "with `Accept: text/event-stream`"}
STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer; with `Accept: text/event-stream` a stream of events, the last of which is `end`: "
        "its data say why it ends. `id` is for Last-Event-ID.",
        "content": {EVENT_STREAM: {"schema": {"type": "string"}}},
    }
}


def format_frame(kind: str, data: Any, event_id: str | None = None) -> bytes:
    """Return one server-sent event; its data are one line of JSON."""
    lines = [f"event: {kind}", f"data: {to_document(data)}"]
    if event_id is not None:
        lines.insert(0, f"id: {event_id}")
    return ("\n".join(lines) + "\n\n").encode()


async def stream_session(
    call: Call, session_id: str, after: Cursor, *, whole: bool = False, history: bool = False
) -> StreamingResponse:
    """Return the stream of a session's events and pieces after a cursor, and of new ones.

    Raises NotFound, and a problem for a cursor beyond the log, before it begins.
    """
    session = await access.load_session(call.database, session_id, viewer=call.viewer)
    if after.seq > session.head:
        raise Problem(problems.BAD_REQUEST, f"{after} is beyond the end of the session, which is {session.head}")
    return _respond(call, _follow(call, session_id, after, None, whole=whole, history=history))


def stream_turn(call: Call, session_id: str, message_seq: int, *, repeated: bool) -> StreamingResponse:
    """Return the stream of what comes after a message, until it is answered or waits for a person.

    `repeated` tells that the message was sent before with the same key, and not again.
    """
    return _respond(call, _follow(call, session_id, Cursor(message_seq - 1), message_seq), repeated=repeated)


def stream_sub_agent(call: Call, session_id: str, *, repeated: bool) -> StreamingResponse:
    """Return the stream of a sub-agent's log until it ends, with what came of it in the frame before the last."""
    return _respond(call, _follow_sub_agent(call, session_id), repeated=repeated)


def _respond(call: Call, frames: AsyncGenerator[bytes, None], *, repeated: bool = False) -> StreamingResponse:
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"} | ({REPEATED_HEADER: "true"} if repeated else {})

    async def is_authorized() -> bool:
        return await call.services.tokens.authorize(call.request.scope["headers"]) is not None

    content = keep_alive(
        frames, call.services.stopping, is_authorized, lambda why: format_frame("end", {"reason": why})
    )
    return StreamingResponse(content, media_type=EVENT_STREAM, headers=headers)


async def _follow(
    call: Call, session_id: str, after: Cursor, message_seq: int | None, *, whole: bool = False, history: bool = False
) -> AsyncGenerator[bytes, None]:
    """Yield the frames of a session; with a message only until that one is settled, or nobody here can answer it."""
    error: str | None = None
    following = call.services.hub.follow(session_id, after, whole=whole, history=history, viewer=call.viewer)
    async with aclosing(following) as items:
        async for item in items:
            if item.marks is None:
                yield format_frame(item.kind, _frame_data(item), str(item.cursor))
                continue
            if (waiting := _awaited(item.marks)) is not None and waiting != error:
                detail = f"the message is stored and nobody answers it yet: {waiting}"
                path = call.request.url.path
                yield format_frame("error", problems.problem_document(problems.UNANSWERED, detail, path))
            error = waiting
            if (reason := _end_reason(item.marks, message_seq)) is not None:
                yield format_frame("end", {"reason": reason, "head": item.marks.head})
                return
    yield format_frame("end", {"reason": "ended"})


async def _follow_sub_agent(call: Call, session_id: str) -> AsyncGenerator[bytes, None]:
    async with aclosing(_follow(call, session_id, Cursor(0), None)) as frames:
        async for frame in frames:
            if frame.startswith(b"event: end\n"):
                ended = await read_sub_agent(call.database, session_id, viewer=call.viewer)
                yield format_frame("result", SubAgent.of(*ended))
            yield frame


def _frame_data(item: FollowedItem) -> Any:
    """Return what a frame says: an event as pages show it, or what is not one."""
    if item.piece is not None:
        return {"message_id": item.piece.message_id, "piece": item.piece.seq, "text": item.piece.delta}
    if item.event is None:
        return {"after": item.cursor.seq}
    event = Event.of(item.event)
    if item.came_in_pieces:
        event.data = {name: value for name, value in event.data.items() if name != "text"} | {"complete": True}
    return event if item.message_id is None else {"message_id": item.message_id, "event": event.model_dump()}


def _end_reason(marks: SessionMarks, message_seq: int | None) -> str | None:
    """Return why a stream ends where a session stands: nothing more can come, or nobody asked for more."""
    if marks.status != "open":
        return "ended"
    if message_seq is None:
        return None
    if marks.waiting_calls:
        return "attention"
    if marks.settled_to >= message_seq and not marks.pending:
        return "settled"
    return None if _awaited(marks) is None else "unanswered"


def _awaited(marks: SessionMarks) -> str | None:
    """Return which model or tools a session's message waits for; None where it is not held up by that."""
    return marks.error if marks.pending and waits_for_driver(marks.error) else None
