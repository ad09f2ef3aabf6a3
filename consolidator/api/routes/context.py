"""/v1/sessions/{id}/context, state, cost and compact: what a session's model sees, holds and costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from consolidator.api.call import Reading, Writing, operation, reply
from consolidator.api.schemas import Input, RowAnswer, SessionId, of_row
from consolidator.models.run import Cost
from consolidator.runtime.session import access
from consolidator.runtime.session.changes import check_driven_here
from consolidator.service.database import Database
from consolidator.service.requests import Answer
from consolidator.service.sessions.context import Context as BuiltContext
from consolidator.service.sessions.context import PreviewOptions, preview_context
from consolidator.service.sessions.context import compact_session as compact
from consolidator.service.sessions.costs import load_costs

router = APIRouter(tags=["context"])


class SessionState(BaseModel):
    """The sum of the changes that tools made to a session's state."""

    session_id: str
    head: int
    state: dict[str, Any]


class ContextPart(RowAnswer):
    """A part of a context."""

    name: str
    tokens: int


@of_row(BuiltContext, leave_out="tools budget", tokens="an upper estimate")
class Context(RowAnswer):
    """What the model would be shown of a session now."""

    session_id: str
    parts: list[ContextPart]
    system: str | None = Field(description="in the format anthropic, where the system prompt is no message")


class Compact(Input):
    """How a session is compacted."""

    budget: int | None = Field(default=None, ge=1, le=100_000_000, description="tokens that the context may have")
    by_model: bool = Field(default=True, description="have a model write the summary, if one is configured")


class Compacted(BaseModel):
    """What a compaction did."""

    session_id: str
    compacted: bool = Field(description="false where there was too little to compact")
    seq: int | None = Field(default=None, description="of the compaction's event")
    kept_from: int | None = Field(default=None, description="the first event that stays in contexts as it is")
    summary: str | None = Field(default=None, description="null for a credential that may not read")
    by: str | None = Field(default=None, description="model or digest")
    tokens_before: int | None = None
    tokens_after: int | None = None


@of_row(Cost)
class CostGroup(RowAnswer):
    """What a group of model calls cost."""

    cost: str = Field(description="USD")
    set_aside: str = Field(description="USD, for calls under way")


class SessionCost(BaseModel):
    """What a session's model calls cost, with those of its branches and sub-agents: what its cap counts."""

    session_id: str
    max_cost_usd: str | None
    groups: list[CostGroup]
    total: CostGroup


@router.get("/sessions/{session_id}/context", **operation("read", Context))
async def get_context(
    call: Reading,
    session_id: SessionId,
    strategy: Annotated[str | None, Query(max_length=50, description="another than the session's")] = None,
    budget: Annotated[int | None, Query(ge=1, le=100_000_000, description="tokens")] = None,
    last: Annotated[int | None, Query(ge=1, le=100_000, description="events, for the strategy window")] = None,
    message_format: Annotated[Literal["openai", "anthropic"], Query()] = "openai",
    with_recall: Annotated[bool, Query(description="with what memory would tell")] = True,
) -> Response:
    """Show what the model would be shown of a session now."""
    options = PreviewOptions(strategy, budget, last, message_format, with_recall)
    built, session = await preview_context(call.database, call.settings, session_id, options, viewer=call.viewer)
    return reply(Context.of(built, session_id=session.id))


@router.get("/sessions/{session_id}/state", **operation("read", SessionState))
async def get_state(call: Reading, session_id: SessionId) -> Response:
    """Show a session's state: the sum of what its tools changed."""
    row = await access.load_session(call.database, session_id, viewer=call.viewer)
    return reply({"session_id": row.id, "head": row.head, "state": row.state})


@router.get("/sessions/{session_id}/cost", **operation("read", SessionCost))
async def get_cost(
    call: Reading,
    session_id: SessionId,
    by: Annotated[Literal["turn", "strategy", "day", "model", "purpose"], Query()] = "model",
) -> Response:
    """Show what a session's model calls cost, its branches' and sub-agents' included: each group, and all of them."""
    row = await access.load_session(call.database, session_id, viewer=call.viewer)
    groups, total = await load_costs(call.database, by, session_id=row.id)
    return reply({"session_id": row.id, "max_cost_usd": row.max_cost, "groups": groups, "total": total})


@router.post("/sessions/{session_id}/compact", **operation("write", Compacted))
async def compact_session(call: Writing, session_id: SessionId, body: Compact | None = None) -> Response:
    """Replace the older part of a session's contexts by a summary. A session that is compacted already stays so."""
    options = body or Compact()

    async def work(database: Database) -> Answer:
        row = await access.load_session(database, session_id, "write", viewer=call.viewer)
        check_driven_here(row)
        compaction = await compact(database, call.settings, row.id, **options.model_dump(), viewer=call.viewer)
        done = {} if compaction is None else asdict(compaction)
        shown = Compacted(session_id=row.id, compacted=compaction is not None, **done)
        if not call.viewer.may("read"):
            shown.summary = None
        return call.to_answer(shown)

    return await call.answer_again(work)
