"""/v1/sessions/{id}/checkpoint, checkpoints, resume, fork, spawn, children and result: what goes on from a session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import IO, Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BeforeValidator, Field
from starlette.responses import Response, StreamingResponse
from ulid import ULID

from consolidator.api import parameters, problems
from consolidator.api.call import Reading, Writing, operation, reply, to_response
from consolidator.api.guard import JSON_LINES
from consolidator.api.problems import Problem
from consolidator.api.routes.sessions import SESSION_LOCATION, Cursor, Limit, show, show_page
from consolidator.api.schemas import (
    Checkpoint,
    ChildOverrides,
    Input,
    Position,
    RowAnswer,
    Session,
    SessionId,
    SessionPage,
    SubAgent,
    accept_members,
    list_of,
    of_row,
)
from consolidator.api.streaming import ALSO_READ, STREAMED, stream_sub_agent
from consolidator.runtime.lineage import checkpoints
from consolidator.runtime.lineage.children import ChildRequest, create_child
from consolidator.runtime.session.agent_defaults import MAX_SECONDS, ResultMode, SpawnRequest
from consolidator.runtime.turn.sub_agents import create_sub_agent, read_sub_agent
from consolidator.service.database import Database
from consolidator.service.requests import Answer
from consolidator.service.sessions import bundles, listing

router = APIRouter(tags=["children"])


class NewCheckpoint(Input):
    """A point of a session to come back to."""

    label: str | None = Field(default=None, min_length=1, max_length=200, examples=["before the migration"])
    metadata: dict[str, Any] | None = None
    at: Position | None = Field(default=None, description="seq; by default where nothing was open last")
    ttl_seconds: int | None = Field(default=None, ge=1, le=MAX_SECONDS, description="by default the agent's, or a day")


CheckpointList = list_of("CheckpointList", "A session's checkpoints, the latest point first.", checkpoints=Checkpoint)


class Restore(Input):
    """Which checkpoint a session goes on from, and how."""

    _accept_specification = accept_members({"config_override": "overrides"})

    checkpoint_id: str | None = Field(default=None, max_length=200, description="by default the latest of the session")
    overrides: Annotated[ChildOverrides, BeforeValidator(lambda value: {} if value is None else value)] = Field(
        default_factory=ChildOverrides
    )
    is_current: bool = Field(default=False, description="whether the session's key names the new one from now on")


class Fork(Input):
    """Where a session is left, and what the child does differently."""

    at: Position | None = Field(default=None, description="seq; by default where nothing was open last")
    overrides: ChildOverrides = Field(default_factory=ChildOverrides)
    is_current: bool = Field(default=False, description="whether the session's key names the child from now on")
    same_conversation: bool = Field(default=False, description="by default it begins a conversation of its own")


class ContextMessage(Input):
    """A message of the earlier thread that a sub-agent sees."""

    role: Literal["user", "assistant", "tool"]
    content: str = Field(max_length=1_000_000)


class Spawn(Input):
    """A task for a sub-agent, which sees nothing of its parent but what is written here."""

    _accept_specification = accept_members({"return_format": "mode", "max_cost_usdc": "max_cost_usd"})

    task: str = Field(min_length=1, max_length=200_000, examples=["Which of these files have no tests?"])
    context: str | list[ContextMessage] | None = Field(default=None, description="a text, or an earlier thread")
    model: str | None = Field(default=None, min_length=1, max_length=200, description="by default the policy chooses")
    system: str | None = Field(default=None, min_length=1, max_length=200_000, description="instead of ours")
    tools: list[str] | None = Field(default=None, max_length=500, description="some of its parent's; null is all")
    mode: ResultMode = Field(default="summary", description="its last answer, or all that it said and did")
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000, description="of each answer")
    max_cost_usd: Decimal | None = Field(default=None, ge=0, le=1_000_000, description="of all of them")
    call_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="names the call, which has one sub-agent for ever; by default the Idempotency-Key",
    )


CheckpointId = Annotated[
    str, Path(min_length=1, max_length=200, description="a checkpoint's id", examples=["01K0B1C2D3E4F5G6H7J8K9M0N1"])
]


@router.post("/sessions/{session_id}/checkpoint", **operation("write", Checkpoint, 201))
async def create_checkpoint(call: Writing, session_id: SessionId, body: NewCheckpoint | None = None) -> Response:
    """Set a checkpoint: a pointer into the log, not a copy. A point in the middle of a call or answer is refused."""
    point = body or NewCheckpoint()
    return await call.change(
        Checkpoint.of,
        checkpoints.create_checkpoint,
        session_id,
        location="/v1/checkpoints/{id}",
        time_to_live=None if point.ttl_seconds is None else timedelta(seconds=point.ttl_seconds),
        **point.model_dump(exclude={"ttl_seconds"}),
    )


@router.get("/sessions/{session_id}/checkpoints", **operation("read", CheckpointList))
async def list_checkpoints(call: Reading, session_id: SessionId, limit: parameters.Limit = 100) -> Response:
    """List a session's checkpoints that have not expired, the latest point first."""
    rows = await checkpoints.list_checkpoints(call.database, session_id, limit=limit, viewer=call.viewer)
    return reply({"checkpoints": [Checkpoint.of(row) for row in rows]})


