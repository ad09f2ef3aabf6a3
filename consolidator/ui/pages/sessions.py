"""Sessions: the list, one as a conversation, live or as it was once, two side by side, and what people do."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from consolidator.errors import UsageError
from consolidator.models.memory_filter import MemoryScope
from consolidator.models.session import SessionCursor, SessionFilter, SessionRow
from consolidator.runtime.lineage import checkpoints
from consolidator.runtime.live.items import Cursor, FollowedItem
from consolidator.runtime.session import access
from consolidator.runtime.turn import sessions as runtime
from consolidator.runtime.turn.harness import waits_for_driver
from consolidator.runtime.turn.sessions import MessageMode
from consolidator.service.memory.recall import recall
from consolidator.service.sessions import listing
from consolidator.service.sessions.context import rebuild_context
from consolidator.service.sessions.costs import load_costs
from consolidator.service.sessions.following import SessionMarks, keep_alive
from consolidator.service.sessions.reruns import MAX_EVENTS, compare_pair
from consolidator.ui.conversation import fold_entries, list_texts, to_entry, to_text
from consolidator.ui.drawing import draw_family, draw_waterfall
from consolidator.ui.guard import PREFIX, cookie_name
from consolidator.ui.view import PAGE_SIZE, Entry, PageModule, PageRequest, fit_texts, redirect, route, show_text


async def stream_session(page: PageRequest, session_id: str) -> Response:
    """Return the stream of what comes in a session after the event that the address or the browser names.

    Raises NotFound.
    """
    services, viewer = page.services, page.viewer
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
    async with aclosing(services.hub.follow(session_id, after, viewer=viewer)) as items:
        async for item in items:
            if (frame := _to_frame(page, item)) is not None:
                yield frame
    yield _frame("end", "")


def _to_frame(page: PageRequest, item: FollowedItem) -> bytes | None:
    """Return what a browser is sent of an item; None where it is nothing to see."""
    cursor = str(item.cursor)
    if item.piece is not None:
        data = {"message": item.piece.message_id, "text": show_text(item.piece.delta, 100_000)}
        return _frame("piece", json.dumps(data), cursor)
    if item.marks is not None:
        return _frame("state", json.dumps(_describe_state(item.marks, is_driving=page.services.is_driving)))
    if item.event is None:
        return None
    entry = None if item.came_in_pieces else to_entry(item.event)
    environment = page.services.environment
    html = ""
    if entry is not None:
        macro = environment.get_template("sessions/conversation.html").module.said  # type: ignore[attr-defined]
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


EVENTS_SHOWN = 100  # of a conversation on one page
RUNS_SHOWN = 5  # of its conversation, beside it
EVENTS_BEFORE = 20  # a point of it, when it is replayed
CONVERSATION_KB, REPLAY_KB = 110, 60  # that its texts take of a page; a replay has them twice
MAX_OUTLINED = 3000  # events of a picture
MAX_SEQ = 2**53 - 1
STATUSES = ("open", "running", "waiting", "pending", "failed", "ended")
_MODES: dict[str, MessageMode] = {"message": "message", "steer": "steer", "follow_up": "follow_up"}


async def show_sessions(page: PageRequest) -> Response:
    """List sessions, the latest first, or what was said in them that a search finds."""
    services, viewer = page.services, page.viewer
    filters = page.read_filter("query", "agent", "project", "peer", "conversation", "status")
    if filters["status"] not in (None, *STATUSES):
        raise UsageError(f"a status is one of: {', '.join(STATUSES)}")

    if filters["query"]:
        answer = await recall(
            services.database,
            filters["query"],
            MemoryScope(filters["agent"], filters["project"], filters["peer"]),
            token_budget=6000,
            limit=PAGE_SIZE,
            settings=services.settings,
            viewer=viewer,
            occasion="page",
        )
        hits = [(item, item.events[0]) for item in answer.items if item.events]
        return page.show("sessions/sessions.html", filters=filters, statuses=STATUSES, hits=hits)

    selection = SessionFilter(
        agent=filters["agent"],
        project=filters["project"],
        peer=filters["peer"],
        conversation=filters["conversation"],
        status=filters["status"],  # type: ignore[arg-type] # it is one of STATUSES
    )

    of = f"sessions {selection}"
    position = page.read_moment(of)
    after = None if position is None else SessionCursor(*position)
    listed = await listing.list_sessions(services.database, selection, after=after, limit=PAGE_SIZE, viewer=viewer)
    rows = _to_rows(page, listed)
    last = None if listed.next is None else [listed.next.at.isoformat(), listed.next.id]
    values = page.list_values(of, rows, last)
    return page.show("sessions/sessions.html", filters=filters, statuses=STATUSES, hits=None, **values)


def _to_rows(page: PageRequest, listed: listing.SessionPage) -> list[tuple[SessionRow, str | None, str]]:
    """Return each session with its title and what it is doing."""
    now = page.database.clock.now()
    return [(row, listed.titles.get(row.id), listing.session_status(row, now)) for row in listed.sessions]


async def _load_runs(page: PageRequest, session: SessionRow) -> list[tuple[SessionRow, str | None, str]]:
    """Return the latest other sessions of a session's conversation."""
    if session.conversation_id is None:
        return []
    of = SessionFilter(conversation=session.conversation_id)
    listed = await listing.list_sessions(page.database, of, limit=RUNS_SHOWN + 1, viewer=page.viewer)
    return [row for row in _to_rows(page, listed) if row[0].id != session.id][:RUNS_SHOWN]


