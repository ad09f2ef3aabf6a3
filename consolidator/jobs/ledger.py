"""Works through a run's units with its replicas: claims, heartbeats, retries, dead letters, and counts that balance.

The units of a phase start when those of the phase before have ended. If a replica crashes, its units are delayed by
one lease.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, TypeVar

from consolidator.database import Connection, Database
from consolidator.errors import ConsolidatorError, DatabaseUnavailable, Interrupted, raise_if_disk_full
from consolidator.jobs.gather import gather
from consolidator.llm.redaction.redact import format_redacted_traceback, redact
from consolidator.models.run import UnitKind
from consolidator.process import describe_owner, has_ended, owner_name
from consolidator.settings import Settings
from consolidator.store.memory import learned
from consolidator.store.nights import runs
from consolidator.store.nights.runs import UnitProgress

log = logging.getLogger("consolidator.jobs")
POLL_SECONDS = 0.2  # between checks while other replicas hold the last units
LOOK_SECONDS = 5.0  # of waiting for other replicas, until it looks who they are
MAX_CLAIMED = 16  # units claimed at once
MAX_ATTEMPTS = 3  # before a unit is dead-lettered, or a crashing night is given up
_UNRELEASED = set[str]()  # owners in this process that have stopped, and could not give their units back
Work = Callable[[list["Unit"]], Awaitable[None]]


# Called with a run's id when it begins, for whoever started it in a task of its own.
ON_RUN: ContextVar[Callable[[str], None]] = ContextVar("on_run", default=lambda _: None)


class LostClaim(ConsolidatorError):
    """The unit's lease expired and another replica has claimed it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit that this replica has claimed."""

    run_id: str
    kind: UnitKind
    name: str
    owner: str
    attempts: int  # this one included

    @property
    def label(self) -> str:
        """How logs and progress bars call it."""
        return self.name if self.kind == "session" else f"{self.kind} {self.name}"

    def progress(
        self, *, done: bool = True, learned: int = 0, nothing: int = 0, deferred: int = 0, dead: int = 0
    ) -> UnitProgress:
        """Return what a step of this unit did, in events."""
        return UnitProgress(self.kind, self.name, done, learned, nothing, deferred, dead)


def session_title(agent: str, project: str | None) -> str:
    """Return what progress calls a session: `in` its project, or its agent where it is of none."""
    parts = re.split(r"[\\/]", (project or "").rstrip("\\/"))
    return f"in {parts[-1] or agent}"


async def record_progress(conn: Connection, units: Sequence[Unit], steps: Sequence[UnitProgress]) -> None:
    """Add the counts of steps in the transaction that commits them; raise LostClaim if a unit was taken over."""
    first = units[0]
    if not await runs.record_progress(conn, steps, run=first.run_id, owner=first.owner):
        names = ", ".join(unit.label for unit in units)
        raise LostClaim(f"run {first.run_id}: a unit was taken over by another replica, one of: {names}")


J = TypeVar("J", bound="JobContext")


@dataclass(slots=True)
class JobContext:
    """What every job works with, and whom it tells how far it is."""

    database: Database
    settings: Settings
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    started: Callable[[int], None] = lambda _: None  # called with the number of units, as far as it is known
    progress: Callable[[str], None] = lambda _: None  # called with the title or label of each unit that ended

    def become(self, kind: type[J], **more: Any) -> J:
        """Return a job, or its ledger, that works with the same."""
        return kind(**{each.name: getattr(self, each.name) for each in fields(JobContext)}, **more)


