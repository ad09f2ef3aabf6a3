"""/v1/sessions/{id}/messages, steer and follow-up: what people say, and the answers as they come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from consolidator.api.call import Reading, Writing, operation, reply, to_response
from consolidator.api.parameters import Limit
from consolidator.api.schemas import Input, Scratchpad, SessionId, StoredSeed, Task, accept_members, list_of
from consolidator.api.streaming import ALSO_READ, STREAMED, stream_turn
from consolidator.runtime.session import scratchpad, tasks
from consolidator.runtime.session.scratchpad import ScratchpadEdit
from consolidator.runtime.turn import sessions as runtime
from consolidator.runtime.turn.sessions import MessageMode
from consolidator.service.database import Database
from consolidator.service.requests import Answer
from consolidator.service.sessions import following, listing

router = APIRouter(tags=["messages"])


class NewMessage(Input):
    """What a person says."""

    text: str = Field(min_length=1, max_length=1_000_000, examples=["What did I ask you yesterday?"])
    speaker: str | None = Field(default=None, max_length=200, description="who of a group says it")


class SentMessage(BaseModel):
    """A message in the log: whoever drives the session answers it."""

    session_id: str
    seq: int


class StoppedTurn(BaseModel):
    """What was under way in a session, and is to end."""

    session_id: str
    seq: int | None = Field(description="of the stop in the log; null where nothing was under way")


@router.post(
    "/sessions/{session_id}/messages", **operation("write", SentMessage, 202, also=ALSO_READ, responses=STREAMED)
)
async def send_message(call: Writing, session_id: SessionId, body: NewMessage) -> Response:
    """Send a person's message, said by `user:NAME` of the credential. A driver answers it.

    With `Accept: text/event-stream`, for which the credential needs the scope `read`, too, the answer is streamed.
    """
    if call.wants_stream:
        call.viewer.check_may("read")
    answer = await _send(call, session_id, body, "message")
    if not call.wants_stream:
        return to_response(answer)
    sent = SentMessage.model_validate_json(answer.document)
    return stream_turn(call, sent.session_id, sent.seq, repeated=answer.repeated)


@router.post("/sessions/{session_id}/steer", **operation("write", SentMessage, 202))
async def steer(call: Writing, session_id: SessionId, body: NewMessage) -> Response:
    """Send a message that cancels what is in flight."""
    return to_response(await _send(call, session_id, body, "steer"))


@router.post("/sessions/{session_id}/follow-up", **operation("write", SentMessage, 202))
async def follow_up(call: Writing, session_id: SessionId, body: NewMessage) -> Response:
    """Send a message that is answered after the current turn."""
    return to_response(await _send(call, session_id, body, "follow_up"))


@router.post("/sessions/{session_id}/stop", **operation("write", StoppedTurn, 202))
async def stop_turn(call: Writing, session_id: SessionId) -> Response:
    """End what is under way, without a message: an answer stays as far as it was written, the session stays open.

    Calls that did not run are aborted, one that ran may be uncertain; what was said before is answered no more,
    follow-ups included. The stop is in the log when this answers: a driver that dies meanwhile stops at the next wake.
    """
    return await call.change(lambda seq: StoppedTurn(session_id=session_id, seq=seq), runtime.stop_turn, session_id)


async def _send(call: Writing, session_id: str, body: NewMessage, mode: MessageMode) -> Answer:
    async def work(database: Database) -> Answer:
        seq = await runtime.send_message(
            database, session_id, body.text, mode=mode, speaker=body.speaker, viewer=call.viewer
        )
        return call.to_answer(SentMessage(session_id=session_id, seq=seq))

    return await call.do_once(work)


call_router = APIRouter(tags=["calls"])


class WaitingCall(BaseModel):
    """A call that waits for a person."""

    call_id: str
    session_id: str
    key: str | None
    agent: str
    kind: str = Field(description="approval, or uncertain: nobody knows whether it ran")
    tool: str | None
    arguments: Any = Field(default=None, description="as far as they were noted")


AttentionList = list_of("AttentionList", "Calls that wait for a person.", calls=WaitingCall)


class Verdict(Input):
    """A person's word about a call that waits for approval."""

    session_id: str | None = Field(default=None, max_length=200, description="where calls of several have this id")
    reason: str | None = Field(default=None, max_length=10_000, description="the model is told it")


class Resolution(Input):
    """How a call went of which nobody knows whether it ran."""

    outcome: Literal["ok", "failed"]
    session_id: str | None = Field(default=None, max_length=200, description="where calls of several have this id")


class Decided(BaseModel):
    """The call that was decided about."""

    call_id: str
    session_id: str


CallId = Annotated[str, Path(min_length=1, max_length=500, description="a call's id", examples=["call_7Yh2"])]


@call_router.get("/attention", **operation("read", AttentionList))
async def list_attention(
    call: Reading, limit: Annotated[int, Query(ge=1, le=200, description="sessions at most")] = 50
) -> Response:
    """List the calls that wait for a person: for approval, or to say how they went. The latest session is first."""
    rows = await runtime.list_attention(call.database, limit=limit, viewer=call.viewer)
    calls = [
        {"call_id": call_id, "session_id": row.id, "key": row.key, "agent": row.agent}
        | {name: request.get(name) for name in ("kind", "tool", "arguments")}
        for row in rows
        for call_id, request in row.attention.items()
    ]
    return reply({"calls": calls})


@call_router.post("/calls/{call_id}/grant", **operation("write", Decided))
async def grant_call(call: Writing, call_id: CallId, body: Verdict | None = None) -> Response:
    """Allow a call that waits for approval; the session goes on."""
    return await _decide(call, call_id, body or Verdict(), allow=True)


