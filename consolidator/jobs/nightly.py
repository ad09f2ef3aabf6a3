"""The three jobs of a night, each a run in the ledger, which decides what is due and that it is done once.

Of the scheduled times that were missed only the latest is caught up, at the next start; an interrupted run is resumed.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from consolidator.database import partitions
from consolidator.errors import Interrupted, UsageError
from consolidator.formats.registry import find_local_logs, get_format
from consolidator.jobs import cron
from consolidator.jobs.consolidation.pipeline import consolidate
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.jobs.indexing.reindex import rebuild_outdated
from consolidator.jobs.ledger import MAX_ATTEMPTS, ON_RUN, POLL_SECONDS, JobContext, Ledger, recorded_run
from consolidator.jobs.retention import prune
from consolidator.models.audience import pluralize
from consolidator.models.run import RunRow
from consolidator.settings import Settings
from consolidator.store.nights import runs
from consolidator.telemetry import open_span

log = logging.getLogger("consolidator.jobs")
Job = Literal["import", "consolidation", "retention"]
JOBS: tuple[Job, ...] = ("import", "consolidation", "retention")
ENDED = ("done", "failed")


@dataclass(slots=True)
class JobRunner(JobContext):
    """Runs the jobs on a database, scheduled or by hand."""

    trigger: str = "manual"  # of its unscheduled runs
    after_night: Callable[[str], Awaitable[None]] | None = None  # called with the id of a scheduled night that ended

    def cron_expression(self, job: Job) -> str:
        """Return a job's cron expression."""
        return str(getattr(self.settings, f"{job}_cron"))

    async def due_at(self, job: Job) -> datetime | None:
        """Return the scheduled time at which a job was due; None if its latest one has been done."""
        scheduled_at = cron.last_due(self.cron_expression(job), self.settings.timezone, self.database.clock.now())
        if scheduled_at is None:
            return None
        async with self.database.connection() as conn:
            last = await runs.last_scheduled(conn, job, max_attempts=MAX_ATTEMPTS)
        return scheduled_at if last is None or last < scheduled_at else None

    async def find_last_ended(self, job: str) -> RunRow | None:
        """Return the run of a job that ended last, on any replica."""
        async with self.database.connection() as conn:
            return await runs.find_last_ended(conn, job)

    async def run_due(self, job: Job) -> dict[str, Any] | None:
        """Run a job if it is due; return its report, None if it is not due or another replica has ended it first."""
        scheduled_at = await self.due_at(job)
        report = None if scheduled_at is None else await self._run(job, scheduled_at, "schedule")
        if report is not None and job == "consolidation" and self.after_night is not None:
            await self.after_night(report["run"])
        return report

    async def collect_batches(self) -> dict[str, Any] | None:
        """Collect the answers of batched model calls and learn from them; return None if there were none."""
        if (self.settings.extract_model or self.settings.model) is None:
            return None
        from consolidator.jobs.model.batches import ModelBatches

        async with aclosing(ModelBatches(self.database, self.settings)) as batches:
            if not await batches.collect():
                return None
        return await self._run_unscheduled("consolidation", "batch")

    async def run_now(self, job: Job, **arguments: Any) -> dict[str, Any]:
        """Run a job by hand: its scheduled run if that is due and there are no arguments, else an unscheduled one."""
        if not arguments:
            report = await self.run_due(job)
            if report is not None:
                return report
        return await self._run_unscheduled(job, self.trigger, **arguments)

    async def _run_unscheduled(self, job: Job, trigger: str, **arguments: Any) -> dict[str, Any]:
        scheduled_at = self.database.clock.now()
        while (report := await self._run(job, scheduled_at, trigger, **arguments)) is None:
            scheduled_at += timedelta(microseconds=1)  # another run of this job has this time
        return report

    async def _run(self, job: Job, scheduled_at: datetime, trigger: str, **arguments: Any) -> dict[str, Any] | None:
        """Run a job; consolidation is shared with other replicas. Return None if another replica has ended it first."""
        if job == "consolidation":
            return await self._run_in_ledger(job, scheduled_at, trigger, **arguments)
        async with self._job_lock(job):  # before the run is started: a replica that only waits has none to interrupt
            return await self._run_in_ledger(job, scheduled_at, trigger, **arguments)

    async def _run_in_ledger(
        self, job: Job, scheduled_at: datetime, trigger: str, **arguments: Any
    ) -> dict[str, Any] | None:
        ledger = self.become(Ledger)
        run = await self._start_run(ledger, job, scheduled_at, trigger, arguments)
        if run is None:
            return None
        log.info("%s for %s", job, f"{scheduled_at:%Y-%m-%d %H:%M %Z}")
        attributes = {"consolidator.job": job, "consolidator.run": run.id, "consolidator.trigger": trigger}
        with open_span("run", f"run {job}", attributes) as span:
            async with recorded_run(ledger, is_scheduled=trigger == "schedule"):
                report = await self._do_job(job, ledger, **arguments)
            span.attributes["consolidator.events"] = report.get("seen", report.get("events"))
        return {"run": run.id, "job": job, **report}

    async def _start_run(
        self, ledger: Ledger, job: Job, scheduled_at: datetime, trigger: str, arguments: dict[str, Any]
    ) -> RunRow | None:
        """Start a run, or resume it, and hand it to the ledger; return None if it has ended."""
        now = self.database.clock.now()
        async with self.database.transaction() as conn:
            silent_since = now - timedelta(seconds=self.settings.lease_seconds)
            await runs.close_silent_runs(conn, silent_since, now, JOBS)
            run = await runs.start(
                conn,
                job=job,
                scheduled_at=scheduled_at,
                trigger=trigger,
                owner=ledger.owner,
                now=now,
                arguments={
                    key: value if isinstance(value, (str, int, list, dict, bool)) else str(value)
                    for key, value in arguments.items()
                },
            )
            if run.status in ENDED and not 0 < run.deaths < MAX_ATTEMPTS:
                return None
            if run.status != "running":
                await runs.resume(conn, run.id, ledger.owner, now)
        ledger.run_id = run.id
        ON_RUN.get()(run.id)
        return run

    async def _do_job(self, job: Job, ledger: Ledger, **arguments: Any) -> dict[str, Any]:
        """Do the work of a run; return its report."""
        if job == "consolidation":
            async with self.database.connection() as conn:
                await partitions.ensure_ahead(conn, self.database.clock.now())
            await rebuild_outdated(self)
            return await consolidate(ledger, **arguments)
        if job == "import":
            sources = configured_sources(self.settings)
            imported = await import_sources(self.database, sources, stop=self.stop, lenient=True)
            return await ledger.finish(imported.as_json())
        older_than = arguments.get("older_than", timedelta(days=self.settings.retention_days))
        episode_days = self.settings.episode_days
        pruned = await prune(
            self.database,
            older_than=older_than,
            episodes=None if episode_days is None else timedelta(days=episode_days),
            max_share=None if arguments.get("force") else self.settings.retention_max_share,
            run_id=ledger.run_id,
            progress=self.progress,
        )
        return await ledger.finish(pruned.as_json())

    @asynccontextmanager
    async def _job_lock(self, job: Job) -> AsyncIterator[None]:
        """Wait for the lock of a job that one replica does alone; the database releases it if the replica dies."""
        async with self.database.connection() as conn:
            is_waiting = False
            while not await runs.try_lock_job(conn, job):
                if self.stop.is_set():
                    raise Interrupted("asked to stop while another replica does the work")
                if not is_waiting:
                    log.warning("waiting for another process, which does the same job (%s)", job)
                is_waiting = True
                await asyncio.sleep(POLL_SECONDS)
            try:
                yield
            finally:
                await runs.unlock_job(conn, job)


