"""/v1/sessions/{id}/branch and branches: runs beside a session, compared with it, and steers tried before they go."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from consolidator.api import guard, problems
from consolidator.api.call import Reading, Writing, operation, reply, to_answer
from consolidator.api.problems import Problem
from consolidator.api.schemas.branch import Branch, BranchList, Comparison, NewBranch, NewRerun, Rerun
from consolidator.api.schemas.session import SessionId
from consolidator.models.session import SessionRow
from consolidator.service.database import Database
from consolidator.service.requests import Answer
from consolidator.service.sessions import branches
from consolidator.service.sessions.access import load_session

router = APIRouter(tags=["branches"])
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

    return await call.change(
        lambda row: replace(_show(call, row), status=201, location=f"/v1/sessions/{row.id}"),
        branches.create_branch,
        call.settings,
        session_id,
        body.to_request(None),
        driver_tools=call.driver_tools,
        viewer=call.viewer,
    )


def _show(call: Writing, row: SessionRow) -> Answer:
    """Return a branch as the API shows it; who may not read it is not shown what went wrong in it."""
    shown = Branch.of(row)
    if not call.viewer.may("read"):
        shown.error = None
    return to_answer(shown, row.id)


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
        row = compared.branch
        return to_answer(Branch.of(row, compared), row.id, status=201, location=f"/v1/sessions/{row.id}")

    return await call.answer_again(work)


@router.post("/sessions/{session_id}/rerun", **operation("write", Rerun, 202, also={"read": "its diff is answered"}))
async def rerun_session(call: Writing, session_id: SessionId, body: NewRerun | None = None) -> Response:
    """Say a session's messages again in a branch. Calls are answered from the record; all others are dry runs."""
    call.viewer.check_may("read")
    wanted = body or NewRerun()

    async def work(database: Database) -> Answer:
        if call.services.harness is None:
            raise Problem(problems.UNAVAILABLE, "this process asks no model, so nothing can be run again")
        session = await load_session(database, session_id, "write", viewer=call.viewer)
        rerun = await call.services.reruns.start(
            session.id, from_seq=wanted.from_message, overrides=wanted.overrides.to_overrides(), viewer=call.viewer
        )
        shown = Rerun(rerun_id=rerun.session_id, status=rerun.status, messages=rerun.messages, answered=0)
        location = f"/v1/sessions/{session.id}/reruns/{rerun.session_id}"
        return to_answer(shown, rerun.session_id, status=202, location=location)

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
    return reply(Rerun.model_validate(shown))


@router.get("/sessions/{session_id}/branches", **operation("read", BranchList))
async def list_branches(
    call: Reading, session_id: SessionId, limit: Annotated[int, Query(ge=1, le=500)] = 50
) -> Response:
    """List a session's branches, the newest first."""
    rows = await branches.list_branches(call.database, session_id, limit=limit, viewer=call.viewer)
    return reply(BranchList.model_construct(branches=[Branch.of(row) for row in rows]))


@router.get("/sessions/{session_id}/branches/{branch_id}/compare", **operation("read", Comparison))
async def compare_branch(call: Reading, session_id: SessionId, branch_id: BranchId) -> Response:
    """Compare a branch with its session, from its point on: messages, calls with arguments, tokens, cost."""
    compared = await branches.compare_branch(call.database, branch_id, main=session_id, viewer=call.viewer)
    return reply(Comparison.of(compared))


@router.post("/sessions/{session_id}/branches/{branch_id}/commit", **operation("write", Branch))
async def commit_branch(call: Writing, session_id: SessionId, branch_id: BranchId) -> Response:
    """Send the steer of a `pre_steer` branch to the session, once, and end the branch."""

    async def work(database: Database) -> Answer:
        row, _ = await branches.commit_steer(database, branch_id, main=session_id, viewer=call.viewer)
        return _show(call, row)

    return await call.answer_once(work)


@router.post("/sessions/{session_id}/branches/{branch_id}/discard", **operation("write", Branch))
async def discard_branch(call: Writing, session_id: SessionId, branch_id: BranchId) -> Response:
    """End a branch; what it did can still be read."""
    show, viewer = partial(_show, call), call.viewer
    return await call.change(show, branches.discard_branch, branch_id, main=session_id, viewer=viewer)