@router.get("/checkpoints/{checkpoint_id}", **operation("read", Checkpoint))
async def get_checkpoint(call: Reading, checkpoint_id: CheckpointId) -> Response:
    """Show a checkpoint."""
    return reply(Checkpoint.of(await checkpoints.get_checkpoint(call.database, checkpoint_id, viewer=call.viewer)))


@router.delete("/checkpoints/{checkpoint_id}", **operation("write", None, 204))
async def delete_checkpoint(call: Writing, checkpoint_id: CheckpointId) -> Response:
    """Delete a checkpoint; what was restored from it stays."""
    return await call.change(lambda _: None, checkpoints.delete_checkpoint, checkpoint_id)


@router.post("/sessions/{session_id}/resume", **operation("write", Session, 201))
async def resume_session(call: Writing, session_id: SessionId, body: Restore | None = None) -> Response:
    """Go on from a checkpoint of a session, in a new session. The original is untouched."""
    restore = body or Restore()
    options: dict[str, Any] = {"is_current": restore.is_current, "driver_tools": call.driver_tools}
    return await call.change(
        partial(show, call),
        checkpoints.restore_checkpoint,
        call.settings,
        restore.checkpoint_id,
        session_id=session_id,
        overrides=restore.overrides.to_overrides(),
        location=SESSION_LOCATION,
        **options,
    )


@router.post("/sessions/{session_id}/fork", **operation("write", Session, 201))
async def fork_session(call: Writing, session_id: SessionId, body: Fork | None = None) -> Response:
    """Leave a session at an event and go on by itself, in a new session. The original is untouched."""
    fork = body or Fork()
    options = fork.model_dump(exclude={"overrides"})
    request = ChildRequest(kind="fork", overrides=fork.overrides.to_overrides(), **options)
    made: dict[str, Any] = {"driver_tools": call.driver_tools, "location": SESSION_LOCATION}
    return await call.change(partial(show, call), create_child, call.settings, session_id, request, **made)


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

    named = body.model_dump(exclude={"call_id", "max_cost_usd"})
    request = SpawnRequest(**named, max_cost=body.max_cost_usd)

    async def work(database: Database) -> Answer:
        own = replace(harness, database=database)
        child = await create_sub_agent(own, session_id, request, call_id=call_id, by="program", viewer=call.viewer)
        shown = SubAgent.of(*await read_sub_agent(database, child.id))
        if not call.viewer.may("read"):
            shown.text = shown.reason = None
        return call.to_answer(shown, "/v1/sessions/{session_id}/result")

    answer = await call.do_once(work)
    if not call.wants_stream:
        return to_response(answer)
    child_id = SubAgent.model_validate_json(answer.document).session_id
    return stream_sub_agent(call, child_id, repeated=answer.repeated)


@router.get("/sessions/{session_id}/result", **operation("read", SubAgent))
async def get_result(call: Reading, session_id: SessionId) -> Response:
    """Show what came of a sub-agent: its answer, what it cost, and the reason where there is no answer."""
    return reply(SubAgent.of(*await read_sub_agent(call.database, session_id, viewer=call.viewer)))


@router.get("/sessions/{session_id}/children", **operation("read", SessionPage))
async def list_children(call: Reading, session_id: SessionId, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List what came of a session, page by page: forks, restores, branches and sub-agents, the newest first."""
    of = f"children {call.viewer.name} {session_id}"
    load = partial(listing.list_children, call.database, session_id, limit=limit, viewer=call.viewer)
    return await show_page(call, of, cursor, load)


bundle_router = APIRouter(tags=["sessions"])


@of_row(bundles.ImportedBundle)
class ImportedBundle(RowAnswer):
    """An imported bundle."""


_CONTENT: dict[str, Any] = {JSON_LINES: {"schema": {"type": "string"}}}


@bundle_router.get(
    "/sessions/{session_id}/export",
    **operation("read", None, responses={200: {"description": "JSON lines: a bundle", "content": _CONTENT}}),
)
async def export_session(
    call: Reading,
    session_id: SessionId,
    exact: Annotated[bool, Query(description="with credentials, byte for byte; needs the scope admin")] = False,
) -> Response:
    """Stream a session as a bundle. The last line is a checksum: without it, the bundle is not whole."""
    lines = bundles.stream_bundle(call.database, session_id, exact=exact, viewer=call.viewer)
    first = await anext(lines)  # raises what must be answered otherwise

    async def body() -> AsyncIterator[bytes]:
        yield first.encode()
        async for line in lines:
            yield line.encode()

    name = f'attachment; filename="{session_id}.jsonl"'
    headers = {"content-disposition": name if session_id.isalnum() else "attachment", "cache-control": "no-store"}
    return StreamingResponse(body(), media_type=JSON_LINES, headers=headers)


@bundle_router.post(
    "/sessions/import",
    **operation("admin", ImportedBundle, openapi_extra={"requestBody": {"required": True, "content": _CONTENT}}),
)
async def import_session(
    call: Writing,
    copy: Annotated[bool, Query(description="a copy to look at and to run again, never evidence")] = False,
) -> Response:
    """Import a bundle. One that comes again adds only what is new; a damaged one is refused before it is written."""

    async def work(database: Database) -> Answer:
        content: IO[bytes] = call.request.state.body_file
        imported = await bundles.load_bundle_file(database, content, as_copy=copy, viewer=call.viewer)
        return call.to_answer(ImportedBundle.of(imported), "/v1/sessions/{session_id}")

    return await call.answer_again(work)