async def show_session(page: PageRequest) -> Response:
    """Show a session as a conversation; with `at`, as it was at that event, with what its model was shown."""
    services, viewer = page.services, page.viewer
    database = services.database
    details = await listing.show_session(
        database, services.settings, page.path_params["session_id"], with_context=False, viewer=viewer
    )
    session, at = details.session, _read_at(page)
    if session.id != page.path_params["session_id"]:
        return redirect(f"/sessions/{quote(session.id)}" + (f"?at={at}" if at is not None else ""))
    if at is not None:
        return await _show_at(page, details, at)

    of = f"events {session.id}"
    position = page.read_cursor(of, int)
    whole = session.head - session.base_seq <= EVENTS_SHOWN
    is_open = session.status == "open" and not session.is_driven_elsewhere
    from_end = position is None and not whole and (is_open or "end" in page.query_params)
    after = session.head - EVENTS_SHOWN if from_end else (session.base_seq if position is None else position[0])

    _, events = await access.load_events(database, session.id, after=after, limit=EVENTS_SHOWN, viewer=viewer)
    last = events[-1].seq if events else session.head
    first = max(session.base_seq, session.pruned_to) + 1
    more = [last] if last < session.head else None
    _, total = await load_costs(database, "model", session_id=session.id)
    family = await _load_family(page, session)
    entries = fold_entries(events)

    return page.show(
        "sessions/session.html",
        details=details,
        session=session,
        entries=entries,
        most=fit_texts(list_texts(entries), CONVERSATION_KB),
        first=events[0].seq if events else 0,
        last=last,
        more=page.next_address(of, more),
        beginning=None if not events or events[0].seq <= first else page.next_address(of, [session.base_seq]),
        cost=total,
        family=family,
        runs=await _load_runs(page, session),
        can_speak=is_open,
        is_driving=services.is_driving,
        is_unanswered=session.pending and waits_for_driver(session.error),
        is_live=is_open and last >= session.head,
    )


async def show_picture(page: PageRequest) -> Response:
    """Show a session as a picture: its steps in time, and what it taught beside what proves it."""
    outline = await listing.load_outline(
        page.database, page.path_params["session_id"], limit=MAX_OUTLINED, viewer=page.viewer
    )
    waterfall = draw_waterfall(outline.rows, outline.taught)
    names = {row.id: number for number, row in enumerate({row.id: row for row in outline.taught}.values(), 1)}
    return page.show(
        "sessions/picture.html", session=outline.session, waterfall=waterfall, taught=outline.taught, names=names
    )


