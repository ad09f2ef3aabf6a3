"""/v1/calls and /v1/attention: what waits for a person, and a person's word about it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from consolidator.api.call import Reading, Writing, operation, reply, to_answer
from consolidator.api.schemas.message import Decided, Resolution, Verdict
from consolidator.api.schemas.work import AttentionList, WaitingCall
from consolidator.service.sessions import access

router = APIRouter(tags=["calls"])
CallId = Annotated[str, Path(min_length=1, max_length=500, description="a call's id", examples=["call_7Yh2"])]


@router.get("/attention", **operation("read", AttentionList))
async def list_attention(
    call: Reading, limit: Annotated[int, Query(ge=1, le=200, description="sessions at most")] = 50
) -> Response:
    """List the calls that wait for a person: for approval, or to say how they went. The latest session is first."""
    rows = await access.list_attention(call.database, limit=limit, viewer=call.viewer)
    calls = [
        WaitingCall.model_construct(
            call_id=call_id,
            session_id=row.id,
            key=row.key,
            agent=row.agent,
            kind=str(request.get("kind")),
            tool=request.get("tool"),
            arguments=request.get("arguments"),
        )
        for row in rows
        for call_id, request in row.attention.items()
    ]
    return reply(AttentionList.model_construct(calls=calls))


@router.post("/calls/{call_id}/grant", **operation("write", Decided))
async def grant_call(call: Writing, call_id: CallId, body: Verdict | None = None) -> Response:
    """Allow a call that waits for approval; the session goes on."""
    return await _decide(call, call_id, body or Verdict(), allow=True)


@router.post("/calls/{call_id}/deny", **operation("write", Decided))
async def deny_call(call: Writing, call_id: CallId, body: Verdict | None = None) -> Response:
    """Deny a call that waits for approval; the model is told, and the session goes on."""
    return await _decide(call, call_id, body or Verdict(), allow=False)


async def _decide(call: Writing, call_id: str, verdict: Verdict, *, allow: bool) -> Response:
    return await call.change(
        lambda session_id: to_answer(Decided(call_id=call_id, session_id=session_id), session_id),
        access.decide_approval,
        call_id,
        allow=allow,
        reason=verdict.reason,
        session_id=verdict.session_id,
        viewer=call.viewer,
    )


@router.post("/calls/{call_id}/resolve", **operation("write", Decided))
async def resolve_call(call: Writing, call_id: CallId, body: Resolution) -> Response:
    """Say how a call went whose process died before its result was logged."""
    return await call.change(
        lambda session_id: to_answer(Decided(call_id=call_id, session_id=session_id), session_id),
        access.resolve_call,
        call_id,
        body.outcome,
        session_id=body.session_id,
        viewer=call.viewer,
    )