def configured_sources(settings: Settings) -> list[ImportSource]:
    """Return the configured sources; if there are none, the logs that agents left on this machine."""
    if not settings.sources:
        return [ImportSource(path, log_format) for log_format, path in find_local_logs(Path.home(), os.environ)]
    sources = []
    for setting in settings.sources:
        name, colon, path = setting.partition(":")
        if not colon:
            raise UsageError(f'CONSOLIDATOR_SOURCES: {setting!r} is not "format:path"')
        log_format = None if name == "auto" else get_format(name)
        sources.append(ImportSource(Path(path).expanduser(), log_format))
    return sources


def model_line(report: Mapping[str, Any]) -> str | None:
    """Return the line about the model for a run's report; None if the run needed no model."""
    usage = report.get("model", report.get("calls"))
    if isinstance(usage, str):
        return f"model: {usage}"
    if not isinstance(usage, Mapping):
        return None
    tokens = usage["input_tokens"] + usage["output_tokens"]
    parts = [pluralize(usage["calls"], "call"), f"{tokens:,} tokens"]
    if usage.get("cost_usd") is not None:
        parts.append(f"{usage['cost_usd']} USD")
    if usage["known"]:
        parts.append(f"{pluralize(usage['known'], 'answer')} reused")
    if usage.get("awaited"):
        parts.append(f"{pluralize(usage['awaited'], 'answer')} pending in batches")
    line = f"model{' ' + usage['name'] if usage.get('name') else ''}: {', '.join(parts)}"
    failures = sum(usage["failures"].values())
    if failures:
        outcome, count = next(iter(usage["failures"].items()))
        line += f"; {failures} failed, {count} of them: {outcome.removeprefix('failed: ')}"
    return f"{line}; stopped: {usage['stopped']}" if usage.get("stopped") else line
