"""Works through a run's units with its replicas: claims, heartbeats, retries, dead letters, and a sum that balances.

A phase's units begin when those of the phase before have ended. A crash of one replica delays its units by a lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from consolidator.database import Connection, Database
from consolidator.errors import ConsolidatorError, DatabaseUnavailable, Interrupted
from consolidator.jobs.gather import gather
from consolidator.llm.redaction.redact import redact, traced
from consolidator.process import is_gone, owner_name
from consolidator.settings import Settings
from consolidator.store.nights import runs

log = logging.getLogger("consolidator.jobs")
PAUSE = 0.2  # seconds between looks while other replicas hold the last units
Work = Callable[[list["Unit"]], Awaitable[None]]
MOST = 16  # units claimed at once


class LostClaim(ConsolidatorError):
    """The unit is no longer ours: its lease ran out and another replica has it."""


@dataclass(slots=True)
class Unit:
    """A unit in hand."""

    run: str
    name: str
    owner: str
    attempts: int


async def record(conn: Connection, units: Sequence[Unit], steps: Sequence[runs.UnitProgress]) -> None:
    """Add steps' counts in the transaction that commits them; raise LostClaim where a unit is not ours any more."""
    if not await runs.record(conn, units[0].run, steps, owner=units[0].owner):
        raise LostClaim(f"a unit of run {units[0].run} was taken over by another replica: {units[0].name} or beside it")


