"""/v1/sessions/{id}/checkpoint, checkpoints, resume and fork: points to come back to, and what goes on from them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from consolidator.api.call import Call, Reading, Writing, operation, to_answer
from consolidator.api.replies import reply
from consolidator.api.routes.sessions import show
from consolidator.api.schemas.child import Checkpoint, CheckpointList, Fork, NewCheckpoint, Restore
from consolidator.api.schemas.session import Session, SessionId
from consolidator.models.session import SessionRow
from consolidator.service.database import Database
from consolidator.service.requests import Answer
from consolidator.service.sessions import checkpoints
from consolidator.service.sessions.forks import fork_session as fork

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
        checkpoints.create_checkpoint,
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
    rows = await checkpoints.list_checkpoints(call.database, session_id, limit=limit, viewer=call.viewer)
    return reply(CheckpointList.model_construct(checkpoints=[Checkpoint.of(row) for row in rows]))


@router.get("/checkpoints/{checkpoint_id}", **operation("read", Checkpoint))
async def get_checkpoint(call: Reading, checkpoint_id: CheckpointId) -> Response:
    """Show a checkpoint."""
    return reply(Checkpoint.of(await checkpoints.get_checkpoint(call.database, checkpoint_id, viewer=call.viewer)))


@router.delete("/checkpoints/{checkpoint_id}", **operation("write", None, 204))
async def delete_checkpoint(call: Writing, checkpoint_id: CheckpointId) -> Response:
    """Delete a checkpoint; what was restored from it stays."""
    return await call.change(
        lambda _: Answer(204, ""), checkpoints.delete_checkpoint, checkpoint_id, viewer=call.viewer
    )


@router.post("/sessions/{session_id}/resume", **operation("write", Session, 201))
async def resume_session(call: Writing, session_id: SessionId, body: Restore | None = None) -> Response:
    """Go on from a checkpoint of a session, in a new session. The original is untouched."""
    wanted = body or Restore()

    async def work(database: Database) -> Answer:
        checkpoint = await checkpoints.find_restorable(database, session_id, wanted.checkpoint_id, viewer=call.viewer)
        row = await checkpoints.restore_checkpoint(
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

    return await call.change(
        lambda row: _created(call, row),
        fork,
        call.settings,
        session_id,
        at=wanted.at,
        overrides=wanted.overrides.to_overrides(),
        is_current=wanted.is_current,
        driver_tools=call.driver_tools,
        viewer=call.viewer,
    )


def _created(call: Call, row: SessionRow) -> Answer:
    return to_answer(show(call, row), row.id, status=201, location=f"/v1/sessions/{row.id}")
