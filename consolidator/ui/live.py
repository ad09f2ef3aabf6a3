"""Streams a session to a browser: its events as pieces of the page, and its answers as they are written."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse

from consolidator.runtime.live.items import Cursor, FollowedItem
from consolidator.runtime.turn.harness import waits_for_driver
from consolidator.service.sessions import access
from consolidator.service.sessions.following import SessionMarks, follow, keep_alive
from consolidator.ui.conversation import to_entry
from consolidator.ui.guard import PREFIX, PageProblem, cookie_name
from consolidator.ui.rendering import show_text
from consolidator.ui.view import PageRequest


async def stream_session(page: PageRequest, session_id: str) -> Response:
    """Return the stream of what comes in a session after the event that the address or the browser names.

    Raises NotFound, and a problem where nothing follows sessions here.
    """
    services, viewer = page.services, page.viewer
    if services.hub is None:
        raise PageProblem(503, "Nothing is streamed here", "Load the page again to see what came.")
    session = await access.load_session(services.database, session_id, viewer=viewer)
    named = page.headers.get("last-event-id") or page.query_params.get("after") or str(session.head)
    after = Cursor.parse(named[:40])
    frames = _frames(page, session.id, after)
    headers = {"x-accel-buffering": "no"}
    login = page.cookies.get(cookie_name(page.headers), "")

    async def is_logged_in() -> bool:
        return services.logins.find(login) is not None

    def end(reason: str) -> bytes | None:
        return _frame("end", "") if reason == "unauthorized" else None  # else the browser connects again, and goes on

    content = keep_alive(frames, services.stopping, is_logged_in, end)
    return StreamingResponse(content, media_type="text/event-stream", headers=headers)


async def _frames(page: PageRequest, session_id: str, after: Cursor) -> AsyncGenerator[bytes, None]:
    services, viewer = page.services, page.viewer
    assert services.hub is not None
    async with aclosing(follow(services.hub, session_id, after=after, viewer=viewer)) as items:
        async for item in items:
            if (frame := _to_frame(page, item)) is not None:
                yield frame
    yield _frame("end", "")


def _to_frame(page: PageRequest, item: FollowedItem) -> bytes | None:
    """Return what a browser is sent of an item; None where it is nothing to see."""
    cursor = str(item.cursor)
    if item.piece is not None:
        said = {"message": item.piece.message_id, "text": show_text(item.piece.delta, 100_000)}
        return _frame("piece", json.dumps(said), cursor)
    if item.marks is not None:
        return _frame("state", json.dumps(_describe_state(item.marks, is_driving=page.services.is_driving)))
    if item.event is None:
        return None
    entry = None if item.came_in_pieces else to_entry(item.event)
    environment = page.services.environment
    html = ""
    if entry is not None:
        macro = environment.get_template("conversation.html").module.said  # type: ignore[attr-defined]
        html = str(macro(PREFIX, item.session_id, entry))
    closes = item.came_in_pieces or item.message_id is not None
    return _frame("event", json.dumps({"html": html, "closes": closes, "void": item.kind == "void"}), cursor)


def _describe_state(marks: SessionMarks, *, is_driving: bool) -> dict[str, str]:
    """Return where a session stands in a word, and why nobody answers in it."""
    if marks.waiting_calls:
        return {"state": "waits for a decision", "why": ""}
    if not marks.pending:
        return {"state": marks.status, "why": ""}
    if waits_for_driver(marks.error):
        return {"state": "nobody answers", "why": show_text(marks.error, 1000)}
    return {"state": "working" if is_driving else "pending", "why": ""}


def _frame(kind: str, data: str, cursor: str | None = None) -> bytes:
    """Return one server-sent event; its data are one line."""
    lines = ([f"id: {cursor}"] if cursor else []) + [f"event: {kind}", f"data: {data}", "", ""]
    return "\n".join(lines).encode()
