"""/v1/sessions/{id}/branch and branches: runs beside a session, compared with it, and steers tried before they go."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Path
from pydantic import BaseModel, BeforeValidator, Field
from starlette.responses import Response

from consolidator.api import guard, problems
from consolidator.api.call import Reading, Writing, operation, reply
from consolidator.api.parameters import Limit
from consolidator.api.problems import Problem
from consolidator.api.routes.sessions import SESSION_LOCATION
from consolidator.api.schemas import ChildOverrides, Input, Position, RowAnswer, SessionId, list_of
from consolidator.models.session import SessionRow
from consolidator.runtime.rerun import branches
from consolidator.runtime.rerun.branches import (
    BranchRequest,
    branch_kind,
    branch_status,
    committed_seq,
)
from consolidator.runtime.session.access import load_session
from consolidator.service.database import Database
from consolidator.service.requests import Answer
from consolidator.service.sessions import listing

router = APIRouter(tags=["branches"])


# The specification has `pre-steer`.
_WITH_UNDERSCORE = BeforeValidator(lambda kind: kind.replace("-", "_") if isinstance(kind, str) else kind)


class NewBranch(Input):
    """What is to be tried in a branch, and from where."""

    kind: Annotated[Literal["sim", "pre_steer", "dream"], _WITH_UNDERSCORE] = Field(
        examples=["sim"],
        description="sim: anything; pre_steer: a steer before it is sent; dream: without the session's state",
    )
    message: str | None = Field(
        default=None, min_length=1, max_length=1_000_000, description="what it begins with; of a pre_steer, the steer"
    )
    at: Position | None = Field(default=None, description="seq; by default where nothing was open last")
    overrides: ChildOverrides = Field(default_factory=ChildOverrides)
    live_tools: bool = Field(default=False, description="run tools with side effects, too; otherwise they are dry runs")
    speaker: str | None = Field(default=None, max_length=200, description="who of a group says it")
    state: dict[str, Any] | None = Field(default=None, description="with which a dream begins; else with none")

    def to_request(self, name: str | None) -> BranchRequest:
        """Return it as the service takes it."""
        own = self.model_dump(exclude={"overrides"})
        return BranchRequest(**own, overrides=self.overrides.to_overrides(), name=name)


class Figures(BaseModel):
    """What one side took after the point."""

    answers: int
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: str | None = Field(description="USD; null where the price of a model is unknown")


class Diff(BaseModel):
    """How two runs of the same messages differ."""

    is_empty: bool
    turns: int
    differences: list[dict[str, Any]] = Field(
        description="turns that are not the same: message, answers and figures of both sides, calls with arguments"
    )
    left: Figures
    right: Figures


class Comparison(BaseModel):
    """A branch (right) and its session (left), from the branch's point on."""

    branch: str
    main: str
    kind: str
    status: str = Field(description="running, waiting (for a person), failed, ready, committed or ended")
    after: int = Field(description="the last event that both have")
    is_whole: bool = Field(description="false where one has more events than are compared, or some are pruned")
    diff: Diff


class NewRerun(Input):
    """From where a session is run again, and what is different."""

    from_message: Position | None = Field(default=None, description="seq; by default its own first")
    overrides: ChildOverrides = Field(default_factory=ChildOverrides)


class Rerun(BaseModel):
    """A rerun of a session: how far it is, and at its end what is different."""

    rerun_id: str = Field(description="the branch in which it runs")
    status: str = Field(description="running, done, failed; or unknown, after a restart of the service")
    messages: int | None = Field(description="that are said again")
    answered: int = Field(description="turns that have ended")
    finish_reason: str | None = Field(default=None, description="of the last turn")
    diff: Diff | None = Field(default=None, description="once it is not running any more")


class Branch(RowAnswer):
    """A branch of a session: it is never evidence of anything."""

    id: str
    main: str = Field(description="the session that it is a branch of")
    kind: str
    after: int = Field(description="seq of the last event before its own ones")
    status: str = Field(description="running, waiting (for a person), failed, ready, committed or ended")
    live_tools: bool
    committed_seq: int | None = Field(description="of the steer in the session, once it was sent")
    error: str | None
    head: int
    turns: int
    cost_usd: str
    created_at: datetime
    comparison: Comparison | None = Field(default=None, description="of a pre_steer branch, when it has been run")

    @property
    def session_id(self) -> str:
        """Which session the answer is about."""
        return self.id

    @classmethod
    def of(cls, row: SessionRow, **own: Any) -> Self:
        """Return a branch's row as the API shows it."""
        own |= {"main": row.parent_id or "", "kind": branch_kind(row), "after": row.base_seq}
        own |= {"status": branch_status(row), "live_tools": not row.is_dry_run}
        return super().of(row, committed_seq=committed_seq(row), **{"comparison": None, **own})


BranchList = list_of("BranchList", "A session's branches, the newest first.", branches=Branch)

BranchId = Annotated[
    str, Path(min_length=1, max_length=200, description="a branch's id", examples=["01K0B1C2D3E4F5G6H7J8K9M0N2"])
]


