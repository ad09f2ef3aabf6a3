"""/v1/sessions: open, list, show, end and delete sessions; all that a surface needs to show one."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from consolidator.api.call import Call, Reading, Writing, operation, reply, to_answer
from consolidator.api.parameters import Sessions
from consolidator.api.schemas.hydrate import HydratedSession, WholeSession
from consolidator.api.schemas.session import (
    ContextUse,
    EndSession,
    OpenSession,
    Session,
    SessionId,
    SessionPage,
    Woken,
    parse_labels,
)
from consolidator.models.session import SessionCursor, SessionOrder, SessionRow
from consolidator.runtime.session.hydration import MAX_MESSAGES
from consolidator.service.database import Database
from consolidator.service.encoding import MAX_LENGTH, decode_cursor, encode_cursor
from consolidator.service.requests import Answer
from consolidator.service.sessions import access, lifecycle, listing, state

router = APIRouter(tags=["sessions"])
Limit = Annotated[int, Query(ge=1, le=200, description="how many at most")]
Cursor = Annotated[str | None, Query(max_length=MAX_LENGTH, description="next_cursor of the page before")]


@router.post("/sessions", **operation("write", Session, 201))
async def open_session(call: Writing, body: OpenSession) -> Response:
    """Return the session that a key names now, or create one: with `new`, without a key, or where the key names none.

    What the request leaves out is the agent's. On a session that exists, what is not null is set, labels and metadata
    are added name by name, and another project, conversation, trigger or seeds than it began with are a 409 `conflict`.
    """

    async def work(database: Database) -> Answer:
        request = body.to_request(call.driver_tools)
        if body.key is not None and not body.new:
            row = await lifecycle.open_session(database, call.settings, body.key, request, viewer=call.viewer)
        else:
            row = await lifecycle.create_session(
                database,
                call.settings,
                request,
                agent=body.agent,
                channel=body.channel,
                peer=body.peer,
                key=body.key,
                viewer=call.viewer,
            )
        return to_answer(show(call, row), row.id, status=201, location=f"/v1/sessions/{row.id}")

    return await call.answer_once(work)


@router.get("/sessions", **operation("read", SessionPage))
async def list_sessions(
    call: Reading,
    filters: Sessions,
    label: Annotated[list[str] | None, Query(max_length=20, description="NAME=TEXT; all of them")] = None,
    space_id: Annotated[str | None, Query(max_length=500, description="the label of this name")] = None,
    mailbox_id: Annotated[str | None, Query(max_length=500, description="the label of this name")] = None,
    order: Annotated[SessionOrder, Query(description="runs: the oldest first")] = "latest",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List the sessions within the credential's reach, page by page."""
    owner = {"space_id": space_id, "mailbox_id": mailbox_id}
    labels = {name: value for name, value in owner.items() if value is not None}
    filters = replace(filters, labels={**labels, **(parse_labels(label or []) or {})} or None)
    of = f"sessions {call.viewer.name} {order} {filters}"
    position = decode_cursor(of, cursor, str, str)
    after = None if position is None else SessionCursor(datetime.fromisoformat(position[0]), position[1])
    page = await listing.list_sessions(
        call.database, filters, order=order, after=after, limit=limit, viewer=call.viewer
    )
    following = None if page.next is None else encode_cursor(of, [page.next.at.isoformat(), page.next.id])
    return reply(show_page(call, page, following))


@router.get("/sessions/{session_id}", **operation("read", WholeSession))
async def get_session(
    call: Reading,
    session_id: SessionId,
    with_context: Annotated[bool, Query(description="also what its next context takes")] = False,
) -> Response:
    """Show a session, with its checkpoints, scratchpad and sub-agents."""
    details = await listing.show_session(
        call.database, call.settings, session_id, with_context=with_context, viewer=call.viewer
    )
    use = None if details.context is None else ContextUse.of(details.context)
    shown = Session.of(details.session, activity=details.status, context=use, title=details.title)
    parts = await state.hydrate_session(call.database, call.settings, details.session.id, limit=1, viewer=call.viewer)
    return reply(WholeSession.of(parts, shown))


def show_page(call: Call, page: listing.SessionPage, next_cursor: str | None) -> SessionPage:
    """Return a page of sessions as the API shows it, with their titles."""
    shown = [show(call, row, page.titles.get(row.id)) for row in page.sessions]
    return SessionPage.model_construct(sessions=shown, next_cursor=next_cursor)


def show(call: Call, row: SessionRow, title: str | None = None) -> Session:
    """Return a session as the API shows it; who may not read it is not shown what it holds."""
    status = listing.session_status(row, call.database.clock.now())
    if not call.viewer.may("read"):
        config = {name: value for name, value in row.config.items() if name not in ("system", "policy")}
        attention = {call_id: {"kind": waiting.get("kind")} for call_id, waiting in row.attention.items()}
        row, title = replace(row, config=config, attention=attention, error=None), None
    return Session.of(row, activity=status, title=title)


@router.delete("/sessions/{session_id}", **operation("write", None, 204))
async def delete_session(call: Writing, session_id: SessionId) -> Response:
    """End a session and list it no more. Its log stays, until retention or an erasure removes it."""
    return await call.change(
        lambda row: Answer(204, "", session_id=row.id),
        lifecycle.end_session,
        session_id,
        reason="deleted by request",
        hide=True,
        viewer=call.viewer,
    )


@router.post("/sessions/{session_id}/end", **operation("write", Session))
async def end_session(call: Writing, session_id: SessionId, body: EndSession | None = None) -> Response:
    """End a session: its key names none then. One that has ended stays as it is."""
    reason = (body or EndSession()).reason
    return await call.change(
        lambda row: to_answer(show(call, row), row.id),
        lifecycle.end_session,
        session_id,
        reason=reason,
        viewer=call.viewer,
    )


@router.post("/sessions/{session_id}/wake", **operation("write", Woken, 202))
async def wake_session(call: Writing, session_id: SessionId) -> Response:
    """Have a driver look at a session, though nothing new was said: after an error, or a change of its tools."""
    return await call.change(
        lambda woken: to_answer(
            Woken(session_id=woken[0].id, pending=woken[0].pending, **asdict(woken[1])), woken[0].id, status=202
        ),
        access.request_wake,
        session_id,
        viewer=call.viewer,
    )


@router.get("/sessions/{session_id}/hydrate", **operation("read", HydratedSession))
async def hydrate_session(
    call: Reading,
    session_id: SessionId,
    limit: Annotated[int, Query(ge=1, le=MAX_MESSAGES, description="how many messages at most")] = 50,
    cursor: Cursor = None,
) -> Response:
    """Show a session with seeds, messages, state, notes, open calls, children and checkpoints, all of one moment.

    The messages are the latest ones; `next_cursor` gets those before them. Of a child they include what it reads of its
    ancestors. A stream of its events with `Last-Event-ID: {last_event_id}` goes on without a gap.
    """
    of = f"hydrate {session_id}"
    position = decode_cursor(of, cursor, int)
    found = await state.hydrate_session(
        call.database,
        call.settings,
        session_id,
        before=None if position is None else position[0],
        limit=limit,
        viewer=call.viewer,
    )
    following = None if found.earlier_before is None else encode_cursor(of, [found.earlier_before])
    children = [show(call, row, found.titles.get(row.id)) for row in found.children]
    return reply(
        HydratedSession.of(found, show(call, found.session, found.titles.get(found.session.id)), children, following)
    )