@dataclass(slots=True)
class Ledger:
    """One replica's part in one run."""

    database: Database
    settings: Settings
    run: str
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    owner: str = field(default_factory=owner_name)
    progress: Callable[[str], None] | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # a worker here has ended a unit

    async def begin(self, units: list[str], *, phase: int = 0, again: bool = False) -> None:
        """Add a phase's units; with `again` those that have ended begin anew. What the dead hold is free at once."""
        async with self.database.transaction() as conn:
            for owner in await runs.leased_by(conn, self.run):
                if is_gone(owner):
                    await runs.release(conn, self.run, owner=owner)
            await runs.add_units(conn, self.run, units, phase=phase, again=again)

    async def work(self, phase: int, work: Work, bury: Callable[[str], Awaitable[int]]) -> None:
        """Work until every unit of the phase has ended, here or elsewhere; raise Interrupted when asked to stop.

        `work` is given a few units at a time; where it fails, each of them alone. `bury` returns how many events a
        unit that is given up leaves unlearned.
        """
        try:
            await gather(*(self._worker(phase, work, bury) for _ in range(self.settings.workers)))
        except BaseException:  # also a cancellation: the heartbeat would keep what nobody works on any more
            with suppress(Exception):  # else they are free when their leases run out
                async with self.database.connection() as conn:
                    await runs.release(conn, self.run, owner=self.owner, spent=False)
            raise
        if self.stop.is_set():
            raise Interrupted("asked to stop: finished units are kept, the rest go on with the next run")

    async def _worker(self, phase: int, work: Work, bury: Callable[[str], Awaitable[int]]) -> None:
        while not self.stop.is_set():
            units = await self._claim(phase)
            if units:
                if units[0].attempts > self.settings.max_attempts:  # then it is alone
                    await self._failed(units[0], "whoever worked on it died, or was not heard of again", bury)
                else:
                    await self._attempt(units, work, bury)
                self.ended.set()
                continue
            async with self.database.connection() as conn:
                if not await runs.waiting(conn, self.run, phase=phase, most=1):
                    return
            with suppress(TimeoutError):  # a unit of ours that ends may be the last
                async with asyncio.timeout(PAUSE):  # wait_for of Python 3.11 may swallow that we were cancelled
                    await self.ended.wait()
            self.ended.clear()

    async def _claim(self, phase: int) -> list[Unit]:
        """Take a few units: as many as leave enough for the other workers and replicas."""
        now = self.database.clock.now()
        async with self.database.transaction(flushed=False) as conn:
            share = 4 * self.settings.workers
            most = max(1, await runs.waiting(conn, self.run, phase=phase, most=MOST * share) // share)
            found = await runs.claim(
                conn, self.run, phase=phase, owner=self.owner, now=now, until=self._until(now), most=most
            )
        return [Unit(self.run, one["unit"], self.owner, one["attempts"]) for one in found]

    async def _attempt(self, units: list[Unit], work: Work, bury: Callable[[str], Awaitable[int]]) -> None:
        try:
            await work(units)
        except Interrupted:
            async with self.database.connection() as conn:
                for unit in units:
                    await runs.give_back(conn, self.run, unit.name, owner=self.owner)
        except DatabaseUnavailable:
            raise  # no fault of theirs
        except Exception as error:  # noqa: BLE001 - the edge: whatever a unit dies of is recorded, the others go on
            if len(units) > 1:
                await self._one_by_one(units, work, bury)
            elif isinstance(error, LostClaim):
                log.warning("%s", error)
            else:
                # Redacted, since a database's error quotes the row it is about.
                await self._failed(units[0], redact(f"{type(error).__name__}: {error}")[:2000], bury)
        else:
            self._tell(units)

    async def _one_by_one(self, units: list[Unit], work: Work, bury: Callable[[str], Awaitable[int]]) -> None:
        """Work on each of a lot that failed alone, but for what it had committed before."""
        async with self.database.connection() as conn:
            left = await runs.held(conn, self.run, [unit.name for unit in units], owner=self.owner)
        self._tell([unit for unit in units if unit.name not in left])
        for unit in units:
            if unit.name in left:
                await self._attempt([unit], work, bury)

    def _tell(self, ended: Sequence[Unit]) -> None:
        for unit in ended:
            if self.progress:
                self.progress(unit.name)

    async def _failed(self, unit: Unit, told: str, bury: Callable[[str], Awaitable[int]]) -> None:
        log.error("unit %s failed (attempt %d): %s", unit.name, unit.attempts, told)
        async with self.database.transaction() as conn:
            most = self.settings.max_attempts
            status = await runs.give_back(conn, self.run, unit.name, owner=self.owner, most=most, error=told)
            if status == "dead":
                await runs.bury(conn, self.run, unit.name, events=await bury(unit.name))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.settings.lease_seconds / 4)
            now = self.database.clock.now()
            try:
                async with self.database.connection() as conn:
                    await runs.renew(conn, self.run, owner=self.owner, now=now, until=self._until(now))
            except DatabaseUnavailable as error:
                log.warning("heartbeat missed: %s", error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next beat may do better
                log.warning("heartbeat missed: %s", traced(error))

    def _until(self, now: datetime) -> datetime:
        return now + timedelta(seconds=self.settings.lease_seconds)

    async def end(
        self, report: dict[str, Any], *, status: str = "done", error: str | None = None, died: bool = False
    ) -> dict[str, Any]:
        """End the run with its sums; the first replica to get here writes them. Returns the full report.

        One that `died` is owed again, `max_attempts` times.
        """
        async with self.database.transaction() as conn:
            sums = await runs.totals(conn, self.run)
            full = {**sums, **report}
            if status == "done" and (sums["dead"] or sums["dead_units"]):
                status = "failed"
            now = self.database.clock.now()
            await runs.finish(conn, self.run, status=status, now=now, report=full, error=error, died=died)
        return {**full, "status": status}


@asynccontextmanager
async def beating(ledger: Ledger) -> AsyncIterator[None]:
    """Keep a run's heart beating, and the leases of its units, while it is worked on here."""
    beat = asyncio.create_task(ledger._beat())
    try:
        yield
    finally:
        beat.cancel()


@asynccontextmanager
async def by_hand(ledger: Ledger) -> AsyncIterator[None]:
    """Do the work of a run that no slot names: cut short, or without its database, the same command goes on with it."""
    try:
        async with beating(ledger):
            yield
    except (Interrupted, asyncio.CancelledError):
        await interrupt(ledger.database, ledger.run)
        raise
    except DatabaseUnavailable:
        raise
    except Exception as error:
        await ledger.end({}, status="failed", error=redact(f"{type(error).__name__}: {error}")[:2000])
        raise


async def interrupt(database: Database, run: str) -> None:
    """Mark a run as cut short, unless others are at work on it; whoever comes next takes it up."""
    async with database.connection() as conn:
        await runs.interrupt(conn, run, now=database.clock.now())
