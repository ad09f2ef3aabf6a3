"""A run's units: whatever a worker dies of, none stays held, none is done twice, and none brings every night down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import exc

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import DatabaseUnavailable
from consolidator.jobs.ledger import Ledger, Unit, beating, record
from consolidator.settings import Settings
from consolidator.store import runs
from tests.integration.locks import of_the_dead
from tests.nights import ask, count, eventually

pytestmark = pytest.mark.timeout(90)
OUTAGE = DatabaseUnavailable("the database went away")


async def begun(database: Database, settings: Settings, *units: str, **more: Any) -> Ledger:
    """Begin a run with some units."""
    now = database.clock.now()
    ledger = Ledger(database, settings, "", **more)
    async with database.transaction() as conn:
        run = await runs.start(conn, job="consolidation", slot=now, trigger="schedule", owner=ledger.owner, now=now)
    ledger.run = run["id"]
    await ledger.begin(list(units))
    return ledger


async def none_lost(_unit: str) -> int:
    return 0


def done_by(database: Database, before: Callable[[Unit], Awaitable[None]]) -> Callable[[list[Unit]], Awaitable[None]]:
    """Return work that commits unit by unit, as a merge does, each after something else."""

    async def work(units: list[Unit]) -> None:
        for unit in units:
            await before(unit)
            async with database.transaction() as conn:
                await record(conn, [unit], [runs.Step(unit.name, done=True)])

    return work


async def test_a_worker_that_dies_of_an_outage_leaves_nothing_held_and_nobody_waiting(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await begun(database, settings, "a", "b")
    claim, lost, idle = Ledger._claim, asyncio.Event(), asyncio.Event()

    async def answer_lost(self: Ledger, phase: int) -> list[Unit]:
        found = await claim(self, phase)
        if not found:
            idle.set()  # the other one has ended its own, and waits for what the dead one holds
        if lost.is_set():
            return found
        lost.set()
        raise OUTAGE

    async def until_lost(_unit: Unit) -> None:
        await lost.wait()

    monkeypatch.setattr(Ledger, "_claim", answer_lost)
    async with asyncio.timeout(20), beating(ledger):
        with pytest.raises(DatabaseUnavailable):
            await ledger.work(0, done_by(database, until_lost), none_lost)
    assert await count(database, "select count(*) from claim where status = 'leased'") == 0
    monkeypatch.setattr(Ledger, "_claim", claim)
    await ledger.work(0, done_by(database, until_lost), none_lost)
    assert await ask(database, "select status, attempts from claim") == [{"status": "done", "attempts": 1}] * 2


async def test_a_heartbeat_outlives_whatever_it_meets(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await begun(database, settings.model_copy(update={"lease_seconds": 1, "workers": 1}), "a")
    renew, met, go = runs.renew, [psycopg.errors.DeadlockDetected(), exc.TimeoutError(), OUTAGE], asyncio.Event()

    async def stumbling(*given: Any, **more: Any) -> None:
        if met:
            raise met.pop()
        await renew(*given, **more)

    async def held(_unit: Unit) -> None:
        await go.wait()

    monkeypatch.setattr(runs, "renew", stumbling)
    async with beating(ledger):
        working = asyncio.create_task(ledger.work(0, done_by(database, held), none_lost))
        await eventually(database, "select count(*) from claim where status = 'leased'")
        clock.advance(timedelta(hours=1))
        await eventually(database, "select count(*) from claim where lease_until > %s", clock.now())
        go.set()
        await working
    assert not met


async def test_what_a_lot_has_committed_is_not_done_again_where_a_later_unit_fails(
    database: Database, settings: Settings
) -> None:
    names, told, did = [f"u{n}" for n in range(8)], list[str](), list[str]()
    one = settings.model_copy(update={"workers": 1})
    ledger = await begun(database, one, *names, progress=told.append)

    async def fail_once(unit: Unit) -> None:
        did.append(unit.name)
        if unit.name == "u1" and did.count("u1") == 1:
            raise psycopg.errors.DeadlockDetected("deadlock detected")

    await ledger.work(0, done_by(database, fail_once), none_lost)
    assert sorted(did) == sorted([*names, "u1"])
    assert sorted(told) == names
    assert await count(database, "select count(*) from claim where status = 'done'") == len(names)


async def test_a_unit_that_kills_whoever_works_on_it_is_claimed_alone_and_given_up(
    database: Database, settings: Settings
) -> None:
    names = [f"u{n}" for n in range(8)]
    one = settings.model_copy(update={"workers": 1})
    lots: list[int] = []
    ledger = await begun(database, one, *names, owner=of_the_dead())
    for _ in range(settings.max_attempts):
        while (units := await ledger._claim(0)) and units[0].name != "u0":
            async with database.transaction() as conn:
                await record(conn, units, [runs.Step(unit.name, done=True) for unit in units])
        lots.append(len(units))  # here its process is killed
        ledger = Ledger(database, one, ledger.run, owner=of_the_dead())
        await ledger.begin([])
    assert lots == [2, 1, 1]

    async def never(unit: Unit) -> None:
        assert unit.name != "u0"

    async def seven(_unit: str) -> int:
        return 7

    await ledger.work(0, done_by(database, never), seven)
    given_up = "select status, attempts, dead, error from claim where unit = 'u0'"
    (found,) = await ask(database, given_up)
    assert (found["status"], found["dead"]) == ("dead", 7)
    assert "died" in found["error"]
    assert await count(database, "select count(*) from claim where status = 'done'") == 7
