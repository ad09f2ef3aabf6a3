"""Runs of jobs: start one now, list them, show one, learn again from its dead letters or from chosen sessions."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

from consolidator.database import Database
from consolidator.jobs.consolidation import backfill
from consolidator.jobs.consolidation.backfill import Backfill
from consolidator.jobs.consolidation.revisions import compare_revision as compare_revision
from consolidator.jobs.consolidation.revisions import promote_revision as promote_revision
from consolidator.jobs.consolidation.revisions import read_again
from consolidator.jobs.consolidation.revisions import restore_revision as restore_revision
from consolidator.jobs.cron import WallClockTrigger
from consolidator.jobs.indexing.reindex import Reindexing
from consolidator.jobs.ledger import EXTRACTORS as EXTRACTORS
from consolidator.jobs.ledger import BackfillFilter as BackfillFilter
from consolidator.jobs.ledger import JobContext as JobContext
from consolidator.jobs.nightly import JOBS as JOBS
from consolidator.jobs.nightly import Job as Job
from consolidator.jobs.nightly import JobRunner
from consolidator.jobs.nightly import model_line as model_line
from consolidator.jobs.retention import prune
from consolidator.jobs.scheduler import summarize as summarize
from consolidator.models.memory_filter import Page
from consolidator.runtime.session.access import find_session_id
from consolidator.service.memory.ids import resolve_id
from consolidator.service.nights.night_digest import send_night_digest
from consolidator.settings import Settings
from consolidator.store.facts import revisions
from consolidator.store.facts.revisions import RevisionSummaryRow as RevisionSummaryRow
from consolidator.store.nights import runs
from consolidator.store.nights.runs import ListedRun as ListedRun

MANUAL_JOBS = ("backfill", "retry", "reindex")  # the jobs that only a person starts


async def run_job(
    context: JobContext, job: Job, *, older_than: timedelta | None = None, force: bool = False
) -> dict[str, Any]:
    """Run a job now, the scheduled run if one is due; return its report.

    Options of retention: `older_than`, and `force`, which prunes also what it would stop at.
    """
    tell = partial(send_night_digest, context.database, context.settings)
    runner = context.become(JobRunner, after_night=tell)
    options: dict[str, Any] = {"older_than": older_than, "force": force}
    return await runner.run_now(job, **{name: value for name, value in options.items() if value})


async def preview_retention(
    database: Database, settings: Settings, *, older_than: timedelta | None = None
) -> dict[str, Any]:
    """Return the report of what retention would prune; prune nothing."""
    age = older_than or timedelta(days=settings.retention_days)
    report = await prune(database, older_than=age, dry_run=True)
    return {"job": "retention", **report.as_json()}


async def list_runs(
    database: Database, *, job: str | None = None, after: tuple[datetime, str] | None = None, limit: int = 20
) -> Page[ListedRun]:
    """Return a page of runs with their sums, the latest first.

    `after` is when the last one of the page before started, and its id; so is a position.
    """
    async with database.connection() as conn:
        rows = await runs.list_runs(conn, job=job, after=after, limit=limit + 1)
    return Page.cut(rows, limit, lambda row: [row.started_at.isoformat(), row.id])


async def load_run(database: Database, run_id: str, *, limit: int = 200) -> dict[str, Any]:
    """Return a run as JSON: its row, its sums or report, up to `limit` of its units, and its dead letters.

    `run_id` may be the beginning of an id. Raises NotFound, and UsageError where it begins several.
    """
    async with database.connection() as conn:
        run_id = await resolve_id(conn, run_id, ("run",))
        run = await runs.get(conn, run_id)
        units = await runs.list_units(conn, run_id, limit=limit)
        letters = await runs.list_dead_letters(conn, run_or_letter_id=run_id, include_settled=True)
        sums = await runs.sum_units(conn, run_id)
    return {
        **asdict(sums),
        **run.report,
        **asdict(run),
        "claims": [asdict(unit) for unit in units],
        "dead_letters": [asdict(letter) for letter in letters],
    }


async def retry_dead_letters(
    database: Database, settings: Settings, *, run_or_letter_id: str | None = None, discard: bool = False
) -> dict[str, Any]:
    """Learn again from events that were set aside, or discard them; return how many are settled and how many remain."""
    if run_or_letter_id is not None:
        async with database.connection() as conn:
            run_or_letter_id = await resolve_id(conn, run_or_letter_id, ("run", "dead_letter"))
    return await backfill.retry_dead_letters(database, settings, run_or_letter_id=run_or_letter_id, discard=discard)


async def run_backfill(
    job: JobContext, session_filter: BackfillFilter, *, model: str | None = None, rehearse: bool = False
) -> dict[str, Any]:
    """Run a backfill and return its report; the filter may name its session by the beginning of its id.

    With `model` the facts are read into a draft revision, which the report compares with what is believed. With
    `rehearse` nothing is written.
    """
    if session_filter.session is not None:
        session_id = await find_session_id(job.database, session_filter.session)
        session_filter = replace(session_filter, session=session_id)
    if model is not None:
        return await read_again(job, session_filter, model)
    backfill = job.become(Backfill, session_filter=session_filter)
    return await (backfill.rehearse() if rehearse else backfill.run())


async def reindex(job: JobContext, *, vectors: bool) -> dict[str, Any]:
    """Rebuild recall's index; with `vectors`, recompute all vectors. Return the run's report."""
    return await job.become(Reindexing, vectors=vectors).run()


async def list_due_jobs(database: Database, settings: Settings) -> list[Job]:
    """Return the jobs whose latest scheduled time has not been done, in the order of a night."""
    runner = JobRunner(database, settings)
    return [job for job in JOBS if await runner.due_at(job) is not None]


def due_days(settings: Settings, first: date, last: date) -> set[date]:
    """Return the days, the first and last among them, for which a consolidation is scheduled."""
    trigger = WallClockTrigger(settings.consolidation_cron, settings.timezone)
    return set(trigger.days_between(first, last))


async def list_revisions(database: Database, *, limit: int = 20) -> list[RevisionSummaryRow]:
    """Return revisions, the latest first."""
    async with database.connection() as conn:
        return await revisions.list_revisions(conn, limit)


async def discard_revision(database: Database, revision: int) -> None:
    """Discard a draft with all that it read; raise UsageError if the revision is not a draft."""
    async with database.transaction() as conn:
        await revisions.discard(conn, revision)