@router.post(
    "/sessions/{session_id}/branch",
    **operation("write", Branch, 201, also={"read": "of the kind pre_steer: what a model says of the log is answered"}),
)
async def create_branch(call: Writing, session_id: SessionId, body: NewBranch) -> Response:
    """Try something beside a session, which is untouched. Tools with side effects are dry runs.

    A driver answers the message of a `sim` or `dream`. A `pre_steer` is run at once and answered with its comparison;
    sent again with its Idempotency-Key, as after a crash, it goes on with the same branch. Its answer is what a model
    says of the log, so it needs the scope `read`, too.
    """
    if body.kind == "pre_steer":
        return await _preview(call, session_id, body)

    made: dict[str, Any] = {"driver_tools": call.driver_tools, "location": SESSION_LOCATION}
    show, request = partial(_show, call), body.to_request(None)
    return await call.change(show, branches.create_branch, call.settings, session_id, request, **made)


def _show(call: Writing, row: SessionRow) -> Branch:
    """Return a branch as the API shows it; who may not read it is not shown what went wrong in it."""
    return Branch.of(row, error=row.error if call.viewer.may("read") else None)


async def _preview(call: Writing, session_id: str, body: NewBranch) -> Response:
    driver = call.services.harness
    if driver is None:
        raise Problem(problems.UNAVAILABLE, "this service drives no sessions, so no steer can be tried")
    keyed = call.keyed
    name = None if keyed is None else f"{keyed.credential}:{keyed.key}:{keyed.request_hash.hex()[:16]}"

    async def work(database: Database) -> Answer:
        with call.services.previews.opened(call.viewer.name) as has_place:
            if not has_place:  # they may not take every place that requests are worked on in
                each, in_all = guard.PREVIEWS_EACH, guard.PREVIEWS
                raise Problem(
                    problems.TOO_MANY,
                    f"at most {each} steers of a credential, and {in_all} in all, are tried at once here",
                )
            compared = await branches.run_branch(
                replace(driver, database=database),
                session_id,
                body.to_request(name),
                is_stopping=call.services.stopping.is_set,
                viewer=call.viewer,
            )
        return call.to_answer(
            Branch.of(compared.branch, comparison=Comparison.model_validate(compared.as_json())), SESSION_LOCATION
        )

    return await call.answer_again(work)


@router.post("/sessions/{session_id}/rerun", **operation("write", Rerun, 202, also={"read": "its diff is answered"}))
async def rerun_session(call: Writing, session_id: SessionId, body: NewRerun | None = None) -> Response:
    """Say a session's messages again in a branch. Calls are answered from the record; all others are dry runs."""
    call.viewer.check_may("read")
    plan = body or NewRerun()

    async def work(database: Database) -> Answer:
        if call.services.harness is None:
            raise Problem(problems.UNAVAILABLE, "this process asks no model, so nothing can be run again")
        session = await load_session(database, session_id, "write", viewer=call.viewer)
        rerun = await call.services.reruns.start(
            session.id, from_seq=plan.from_message, overrides=plan.overrides.to_overrides(), viewer=call.viewer
        )
        shown = Rerun(rerun_id=rerun.session_id, status=rerun.status, messages=rerun.messages, answered=0)
        answer = call.to_answer(shown, f"/v1/sessions/{session.id}/reruns/{{rerun_id}}")
        return replace(answer, session_id=rerun.session_id)

    return await call.answer_again(work)


@router.get("/sessions/{session_id}/reruns/{branch_id}", **operation("read", Rerun))
async def get_rerun(call: Reading, session_id: SessionId, branch_id: BranchId) -> Response:
    """Show how far a rerun is, and how it compares once it has ended."""
    compared = await branches.compare_branch(call.database, branch_id, main=session_id, viewer=call.viewer)
    rerun = call.services.reruns.find(compared.branch.id)
    status = "unknown" if rerun is None else rerun.status
    shown = {
        "rerun_id": compared.branch.id,
        "status": status,
        "messages": None if rerun is None else rerun.messages,
        "answered": compared.branch.turns,
        "finish_reason": rerun.task.result().finish_reason if rerun is not None and status == "done" else None,
        "diff": None if status == "running" else compared.as_json()["diff"],
    }
    return reply(shown)


@router.get("/sessions/{session_id}/branches", **operation("read", BranchList))
async def list_branches(call: Reading, session_id: SessionId, limit: Limit = 50) -> Response:
    """List a session's branches, the newest first."""
    rows = await listing.list_branches(call.database, session_id, limit=limit, viewer=call.viewer)
    return reply({"branches": [Branch.of(row) for row in rows]})


@router.get("/sessions/{session_id}/branches/{branch_id}/compare", **operation("read", Comparison))
async def compare_branch(call: Reading, session_id: SessionId, branch_id: BranchId) -> Response:
    """Compare a branch with its session, from its point on: messages, calls with arguments, tokens, cost."""
    compared = await branches.compare_branch(call.database, branch_id, main=session_id, viewer=call.viewer)
    return reply(compared.as_json())


@router.post("/sessions/{session_id}/branches/{branch_id}/commit", **operation("write", Branch))
async def commit_branch(call: Writing, session_id: SessionId, branch_id: BranchId) -> Response:
    """Send the steer of a `pre_steer` branch to the session, once, and end the branch."""

    steered = branches.commit_steer
    return await call.change(lambda done: _show(call, done[0]), steered, branch_id, main=session_id)


@router.post("/sessions/{session_id}/branches/{branch_id}/discard", **operation("write", Branch))
async def discard_branch(call: Writing, session_id: SessionId, branch_id: BranchId) -> Response:
    """End a branch; what it did can still be read."""
    return await call.change(partial(_show, call), branches.discard_branch, branch_id, main=session_id)
