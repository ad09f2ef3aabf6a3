"""/v1/sessions/{id}/checkpoint, checkpoints, resume, fork, spawn, children and result: what goes on from a session."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response
from ulid import ULID

from consolidator.api import problems
from consolidator.api.call import Call, Reading, Writing, operation, reply, to_answer, to_response
from consolidator.api.problems import Problem
from consolidator.api.routes.sessions import Cursor, Limit, show, show_page
from consolidator.api.schemas.child import Checkpoint, CheckpointList, Fork, NewCheckpoint, Restore
from consolidator.api.schemas.message import Spawn, SubAgent
from consolidator.api.schemas.session import Session, SessionId, SessionPage
from consolidator.api.streaming import ALSO_READ, STREAMED, stream_sub_agent
from consolidator.models.session import SessionCursor, SessionRow
from consolidator.runtime.lineage.children import ChildRequest
from consolidator.service.database import Database
from consolidator.service.encoding import decode_cursor, encode_cursor
from consolidator.service.requests import Answer
from consolidator.service.sessions import children, listing
from consolidator.service.sessions.children import fork_session as fork

router = APIRouter(tags=["children"])
CheckpointId = Annotated[
    str, Path(min_length=1, max_length=200, description="a checkpoint's id", examples=["01K0B1C2D3E4F5G6H7J8K9M0N1"])
]


@router.post("/sessions/{session_id}/checkpoint", **operation("write", Checkpoint, 201))
async def create_checkpoint(call: Writing, session_id: SessionId, body: NewCheckpoint | None = None) -> Response:
    """Set a checkpoint: a pointer into the log, not a copy. A point in the middle of a call or answer is refused."""
    wanted = body or NewCheckpoint()

    return await call.change(
        lambda row: to_answer(Checkpoint.of(row), row.session_id, status=201, location=f"/v1/checkpoints/{row.id}"),
        children.create_checkpoint,
        session_id,
        label=wanted.label,
        metadata=wanted.metadata,
        at=wanted.at,
        time_to_live=None if wanted.ttl_seconds is None else timedelta(seconds=wanted.ttl_seconds),
        viewer=call.viewer,
    )


@router.get("/sessions/{session_id}/checkpoints", **operation("read", CheckpointList))
async def list_checkpoints(
    call: Reading, session_id: SessionId, limit: Annotated[int, Query(ge=1, le=500)] = 100
) -> Response:
    """List a session's checkpoints that have not expired, the latest point first."""
    rows = await children.list_checkpoints(call.database, session_id, limit=limit, viewer=call.viewer)
    return reply(CheckpointList.model_construct(checkpoints=[Checkpoint.of(row) for row in rows]))


@router.get("/checkpoints/{checkpoint_id}", **operation("read", Checkpoint))
async def get_checkpoint(call: Reading, checkpoint_id: CheckpointId) -> Response:
    """Show a checkpoint."""
    return reply(Checkpoint.of(await children.get_checkpoint(call.database, checkpoint_id, viewer=call.viewer)))


@router.delete("/checkpoints/{checkpoint_id}", **operation("write", None, 204))
async def delete_checkpoint(call: Writing, checkpoint_id: CheckpointId) -> Response:
    """Delete a checkpoint; what was restored from it stays."""
    return await call.change(lambda _: Answer(204, ""), children.delete_checkpoint, checkpoint_id, viewer=call.viewer)


@router.post("/sessions/{session_id}/resume", **operation("write", Session, 201))
async def resume_session(call: Writing, session_id: SessionId, body: Restore | None = None) -> Response:
    """Go on from a checkpoint of a session, in a new session. The original is untouched."""
    wanted = body or Restore()

    async def work(database: Database) -> Answer:
        checkpoint = await children.find_restorable(database, session_id, wanted.checkpoint_id, viewer=call.viewer)
        row = await children.restore_checkpoint(
            database,
            call.settings,
            checkpoint.id,
            overrides=wanted.overrides.to_overrides(),
            is_current=wanted.is_current,
            driver_tools=call.driver_tools,
            viewer=call.viewer,
        )
        return _created(call, row)

    return await call.answer_once(work)


@router.post("/sessions/{session_id}/fork", **operation("write", Session, 201))
async def fork_session(call: Writing, session_id: SessionId, body: Fork | None = None) -> Response:
    """Leave a session at an event and go on by itself, in a new session. The original is untouched."""
    wanted = body or Fork()
    overrides = wanted.overrides.to_overrides()
    return await call.change(
        lambda row: _created(call, row),
        fork,
        call.settings,
        session_id,
        ChildRequest(
            kind="fork",
            at=wanted.at,
            overrides=overrides,
            is_current=wanted.is_current,
            same_conversation=wanted.same_conversation,
        ),
        driver_tools=call.driver_tools,
        viewer=call.viewer,
    )


def _created(call: Call, row: SessionRow) -> Answer:
    return to_answer(show(call, row), row.id, status=201, location=f"/v1/sessions/{row.id}")


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
        row, result = await children.start_sub_agent(
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
    return reply(SubAgent.of(*await children.read_sub_agent(call.database, session_id, viewer=call.viewer)))


@router.get("/sessions/{session_id}/children", **operation("read", SessionPage))
async def list_children(call: Reading, session_id: SessionId, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List what came of a session, page by page: forks, restores, branches and sub-agents, the newest first."""
    of = f"children {call.viewer.name} {session_id}"
    position = decode_cursor(of, cursor, str, str)
    after = None if position is None else SessionCursor(datetime.fromisoformat(position[0]), position[1])
    page = await listing.list_children(call.database, session_id, after=after, limit=limit, viewer=call.viewer)
    following = None if page.next is None else encode_cursor(of, [page.next.at.isoformat(), page.next.id])
    return reply(show_page(call, page, following))
