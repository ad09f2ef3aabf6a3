"""/v1/runs, backfill, retry, erase and revisions: the nights' jobs and what only an administrator does to memory.

A run goes on after its answer, which names it; `GET /v1/runs/{id}` tells what became of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Path, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from starlette.responses import Response

from consolidator.api.call import Reading, Writing, operation, reply
from consolidator.api.parameters import Limit
from consolidator.api.schemas import Input, list_of, of_row
from consolidator.errors import NotFound
from consolidator.service.database import Database
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.nights import runs
from consolidator.service.nights.requested import RequestedRuns
from consolidator.service.nights.runs import BackfillFilter, ListedRun, RevisionSummaryRow, run_backfill
from consolidator.service.requests import Answer

router = APIRouter(tags=["nights"])


@of_row(
    ListedRun,
    "run",
    leave_out="heartbeat_at owner arguments deaths units",
    seen="events: learned + nothing + deferred + dead",
)
class Run(BaseModel):
    """One execution of a job."""

    model_config = ConfigDict(extra="allow")


RunList = list_of("RunList", "Runs, the latest first.", runs=Run)


class RunDetails(Run):
    """A run with its units and dead letters."""

    claims: list[dict[str, Any]]
    dead_letters: list[dict[str, Any]]


class StartedRun(BaseModel):
    """A run that goes on after this answer."""

    run_id: str | None = Field(description="null: there was nothing to do, or another replica does its work first")


class NewRun(Input):
    """A job to run now: its scheduled run if that is due, else an unscheduled one."""

    job: Literal["import", "consolidation", "retention"]
    older_than_days: int | None = Field(default=None, ge=1, le=36_500, description="retention: prune what is older")
    force: bool = Field(default=False, description="retention: although the clock or the amount seems wrong")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.older_than_days is not None or self.force) and self.job != "retention":
            raise ValueError("older_than_days and force are options of the job retention")
        return self


class NewBackfill(Input):
    """Which sessions to consolidate now, or to derive again."""

    session: str | None = Field(default=None, min_length=1, max_length=200)
    agent: str | None = Field(default=None, min_length=1, max_length=1000)
    since: AwareDatetime | None = Field(default=None, description="only sessions active since")
    until: AwareDatetime | None = Field(default=None, description="only sessions last active before")
    only: Literal["facts", "procedures", "solutions"] | None = Field(default=None, description="derive these again")
    reprocess: bool = Field(default=False, description="derive again what was learned already")
    model: str | None = Field(default=None, min_length=1, max_length=200, description="with reprocess: into a draft")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.model is not None and (not self.reprocess or self.only is not None):
            raise ValueError("model goes with reprocess, and without only")
        return self


class Retry(Input):
    """Dead letters to learn from again."""

    id: str | None = Field(default=None, min_length=1, max_length=200, description="a dead letter or a run; else all")
    discard: bool = Field(default=False, description="give them up")


class Erase(Input):
    """Sessions to erase for good: one with its descendants, or all of a peer."""

    session: str | None = Field(default=None, min_length=1, max_length=200, description="a session's whole id")
    peer: str | None = Field(default=None, min_length=1, max_length=1000)
    reason: str = Field(default="asked to", min_length=1, max_length=1000, description="for the record")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.session is None) == (self.peer is None):
            raise ValueError("name either session or peer")
        return self


class Erased(BaseModel):
    """What was erased."""

    sessions: int
    events: int
    store_items: int
    """Of a peer: what programs kept under a namespace with this name."""


@of_row(RevisionSummaryRow, "revision", leave_out="choice")
class Revision(BaseModel):
    """A revision of the facts, and how much it has read."""

    model_config = ConfigDict(extra="allow")

    model: str | None


RevisionList = list_of("RevisionList", "Revisions, the latest first.", revisions=Revision)


class RevisionComparison(BaseModel):
    """What promoting a draft would do to the facts."""

    revision: int
    model: str | None
    status: str
    added: list[str] = Field(description="sentences")
    lost: list[str]
    changed: list[list[str]] = Field(description="the sentence before, and after")
    kept: int


RunId = Annotated[str, Path(min_length=1, max_length=200, description="a run's id")]
Number = Annotated[int, Path(ge=1, le=2**31 - 1, description="a revision's number")]
AnyJob = Literal["import", "consolidation", "retention", "backfill", "retry", "reindex"]


@router.get("/runs", **operation("admin", RunList))
async def list_runs(call: Reading, job: Annotated[AnyJob | None, Query()] = None, limit: Limit = 20) -> Response:
    """List runs with their sums, the latest first."""
    return reply({"runs": await runs.list_runs(call.database, job=job, limit=limit)})


@router.get("/runs/{run_id}", **operation("admin", RunDetails))
async def show_run(call: Reading, run_id: RunId, limit: Limit = 200) -> Response:
    """Show a run: its report, its units and its dead letters."""
    return reply(await runs.load_run(call.database, run_id, limit=limit))


@router.post("/runs", **operation("admin", StartedRun, 202))
async def start_run(call: Writing, body: NewRun) -> Response:
    """Run a job now: its scheduled run if that is due, else an unscheduled one."""
    age = None if body.older_than_days is None else timedelta(days=body.older_than_days)
    return await _start(call, lambda on: runs.run_job(on, body.job, older_than=age, force=body.force))


@router.post("/backfill", **operation("admin", StartedRun, 202, responses={404: {}}))
async def backfill(call: Writing, body: NewBackfill) -> Response:
    """Consolidate chosen sessions now, derive again what was learned, or read facts with a model into a draft.

    The same request resumes a run of it that was interrupted.
    """
    selection = BackfillFilter(body.session, body.agent, body.since, body.until, body.only, body.reprocess)
    return await _start(call, lambda on: run_backfill(on, selection, model=body.model))


@router.post("/retry", **operation("admin", StartedRun, 202, responses={404: {}}))
async def retry(call: Writing, body: Retry | None = None) -> Response:
    """Learn again from events that were set aside, or discard them."""
    letters = body or Retry()
    return await _start(
        call,
        lambda on: runs.retry_dead_letters(
            on.database, on.settings, run_or_letter_id=letters.id, discard=letters.discard
        ),
    )


@router.post("/erase", **operation("admin", Erased, responses={404: {}}))
async def erase(call: Writing, body: Erase) -> Response:
    """Erase a session with its descendants, or a peer's, and what was derived from them; all or nothing, for good."""
    requested = call.services.runs

    async def work(_: Database) -> Answer:
        plan = await plan_erasure(requested.database, session=body.session, peer=body.peer)
        if body.session is not None and plan.named_ids != [body.session]:
            raise NotFound(f"no session has the id {body.session!r}: its beginning is not enough here")
        report = await erase_sessions(requested.database, requested.settings, plan, reason=body.reason)
        return call.to_answer(Erased(**report))

    return await call.answer_again(work)