async def _show_at(page: PageRequest, details: listing.SessionDetails, at: int) -> Response:
    """Show the replay at an event: what was there, and what the model was shown before it."""
    services, viewer = page.services, page.viewer
    session = details.session
    shown = await rebuild_context(services.database, services.settings, session.id, at, viewer=viewer)
    _, events = await access.load_events(
        services.database, session.id, after=shown.at - EVENTS_BEFORE, history=True, limit=EVENTS_BEFORE, viewer=viewer
    )
    entries = fold_entries(event for event in events if event.seq <= shown.at)
    parts = [] if shown.context is None else _to_parts(shown.context.messages)
    return page.show(
        "sessions/replay.html",
        details=details,
        session=session,
        at=shown.at,
        first=max(session.base_seq, session.pruned_to) + 1,
        shown=shown,
        parts=parts,
        most_shown=fit_texts([text for _, text in parts], REPLAY_KB),
        entries=entries,
        most=fit_texts(list_texts(entries), REPLAY_KB),
    )


def _to_parts(shown: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the messages of a context as (role, text)."""
    parts = []
    for message in shown:
        text = to_text(message.get("content"))
        calls = message.get("tool_calls") or ()
        text += "".join(f"\n→ {call['function']['name']} {call['function']['arguments']}" for call in calls)
        parts.append((str(message.get("role")), text.strip("\n")))
    return parts


async def _load_family(page: PageRequest, session: SessionRow) -> Any:
    """Return the drawing of a session's lineage; None where it has neither relatives nor checkpoints."""
    database, viewer = page.database, page.viewer
    family = await listing.list_family(database, session.id, viewer=viewer)
    of = [row.id for row in family.sessions]
    points = await checkpoints.list_checkpoints_of_each(database, of, viewer=viewer)
    if len(family.sessions) < 2 and not points:
        return None
    return draw_family(family.sessions, family.titles, points)


async def say(page: PageRequest) -> Response:
    """Send what a person types into a session: a message, a steer or a follow-up."""
    session_id, form = page.path_params["session_id"], page.form_fields
    mode = _MODES.get(form.get("mode", "message"))
    if mode is None:
        raise UsageError("a message is one of: message, steer, follow_up")
    database, viewer = page.database, page.viewer
    await runtime.send_message(database, session_id, form.get("text", ""), mode=mode, viewer=viewer)
    return redirect(f"/sessions/{quote(session_id)}#end")


async def stop(page: PageRequest) -> Response:
    """End what is under way in a session; it stays open."""
    session_id = page.path_params["session_id"]
    await runtime.stop_turn(page.database, session_id, viewer=page.viewer)
    return redirect(f"/sessions/{quote(session_id)}#end")


async def end(page: PageRequest) -> Response:
    """End a session; its log stays."""
    session_id = page.path_params["session_id"]
    await runtime.end_session(page.database, session_id, viewer=page.viewer)
    return redirect(f"/sessions/{quote(session_id)}#end")


async def watch(page: PageRequest) -> Response:
    """Stream what comes in a session, as pieces of the page."""
    return await stream_session(page, page.path_params["session_id"])


def _read_at(page: PageRequest) -> int | None:
    text = page.query_params.get("at", "").strip()
    if not text:
        return None
    digits = text.removeprefix("-")
    if not digits.isdecimal() or len(digits) > 15:
        raise UsageError("`at` is the number of an event, such as 12")
    return int(text)


SESSIONS = PageModule(
    Entry("/sessions", "All sessions"),
    (
        route("/sessions", show_sessions),
        route("/sessions/{session_id}", show_session),
        route("/sessions/{session_id}/live", watch),
        route("/sessions/{session_id}/picture", show_picture),
        route("/sessions/{session_id}/say", say, methods=["POST"]),
        route("/sessions/{session_id}/stop", stop, methods=["POST"]),
        route("/sessions/{session_id}/end", end, methods=["POST"]),
    ),
)
MAX_TURNS = 50  # that a page shows


async def show_comparison(page: PageRequest) -> Response:
    """Show how two sessions differ, or a form that asks which."""
    filters = page.read_filter("left", "right", "all")
    pair = None
    if filters["left"] is not None:
        pair = await compare_pair(page.database, filters["left"], filters["right"] or "", viewer=page.viewer)
    turns = list(pair.comparison.turns if filters["all"] else pair.comparison.differences()) if pair else []
    return page.show(
        "sessions/compare.html",
        filters=filters,
        pair=pair,
        turns=turns[:MAX_TURNS],
        more=max(len(turns) - MAX_TURNS, 0),
        limit=MAX_EVENTS,
    )


COMPARE = PageModule(Entry("/compare", "Compare"), (route("/compare", show_comparison),))
