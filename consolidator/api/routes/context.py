"""/v1/sessions/{id}/context, state, cost and compact: what a session's model sees, holds and costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from consolidator.api.call import Reading, Writing, operation, reply, to_answer
from consolidator.api.schemas.session import (
    Compact,
    Compacted,
    Context,
    ContextPart,
    CostGroup,
    SessionCost,
    SessionId,
    SessionState,
)
from consolidator.service.agents.context import PreviewOptions, preview_context
from consolidator.service.agents.context import compact_session as compact
from consolidator.service.agents.costs import load_costs
from consolidator.service.database import Database
from consolidator.service.requests import Answer
from consolidator.service.sessions import access

router = APIRouter(tags=["context"])


@router.get("/sessions/{session_id}/context", **operation("read", Context))
async def get_context(
    call: Reading,
    session_id: SessionId,
    strategy: Annotated[str | None, Query(max_length=50, description="another than the session's")] = None,
    budget: Annotated[int | None, Query(ge=1, le=10_000_000, description="tokens")] = None,
    last: Annotated[int | None, Query(ge=1, le=1_000_000, description="events, for the strategy window")] = None,
    message_format: Annotated[Literal["openai", "anthropic"], Query()] = "openai",
    with_recall: Annotated[bool, Query(description="with what memory would tell")] = True,
) -> Response:
    """Show what the model would be shown of a session now."""
    built, session = await preview_context(
        call.database,
        call.settings,
        session_id,
        PreviewOptions(strategy, budget, last, message_format, with_recall),
        viewer=call.viewer,
    )
    parts = [ContextPart(name=part.name, tokens=part.tokens) for part in built.parts]
    return reply(Context.model_construct(session_id=session.id, **{**asdict(built), "parts": parts}))


@router.get("/sessions/{session_id}/state", **operation("read", SessionState))
async def get_state(call: Reading, session_id: SessionId) -> Response:
    """Show a session's state: the sum of what its tools changed."""
    row = await access.load_session(call.database, session_id, viewer=call.viewer)
    return reply(SessionState.model_construct(session_id=row.id, head=row.head, state=row.state))


@router.get("/sessions/{session_id}/cost", **operation("read", SessionCost))
async def get_cost(
    call: Reading,
    session_id: SessionId,
    by: Annotated[Literal["turn", "strategy", "day", "model", "purpose"], Query()] = "model",
) -> Response:
    """Show what a session's model calls cost, its branches' and sub-agents' included: each group, and all of them."""
    row = await access.load_session(call.database, session_id, viewer=call.viewer)
    groups, total = await load_costs(call.database, by, session_id=row.id)
    return reply(
        SessionCost.model_construct(
            session_id=row.id,
            max_cost_usd=None if row.max_cost is None else str(row.max_cost),
            groups=[CostGroup(**group.as_json()) for group in groups],
            total=CostGroup(**total.as_json()),
        )
    )


@router.post("/sessions/{session_id}/compact", **operation("write", Compacted))
async def compact_session(call: Writing, session_id: SessionId, body: Compact | None = None) -> Response:
    """Replace the older part of a session's contexts by a summary. A session that is compacted already stays so."""
    options = body or Compact()

    async def work(database: Database) -> Answer:
        row = await access.load_session_to_drive(database, session_id, viewer=call.viewer)
        compaction = await compact(
            database, call.settings, row.id, budget=options.budget, by_model=options.by_model, viewer=call.viewer
        )
        done = {} if compaction is None else asdict(compaction)
        shown = Compacted(session_id=row.id, compacted=compaction is not None, **done)
        if not call.viewer.may("read"):
            shown.summary = None
        return to_answer(shown, row.id)

    return await call.answer_again(work)
