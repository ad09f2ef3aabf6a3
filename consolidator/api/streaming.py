"""Streams of server-sent events: a session's log as it grows, until the client or the service goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.responses import StreamingResponse

from consolidator.api.call import Call
from consolidator.api.guard import EVENT_STREAM
from consolidator.api.replies import to_document
from consolidator.api.schemas.event import Event
from consolidator.models.session import SessionRow
from consolidator.service.sessions import lookup

POLL_SECONDS = 0.25  # between two looks at the log
KEEP_ALIVE_SECONDS = 15.0  # between two signs of life; then the token is looked at again, too
_EVENTS_PER_READ = 200
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


async def stream_session(call: Call, session_id: str, after: int) -> StreamingResponse:
    """Return the stream of a session's events after a seq, and of new ones. Raises NotFound before it begins."""
    await lookup.load_session(call.database, session_id, viewer=call.viewer)
    return _respond(call, _follow(call, session_id, after, None))


def stream_turn(call: Call, session_id: str, message_seq: int) -> StreamingResponse:
    """Return the stream of what comes after a message, until it is answered or waits for a person."""
    return _respond(call, _follow(call, session_id, message_seq - 1, message_seq))


def _respond(call: Call, frames: AsyncIterator[bytes]) -> StreamingResponse:
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_with_signs_of_life(call, frames), media_type=EVENT_STREAM, headers=headers)


async def _with_signs_of_life(call: Call, frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield frames, a comment where none comes for a while, and the reason where the service or the token ends."""
    stopping = asyncio.create_task(call.services.stopping.wait())
    coming: asyncio.Future[bytes] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(frames))
            done, _ = await asyncio.wait(
                (coming, stopping), timeout=KEEP_ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if coming in done:
                frame, coming = coming, None
                try:
                    yield frame.result()
                except StopAsyncIteration:
                    return
                continue
            if stopping in done:
                yield format_frame("end", {"reason": "stopping"})
                return
            if await call.services.tokens.authorize(call.request.scope["headers"]) is None:
                yield format_frame("end", {"reason": "unauthorized"})
                return
            yield b": still here\n\n"
    finally:
        stopping.cancel()
        if coming is not None:
            coming.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await coming


async def _follow(call: Call, session_id: str, after: int, message_seq: int | None) -> AsyncIterator[bytes]:
    """Yield the frames of a session's events; with a message only until that one is settled."""
    seq = after
    while True:
        session, page = await lookup.load_events(
            call.database, session_id, after=seq, limit=_EVENTS_PER_READ, viewer=call.viewer
        )
        for event in page:
            seq = event.seq
            yield format_frame("event", Event.of(event), str(seq))
        if seq >= session.head:
            reason = _end_reason(session, message_seq)
            if reason is not None:
                yield format_frame("end", {"reason": reason, "head": session.head})
                return
            await asyncio.sleep(POLL_SECONDS)


def _end_reason(session: SessionRow, message_seq: int | None) -> str | None:
    """Return why a stream ends at a session's head: that is where nothing more can come, or nobody asked for more."""
    if session.status != "open":
        return "ended"
    if message_seq is None:
        return None
    if session.attention:
        return "attention"
    return "settled" if session.settled_to >= message_seq and not session.pending else None
