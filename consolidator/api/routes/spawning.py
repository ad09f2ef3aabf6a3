"""/v1/sessions/{id}/spawn, children and result: sub-agents, and every session that came of one."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter
from starlette.responses import Response
from ulid import ULID

from consolidator.api import problems
from consolidator.api.call import Reading, Writing, operation, to_answer, to_response
from consolidator.api.problems import Problem
from consolidator.api.replies import reply
from consolidator.api.routes.sessions import Cursor, Limit, show_page
from consolidator.api.schemas.session import SessionId, SessionPage
from consolidator.api.schemas.spawn import Spawn, SubAgent
from consolidator.api.streaming import ALSO_READ, STREAMED, stream_sub_agent
from consolidator.models.session import SessionCursor
from consolidator.service.cursors import decode_cursor, encode_cursor
from consolidator.service.database import Database
from consolidator.service.requests import Answer
from consolidator.service.sessions import listing, spawning

router = APIRouter(tags=["children"])


@router.post("/sessions/{session_id}/spawn", **operation("write", SubAgent, 202, also=ALSO_READ, responses=STREAMED))
async def spawn_sub_agent(call: Writing, session_id: SessionId, body: Spawn) -> Response:
    """Give a task to a sub-agent of a session: it is created, and a driver does its task.

    `GET .../{its id}/result` tells what came of it. With `Accept: text/event-stream`, for which the credential needs
    the scope `read`, too, its log is streamed until it ends; the frame before the last is `result`.
    """
    if call.wants_stream:
        call.viewer.check_may("read")
    harness = call.services.harness
    if harness is None:
        raise Problem(problems.UNAVAILABLE, "this process drives no sessions, and so spawns none")
    call_id = body.call_id or (f"{call.keyed.credential}:{call.keyed.key}" if call.keyed else f"spawn_{ULID()}")

    async def work(database: Database) -> Answer:
        row, result = await spawning.start_sub_agent(
            database, harness, session_id, body.to_request(), call_id=call_id, viewer=call.viewer
        )
        shown = SubAgent.of(row, result)
        if not call.viewer.may("read"):
            shown.text = shown.reason = None
        return to_answer(shown, row.id, status=202, location=f"/v1/sessions/{row.id}/result")

    answer = await call.do_once(work)
    if not call.wants_stream:
        return to_response(answer)
    child_id = SubAgent.model_validate_json(answer.document).session_id
    return stream_sub_agent(call, child_id, repeated=answer.repeated)


@router.get("/sessions/{session_id}/result", **operation("read", SubAgent))
async def get_result(call: Reading, session_id: SessionId) -> Response:
    """Show what came of a sub-agent: its answer, what it cost, and the reason where there is no answer."""
    return reply(SubAgent.of(*await spawning.read_sub_agent(call.database, session_id, viewer=call.viewer)))


@router.get("/sessions/{session_id}/children", **operation("read", SessionPage))
async def list_children(call: Reading, session_id: SessionId, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List what came of a session, page by page: forks, restores, branches and sub-agents, the newest first."""
    of = f"children {call.viewer.name} {session_id}"
    position = decode_cursor(of, cursor, str, str)
    after = None if position is None else SessionCursor(datetime.fromisoformat(position[0]), position[1])
    page = await listing.list_children(call.database, session_id, after=after, limit=limit, viewer=call.viewer)
    following = None if page.next is None else encode_cursor(of, [page.next.at.isoformat(), page.next.id])
    return reply(show_page(call, page, following))