@dataclass(slots=True)
class Ledger(JobContext):
    """One replica's part in one run."""

    run_id: str = ""  # until there is a run
    owner: str = field(default_factory=owner_name)
    titles: dict[str, str] = field(default_factory=dict)  # what people call a unit, by its name, until it has ended
    unit_ended: asyncio.Event = field(default_factory=asyncio.Event)  # set when a worker of this replica ended a unit
    look_at: float = math.inf  # time.monotonic(): when to look at those that it waits for
    waited_for: set[str] = field(default_factory=set)  # owners that people were told of
    count_unlearned: Callable[[str], Awaitable[int]] | None = None  # of a session, the events that it leaves if it dies

    async def add_units(self, kind: UnitKind, names: Sequence[str], *, phase: int = 0, reopen: bool = False) -> None:
        """Add units to a phase; with `reopen` those that are done start again. Units of dead processes become free."""
        async with self.database.transaction() as conn:
            await self._release_dead_owners(conn)
            await runs.add_units(conn, self.run_id, kind, names, phase=phase, reopen=reopen)

    async def release_dead_owners(self) -> None:
        """Free the units that dead processes of this machine hold, before their leases expire."""
        async with self.database.transaction() as conn:
            await self._release_dead_owners(conn)

    async def _release_dead_owners(self, conn: Connection) -> None:
        for holder in await runs.list_holders(conn, self.run_id):
            if has_ended(holder.owner) or holder.owner in _UNRELEASED:
                await runs.release_units(conn, self.run_id, owner=holder.owner)

    async def run_phase(self, phase: int, work: Work, *, workers: int | None = None) -> None:
        """Work until every unit of the phase has ended, here or in another replica; raise Interrupted on `stop`.

        `work` gets a few units at a time; if it fails, each of them alone. `workers` is how often `work` runs at once,
        if not as the settings say.
        """
        workers = workers or self.settings.workers
        _UNRELEASED.discard(self.owner)
        try:
            await gather(*(self._run_worker(phase, work, workers) for _ in range(workers)))
        except BaseException:  # also a cancellation: the heartbeat would renew leases that nobody works on
            _UNRELEASED.add(self.owner)
            with suppress(Exception):  # such as a full disk: then this process's next attempt frees them
                async with self.database.connection() as conn:
                    await runs.release_units(conn, self.run_id, owner=self.owner, count_attempt=False)
                _UNRELEASED.discard(self.owner)
            raise
        if self.stop.is_set():
            raise Interrupted("asked to stop: finished units are kept, the rest go on with the next run")

    async def list_unfinished(self, phase: int, *, limit: int) -> list[str]:
        """Return units of a phase that have not ended, those that were tried before last."""
        async with self.database.connection() as conn:
            return await runs.list_unfinished(conn, self.run_id, phase, limit)

    async def work_on(self, phase: int, names: Sequence[str], work: Work) -> None:
        """Work on units that an engine has handed to this replica; it takes them from whoever had them before."""
        async with self.database.transaction() as conn:
            await runs.release_others(conn, self.run_id, phase, names, self.owner)
        await self._run_worker(phase, work, self.settings.workers, names)

    async def _run_worker(self, phase: int, work: Work, workers: int, names: Sequence[str] | None = None) -> None:
        while not self.stop.is_set():
            units = await self._claim_units(phase, workers, names)
            if units:
                if units[0].attempts > MAX_ATTEMPTS:  # then it was claimed alone
                    await self._fail(units[0], "every process that worked on it died or lost its lease")
                else:
                    await self._attempt(units, work)
                self.unit_ended.set()
                continue
            if names is not None:
                return
            async with self.database.connection() as conn:
                if not await runs.count_unfinished(conn, self.run_id, phase=phase, limit=1):
                    return
            await self._look_at_others()
            with suppress(TimeoutError):  # a unit that ends here may be the last
                async with asyncio.timeout(POLL_SECONDS):  # wait_for of Python 3.11 may swallow a cancellation
                    await self.unit_ended.wait()
            self.unit_ended.clear()

    async def _look_at_others(self) -> None:
        """Free the units of dead processes from time to time while waiting, and say once for whom it waits."""
        now = time.monotonic()
        is_time, self.look_at = now >= self.look_at, min(self.look_at, now + LOOK_SECONDS)
        if not is_time:
            return
        self.look_at = now + LOOK_SECONDS
        async with self.database.transaction() as conn:
            await self._release_dead_owners(conn)
            holders = await runs.list_holders(conn, self.run_id)
        for holder in holders:
            if holder.owner != self.owner and holder.owner not in self.waited_for:
                self.waited_for.add(holder.owner)
                log.warning(
                    "waiting for %s, which works on %d of the units; they are free at %s UTC if it has stopped",
                    describe_owner(holder.owner), holder.units, f"{holder.until:%H:%M:%S}",
                )  # fmt: skip

    async def _claim_units(
        self, phase: int, workers: int | None = None, names: Sequence[str] | None = None
    ) -> list[Unit]:
        """Claim a few units, of the named ones or as many as leave enough for the other workers and replicas."""
        now = self.database.clock.now()
        async with self.database.transaction(flushed=False) as conn:
            limit = MAX_CLAIMED
            if names is None:
                share = 4 * (workers or self.settings.workers)
                unfinished = await runs.count_unfinished(conn, self.run_id, phase=phase, limit=MAX_CLAIMED * share)
                limit = max(1, unfinished // share)
            claimed = await runs.claim_units(
                conn, self.run_id, phase, self.owner, now=now, until=self._lease_end(now), limit=limit, names=names
            )
        return [Unit(self.run_id, row.kind, row.unit, self.owner, row.attempts) for row in claimed]

    async def _attempt(self, units: list[Unit], work: Work) -> None:
        try:
            await work(units)
        except Interrupted:
            async with self.database.connection() as conn:
                for unit in units:
                    await runs.return_unit(conn, self.run_id, unit.kind, unit.name, owner=self.owner)
        except DatabaseUnavailable:
            raise  # not the fault of the units
        except Exception as error:  # noqa: BLE001 - the edge: the unit's error is recorded, the others go on
            raise_if_disk_full(error)
            if len(units) > 1:
                await self._retry_each(units, work)
            elif isinstance(error, LostClaim):
                log.warning("%s", error)
            else:
                # Redacted, since a database's error quotes the row it is about.
                await self._fail(units[0], redact(f"{type(error).__name__}: {error}")[:2000])
        else:
            self._report_progress(units)

    async def _retry_each(self, units: list[Unit], work: Work) -> None:
        """Work alone on each unit of a batch that failed, unless it was committed before the failure."""
        async with self.database.connection() as conn:
            leased = {(row.kind, row.unit) for row in await runs.list_leased(conn, self.run_id, self.owner)}
        self._report_progress([unit for unit in units if (unit.kind, unit.name) not in leased])
        for unit in units:
            if (unit.kind, unit.name) in leased:
                await self._attempt([unit], work)

    def _report_progress(self, ended: Sequence[Unit]) -> None:
        for unit in ended:
            self.progress(self.titles.pop(unit.name, unit.label))

    async def _fail(self, unit: Unit, reason: str) -> None:
        log.error("unit %s failed (attempt %d): %s", unit.label, unit.attempts, reason)
        async with self.database.transaction() as conn:
            status = await runs.return_unit(
                conn, self.run_id, unit.kind, unit.name, owner=self.owner, max_attempts=MAX_ATTEMPTS, error=reason
            )
            if status == "dead" and unit.kind == "session" and self.count_unlearned is not None:
                unlearned = await self.count_unlearned(unit.name)
                await runs.count_dead_events(conn, self.run_id, unit.kind, unit.name, unlearned)

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(self.settings.lease_seconds / 4)
            now = self.database.clock.now()
            try:
                async with self.database.connection() as conn:
                    await runs.renew_leases(conn, self.run_id, owner=self.owner, now=now, until=self._lease_end(now))
            except Exception as error:  # noqa: BLE001 - the next heartbeat may succeed
                is_away = isinstance(error, DatabaseUnavailable)
                log.warning("heartbeat missed: %s", error if is_away else format_redacted_traceback(error))

    def _lease_end(self, now: datetime) -> datetime:
        return now + timedelta(seconds=self.settings.lease_seconds)

    async def finish(
        self, report: dict[str, Any], *, status: str = "done", error: str | None = None, died: bool = False
    ) -> dict[str, Any]:
        """End the run with its sums; return them with the report and the status. The first replica's call counts.

        A scheduled run that `died` is due again, `max_attempts` times.
        """
        async with self.database.transaction() as conn:
            sums = await runs.sum_units(conn, self.run_id)
            full_report = {**asdict(sums), **report}
            if status == "done" and (sums.dead or sums.dead_units):
                status = "failed"
            now = self.database.clock.now()
            await learned.save_failed_again(conn, self.run_id)
            await runs.finish(conn, self.run_id, status=status, now=now, report=full_report, error=error, died=died)
        return {**full_report, "status": status}


@asynccontextmanager
async def heartbeat(ledger: Ledger) -> AsyncIterator[None]:
    """Renew a run's heartbeat, and the leases of this replica, while the block runs."""
    renewing = asyncio.create_task(ledger._renew_forever())
    try:
        yield
    finally:
        renewing.cancel()


@asynccontextmanager
async def recorded_run(ledger: Ledger, *, is_scheduled: bool = False) -> AsyncIterator[None]:
    """Record how a run ends: one that is interrupted can be resumed, unless another replica works on it.

    A scheduled run that a bug or a full disk ended is due again, `max_attempts` times.
    """
    database = ledger.database
    try:
        async with heartbeat(ledger):
            yield
    except (Interrupted, asyncio.CancelledError):
        async with database.connection() as conn:
            await runs.mark_interrupted(conn, ledger.run_id, database.clock.now())
        raise
    except DatabaseUnavailable:
        raise  # a scheduled run is resumed when the database is back; the next job closes any other
    except Exception as error:
        raise_if_disk_full(error)
        is_ours = isinstance(error, ConsolidatorError)
        message = str(error) if is_ours else redact(f"{type(error).__name__}: {error}")[:2000]
        await ledger.finish({}, status="failed", error=message, died=is_scheduled and not is_ours)
        raise


EXTRACTORS = ("facts", "procedures", "solutions")


@dataclass(frozen=True, slots=True)
class BackfillFilter:
    """Which sessions a backfill is about, and what of them it derives."""

    session: str | None = None
    agent: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    only: str | None = None  # one of EXTRACTORS
    reprocess: bool = False
    as_typed: tuple[str | None, str | None] | None = None  # since and until as typed: "7d" is another moment each time

    @property
    def rederives(self) -> bool:
        """Whether it derives again what was learned already."""
        return self.reprocess or self.only is not None

    def includes(self, extractor: str) -> bool:
        """Tell whether it derives what an extractor learns."""
        return self.only in (None, extractor)

    def bounds(self) -> dict[str, Any]:
        """Return which sessions it is about."""
        return {"session": self.session, "agent": self.agent, "since": self.since, "until": self.until}

    def to_json(self) -> dict[str, Any]:
        """Return it as the ledger keeps it, to recognise an interrupted run that the same command resumes."""
        since, until = self.as_typed or (
            None if moment is None else moment.isoformat() for moment in (self.since, self.until)
        )
        times = {"since": since, "until": until}
        return {**self.bounds(), **times, "only": self.only, "reprocess": self.reprocess}


async def resume_or_start_run(ledger: Ledger, arguments: dict[str, Any], *, job: str = "backfill") -> None:
    """Give a ledger the interrupted run of a job with these arguments, or else a new one."""
    now = ledger.database.clock.now()
    async with ledger.database.transaction() as conn:
        run = await runs.find_unfinished(conn, job=job, arguments=arguments)
        if run is None:
            run = await runs.start(
                conn, job=job, scheduled_at=now, trigger="manual", owner=ledger.owner, now=now, arguments=arguments
            )
        await runs.resume(conn, run.id, ledger.owner, now)
    ledger.run_id = run.id
    ON_RUN.get()(run.id)
