"""/v1/sessions/{id}/tasks, scratchpad, seeds and deliveries: what a session works at, notes, began with and showed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from consolidator.api.call import Reading, Writing, operation, reply, to_answer
from consolidator.api.schemas.session import SessionId
from consolidator.api.schemas.work import (
    Acknowledged,
    NewTask,
    Scratchpad,
    ScratchpadChange,
    SeedList,
    Shown,
    StoredSeed,
    Task,
    TaskEnd,
    TaskList,
)
from consolidator.runtime.session.scratchpad import ScratchpadEdit
from consolidator.service.sessions import following, state, work

router = APIRouter(tags=["work"])


@router.get("/sessions/{session_id}/tasks", **operation("read", TaskList))
async def list_tasks(call: Reading, session_id: SessionId, limit: Annotated[int, Query(ge=1, le=500)] = 50) -> Response:
    """List a session's tasks, the latest first."""
    rows = await work.list_tasks(call.database, session_id, limit=limit, viewer=call.viewer)
    return reply(TaskList(tasks=[Task.of(row) for row in rows]))


@router.post("/sessions/{session_id}/tasks", **operation("write", Task, 201))
async def start_task(call: Writing, session_id: SessionId, body: NewTask) -> Response:
    """Start a task: every event until its end belongs to it. One task is open at a time."""
    return await call.change(
        lambda row: to_answer(Task.of(row), session_id, status=201),
        work.start_task,
        session_id,
        body.title,
        viewer=call.viewer,
    )


@router.post("/sessions/{session_id}/tasks/finish", **operation("write", Task))
async def finish_task(call: Writing, session_id: SessionId, body: TaskEnd) -> Response:
    """End the open task with its outcome, from which the nights learn."""
    return await call.change(
        lambda row: to_answer(Task.of(row, **_unread(call, "title")), session_id),
        work.finish_task,
        session_id,
        body.outcome,
        note=body.note,
        task_id=body.task_id,
        viewer=call.viewer,
    )


def _unread(call: Writing, name: str) -> dict[str, None]:
    """Return null for a field that a credential without the scope `read` is not shown."""
    return {} if call.viewer.may("read") else {name: None}


@router.get("/sessions/{session_id}/scratchpad", **operation("read", Scratchpad))
async def get_scratchpad(call: Reading, session_id: SessionId) -> Response:
    """Show a session's scratchpad."""
    read = await work.read_scratchpad(call.database, session_id, viewer=call.viewer)
    return reply(Scratchpad.of(read))


@router.patch("/sessions/{session_id}/scratchpad", **operation("write", Scratchpad))
async def change_scratchpad(call: Writing, session_id: SessionId, body: ScratchpadChange) -> Response:
    """Change a session's scratchpad: all of it, a paragraph more, or one place. One that is too long is refused."""
    return await call.change(
        lambda changed: to_answer(Scratchpad.of(changed, may_read=call.viewer.may("read")), session_id),
        work.change_scratchpad,
        session_id,
        ScratchpadEdit(body.mode, body.text, body.old),
        expected_seq=body.expected_seq,
        viewer=call.viewer,
    )


@router.get("/sessions/{session_id}/seeds", **operation("read", SeedList))
async def list_seeds(call: Reading, session_id: SessionId) -> Response:
    """Show what a session's model saw at the start: the rendered system prompt, then the earlier thread."""
    rows = await state.list_seeds(call.database, session_id, viewer=call.viewer)
    shown = [StoredSeed.of(row) for row in rows]
    return reply(SeedList(seeds=shown))


@router.post("/sessions/{session_id}/deliveries", **operation("write", Acknowledged))
async def acknowledge(call: Writing, session_id: SessionId, body: Shown) -> Response:
    """Note that a surface has shown a session up to an event of its stream, so that it can be replayed as it was."""
    return await call.change(
        lambda count: to_answer(Acknowledged(session_id=session_id, messages=count), session_id),
        following.acknowledge,
        session_id,
        body.surface,
        body.cursor,
        viewer=call.viewer,
    )