@router.get("/revisions", **operation("admin", RevisionList))
async def list_revisions(call: Reading, limit: Limit = 20) -> Response:
    """List revisions of the facts: drafts that a backfill with another model made, and promoted ones."""
    return reply({"revisions": await runs.list_revisions(call.database, limit=limit)})


@router.get("/revisions/{number}", **operation("admin", RevisionComparison))
async def compare_revision(call: Reading, number: Number) -> Response:
    """Show which facts promoting a draft would add, lose and change; writes nothing."""
    return reply(await runs.compare_revision(call.services.runs.database, number))


@router.delete("/revisions/{number}", **operation("admin", None, 204))
async def discard_revision(call: Writing, number: Number) -> Response:
    """Discard a draft with all that it read."""

    async def discard(database: Database, **_: Any) -> None:
        await runs.discard_revision(database, number)

    return await call.change(lambda _: None, discard)


@router.post("/revisions/{number}/promote", **operation("admin", StartedRun, 202))
async def promote_revision(call: Writing, number: Number) -> Response:
    """Make a draft the current revision."""
    return await _start(call, lambda on: runs.promote_revision(on, number))


@router.post("/revisions/restore", **operation("admin", StartedRun, 202, responses={404: {}}))
async def restore_revision(call: Writing) -> Response:
    """Undo the last promotion: the former revision is current again, and the promoted one is a draft."""
    return await _start(call, runs.restore_revision)


async def _start(call: Writing, work: Callable[[RequestedRuns], Awaitable[Any]]) -> Response:
    requested = call.services.runs

    async def start(_: Database) -> Answer:
        run_id = await requested.start(lambda: work(requested))
        return call.to_answer(StartedRun(run_id=run_id), None if run_id is None else "/v1/runs/{run_id}")

    return await call.answer_again(start)
