"""The three jobs of a night, each one run in the ledger: what is owed is decided from it, and done once.

A slot that was missed is caught up at the next start, once; a run that was cut short is taken up again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from consolidator.database import Database, partitions
from consolidator.errors import ConsolidatorError, DatabaseUnavailable, Interrupted, UsageError
from consolidator.formats import format_named, on_this_machine
from consolidator.jobs import cron
from consolidator.jobs.consolidation.pipeline import consolidate
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.jobs.ledger import PAUSE, Ledger, beating, interrupt
from consolidator.jobs.model.batches import batches_of
from consolidator.jobs.model.calls import model_of
from consolidator.jobs.retention import prune
from consolidator.llm.redaction.redact import redact
from consolidator.settings import Settings
from consolidator.store.nights import runs
from consolidator.store.queries import Row

log = logging.getLogger("consolidator.jobs")
Job = Literal["import", "consolidation", "retention"]
JOBS: tuple[Job, ...] = ("import", "consolidation", "retention")
ENDED = ("done", "failed")


@dataclass(slots=True)
class Nights:
    """Runs jobs on a database."""

    database: Database
    settings: Settings
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    started: Callable[[int], None] | None = None  # told how many sessions a night has before it
    progress: Callable[[str], None] | None = None  # told of each unit that ended

    def cron(self, job: Job) -> str:
        """Return a job's cron expression."""
        return str(getattr(self.settings, f"{job}_cron"))

    async def owed(self, job: Job) -> datetime | None:
        """Return the slot a job owes, or None where the latest one has been done."""
        slot = cron.latest(self.cron(job), self.settings.timezone, self.database.clock.now())
        if slot is None:
            return None
        async with self.database.connection() as conn:
            last = await runs.last_slot(conn, job, most=self.settings.max_attempts)
        return slot if last is None or last < slot else None

    async def last_ended(self, job: str) -> Row | None:
        """Return the run of a job that ended last, on whatever replica."""
        async with self.database.connection() as conn:
            return await runs.last_ended(conn, job)

    async def run_owed(self, job: Job) -> dict[str, Any] | None:
        """Run a job for the slot it owes; None where it owes none, or another replica has ended it first."""
        slot = await self.owed(job)
        return None if slot is None else await self._run(job, slot, "schedule")

    async def collect(self) -> dict[str, Any] | None:
        """Collect what came back of the batches of questions, and learn from it; None where nothing did."""
        if model_of(self.settings) is None:
            return None
        async with batches_of(self.database, self.settings) as batches:
            if not await batches.collect():
                return None
        return await self._beside("consolidation", "batch")

    async def run_now(self, job: Job, **arguments: Any) -> dict[str, Any]:
        """Run a job by hand: for the slot it owes, if it owes one, else beside the schedule."""
        if not arguments:
            done = await self.run_owed(job)
            if done is not None:
                return done
        return await self._beside(job, "manual", **arguments)

    async def _beside(self, job: Job, trigger: str, **arguments: Any) -> dict[str, Any]:
        """Run a job beside the schedule."""
        slot = self.database.clock.now()
        while (report := await self._run(job, slot, trigger, **arguments)) is None:
            slot += timedelta(microseconds=1)  # somebody else has this moment
        return report

    async def _run(self, job: Job, slot: datetime, trigger: str, **arguments: Any) -> dict[str, Any] | None:
        """Do a job for a slot, with others or alone; None where another replica has ended it first."""
        if job == "consolidation":
            return await self._recorded(job, slot, trigger, **arguments)
        async with self._alone(job):  # before there is a run: who only waits has none to mark as cut short
            return await self._recorded(job, slot, trigger, **arguments)

    async def _recorded(self, job: Job, slot: datetime, trigger: str, **arguments: Any) -> dict[str, Any] | None:
        now = self.database.clock.now()
        ledger = Ledger(self.database, self.settings, "", self.stop, progress=self.progress)
        async with self.database.transaction() as conn:
            silent = now - timedelta(seconds=self.settings.lease_seconds)
            await runs.give_up(conn, since=silent, now=now, jobs=JOBS)
            run = await runs.start(
                conn, job=job, slot=slot, trigger=trigger, owner=ledger.owner, now=now, arguments=_plain(arguments)
            )
            if run["status"] in ENDED and not 0 < run["deaths"] < self.settings.max_attempts:
                return None
            if run["status"] != "running":
                await runs.resume(conn, run["id"], owner=ledger.owner, now=now)
        ledger.run = run["id"]
        log.info("%s %s for %s", job, run["id"], slot.isoformat())
        try:
            async with beating(ledger):
                done = await self._work(job, ledger, **arguments)
            return {"run": run["id"], "job": job, **done}
        except (Interrupted, asyncio.CancelledError):
            await interrupt(self.database, run["id"])
            raise
        except DatabaseUnavailable:
            raise  # a run of a slot is taken up again when the database is back, any other is given up by the next job
        except ConsolidatorError as error:
            await ledger.end({}, status="failed", error=str(error))
            raise
        except Exception as error:  # a bug: its slot is tried again, but not without end
            told = redact(f"{type(error).__name__}: {error}")[:2000]
            await ledger.end({}, status="failed", error=told, died=trigger == "schedule")
            raise

    async def _work(self, job: Job, ledger: Ledger, **arguments: Any) -> dict[str, Any]:
        """Do a run's work."""
        if job == "consolidation":
            async with self.database.connection() as conn:
                await partitions.ensure(conn, self.database.clock.now())
            return await consolidate(ledger, started=self.started, **arguments)
        if job == "import":
            found = await import_sources(self.database, sources_of(self.settings), stop=self.stop, lenient=True)
            return await ledger.end(found.as_json())
        days = timedelta(days=self.settings.retention_days)
        kept = None if self.settings.episode_days is None else timedelta(days=self.settings.episode_days)
        older = arguments.get("older_than", days)
        pruned = await prune(self.database, older_than=older, episodes=kept, progress=self.progress)
        return await ledger.end(pruned.as_json())

    @asynccontextmanager
    async def _alone(self, job: Job) -> AsyncIterator[None]:
        """Wait until no other replica does a job that is not shared; the database forgets a replica that dies."""
        async with self.database.connection() as conn:
            while not await runs.enter(conn, job):
                if self.stop.is_set():
                    raise Interrupted("asked to stop while another replica does the work")
                await asyncio.sleep(PAUSE)
            try:
                yield
            finally:
                await runs.leave(conn, job)


def sources_of(settings: Settings) -> list[ImportSource]:
    """Return the configured sources, or what agents have left on this machine."""
    if not settings.sources:
        return [ImportSource(path, form) for form, path in on_this_machine(Path.home())]
    found = []
    for told in settings.sources:
        name, colon, path = told.partition(":")
        if not colon:
            raise UsageError(f'CONSOLIDATOR_SOURCES: {told!r} is not "format:path"')
        form = None if name == "auto" else format_named(name)
        found.append(ImportSource(Path(path).expanduser(), form))
    return found


def _plain(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value if isinstance(value, (str, int, list, dict, bool)) else str(value)
        for key, value in arguments.items()
    }