@call_router.post("/calls/{call_id}/deny", **operation("write", Decided))
async def deny_call(call: Writing, call_id: CallId, body: Verdict | None = None) -> Response:
    """Deny a call that waits for approval; the model is told, and the session goes on."""
    return await _decide(call, call_id, body or Verdict(), allow=False)


async def _decide(call: Writing, call_id: str, verdict: Verdict, *, allow: bool) -> Response:
    options = {"reason": verdict.reason, "session_id": verdict.session_id}
    return await call.change(_show(call_id), runtime.decide_approval, call_id, allow=allow, **options)


def _show(call_id: str) -> Callable[[str], Decided]:
    return lambda session_id: Decided(call_id=call_id, session_id=session_id)


@call_router.post("/calls/{call_id}/resolve", **operation("write", Decided))
async def resolve_call(call: Writing, call_id: CallId, body: Resolution) -> Response:
    """Say how a call went whose process died before its result was logged."""
    return await call.change(_show(call_id), runtime.resolve_call, call_id, body.outcome, session_id=body.session_id)


work_router = APIRouter(tags=["work"])


class NewTask(Input):
    """What a session is about to do."""

    title: str = Field(min_length=1, max_length=2000, examples=["Fix the failing build"])


class TaskEnd(Input):
    """How the open task ended."""

    outcome: Literal["success", "failure", "cancelled"]
    note: str | None = Field(default=None, max_length=4000)
    task_id: str | None = Field(default=None, max_length=200, description="only if this one is open")


TaskList = list_of("TaskList", "The tasks of a session, the latest first.", tasks=Task)


class ScratchpadChange(Input):
    """A change of a scratchpad."""

    _accept_specification = accept_members({"content": "text"})

    mode: Literal["replace", "append", "edit"] = Field(default="replace")
    text: str = Field(max_length=1_000_000, examples=["- [ ] ask for the invoice"])
    old: str | None = Field(default=None, max_length=1_000_000, description="the one place to edit, as it reads now")
    expected_seq: int | None = Field(default=None, ge=0, le=2**53 - 1, description="only this version; else 409")


SeedList = list_of("SeedList", "What a session's model saw at the start, in order.", seeds=StoredSeed)


class Shown(Input):
    """How far a surface has shown a session."""

    surface: str = Field(min_length=1, max_length=200, examples=["web"])
    cursor: str = Field(
        min_length=1, max_length=40, description="id of the last event of a stream that it showed", examples=["1"]
    )


class Acknowledged(BaseModel):
    """What a surface has shown."""

    session_id: str
    messages: int = Field(description="how many messages the cursor names")


@work_router.get("/sessions/{session_id}/tasks", **operation("read", TaskList))
async def list_tasks(call: Reading, session_id: SessionId, limit: Limit = 50) -> Response:
    """List a session's tasks, the latest first."""
    rows = await tasks.list_tasks(call.database, session_id, limit=limit, viewer=call.viewer)
    return reply({"tasks": [Task.of(row) for row in rows]})


@work_router.post("/sessions/{session_id}/tasks", **operation("write", Task, 201))
async def start_task(call: Writing, session_id: SessionId, body: NewTask) -> Response:
    """Start a task: every event until its end belongs to it. One task is open at a time."""
    return await call.change(Task.of, tasks.start_task, session_id, body.title)


@work_router.post("/sessions/{session_id}/tasks/finish", **operation("write", Task))
async def finish_task(call: Writing, session_id: SessionId, body: TaskEnd) -> Response:
    """End the open task with its outcome, from which the nights learn."""
    hidden = {} if call.viewer.may("read") else {"title": None}
    show, options = partial(Task.of, **hidden), {"note": body.note, "task_id": body.task_id}
    return await call.change(show, tasks.finish_task, session_id, body.outcome, **options)


@work_router.get("/sessions/{session_id}/scratchpad", **operation("read", Scratchpad))
async def get_scratchpad(call: Reading, session_id: SessionId) -> Response:
    """Show a session's scratchpad."""
    return reply(Scratchpad.of(await scratchpad.read_scratchpad(call.database, session_id, viewer=call.viewer)))


@work_router.patch("/sessions/{session_id}/scratchpad", **operation("write", Scratchpad))
async def change_scratchpad(call: Writing, session_id: SessionId, body: ScratchpadChange) -> Response:
    """Change a session's scratchpad: all of it, a paragraph more, or one place. One that is too long is refused."""
    show, edit = (
        partial(Scratchpad.of, may_read=call.viewer.may("read")),
        ScratchpadEdit(body.mode, body.text, body.old),
    )
    return await call.change(show, scratchpad.change_scratchpad, session_id, edit, expected_seq=body.expected_seq)


@work_router.get("/sessions/{session_id}/seeds", **operation("read", SeedList))
async def list_seeds(call: Reading, session_id: SessionId) -> Response:
    """Show what a session's model saw at the start: the rendered system prompt, then the earlier thread."""
    rows = await listing.list_seeds(call.database, session_id, viewer=call.viewer)
    return reply({"seeds": [StoredSeed.of(row) for row in rows]})


@work_router.post("/sessions/{session_id}/deliveries", **operation("write", Acknowledged))
async def acknowledge(call: Writing, session_id: SessionId, body: Shown) -> Response:
    """Note that a surface has shown a session up to an event of its stream, so that it can be replayed as it was."""

    def show(count: int) -> Acknowledged:
        return Acknowledged(session_id=session_id, messages=count)

    return await call.change(show, following.acknowledge, session_id, body.surface, body.cursor)
