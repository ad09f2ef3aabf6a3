"""A run's units: whatever a worker dies of, none stays leased, none is done twice, and none stops every night."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import exc

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import DatabaseUnavailable, DiskFull
from consolidator.jobs import ledger as ledger_module
from consolidator.jobs.ledger import MAX_ATTEMPTS, Ledger, Unit, heartbeat, record_progress
from consolidator.jobs.nightly import Job, JobRunner
from consolidator.jobs.retention import RetentionReport
from consolidator.models.run import UnitKind
from consolidator.settings import Settings
from consolidator.store.nights import runs
from tests.integration.locks import dead_owner_name, owner_name_of
from tests.nights import query_number, query_rows, wait_until_counted
from tests.support import PATIENCE

pytestmark = pytest.mark.timeout(90)
OUTAGE = DatabaseUnavailable("the database went away")


async def start_ledger(
    database: Database, settings: Settings, *units: str, kind: UnitKind = "session", **options: Any
) -> Ledger:
    """Start a run with units in phase 0."""
    now = database.clock.now()
    ledger = Ledger(database, settings, **options)
    async with database.transaction() as conn:
        run = await runs.start(
            conn, job="consolidation", scheduled_at=now, trigger="schedule", owner=ledger.owner, now=now
        )
    ledger.run_id = run.id
    await ledger.add_units(kind, list(units))
    return ledger


def commit_each(
    database: Database, before: Callable[[Unit], Awaitable[None]]
) -> Callable[[list[Unit]], Awaitable[None]]:
    """Return work that calls `before` for each unit and then commits it, as a merge does."""

    async def work(units: list[Unit]) -> None:
        for unit in units:
            await before(unit)
            async with database.transaction() as conn:
                await record_progress(conn, [unit], [unit.progress()])

    return work


async def test_a_worker_that_dies_of_an_outage_leaves_nothing_held_and_nobody_waiting(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await start_ledger(database, settings, "a", "b")
    claim_units, lost, idle = Ledger._claim_units, asyncio.Event(), asyncio.Event()

    async def lose_first_answer(self: Ledger, phase: int, workers: int, names: Any = None) -> list[Unit]:
        claimed = await claim_units(self, phase, workers, names)
        if not claimed:
            idle.set()  # the other worker is done and waits for the unit of the dead one
        if lost.is_set():
            return claimed
        lost.set()
        raise OUTAGE

    async def wait_until_lost(_unit: Unit) -> None:
        await lost.wait()

    monkeypatch.setattr(Ledger, "_claim_units", lose_first_answer)
    async with asyncio.timeout(PATIENCE), heartbeat(ledger):
        with pytest.raises(DatabaseUnavailable):
            await ledger.run_phase(0, commit_each(database, wait_until_lost))
    assert await query_number(database, "select count(*) from claim where status = 'leased'") == 0
    monkeypatch.setattr(Ledger, "_claim_units", claim_units)
    await ledger.run_phase(0, commit_each(database, wait_until_lost))
    assert await query_rows(database, "select status, attempts from claim") == [{"status": "done", "attempts": 1}] * 2


async def test_units_that_a_full_disk_kept_from_being_given_back_are_free_for_the_next_attempt(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await start_ledger(database, settings.model_copy(update={"lease_seconds": 3600}), "a", "b")

    async def meet_full_disk(*_: object, **__: object) -> None:
        raise DiskFull("the database has no room on its disk")

    async def do_nothing(_unit: Unit) -> None:
        pass

    with monkeypatch.context() as patch:
        patch.setattr(runs, "release_units", meet_full_disk)
        with pytest.raises(DiskFull):
            await ledger.run_phase(0, commit_each(database, meet_full_disk))
    assert await query_number(database, "select count(*) from claim where status = 'leased'") > 0
    again = Ledger(database, settings, run_id=ledger.run_id)
    async with asyncio.timeout(PATIENCE / 10):
        await again.add_units("session", [])
        await again.run_phase(0, commit_each(database, do_nothing))
    assert await query_number(database, "select count(*) from claim where status = 'done'") == 2


async def test_who_waits_says_for_whom_and_takes_over_what_a_process_held_that_is_killed_meanwhile(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ledger_module, "LOOK_SECONDS", 0.02)
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)
    try:
        name = owner_name_of(holder.pid)
        held = await start_ledger(database, settings.model_copy(update={"lease_seconds": 3600}), "a", owner=name)
        assert len(await held._claim_units(0)) == 1
        mine = Ledger(database, settings, run_id=held.run_id)

        async def do_nothing(_unit: Unit) -> None:
            pass

        waiting = asyncio.create_task(mine.run_phase(0, commit_each(database, do_nothing)))
        async with asyncio.timeout(PATIENCE / 10):
            while not caplog.records:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            assert not waiting.done()
            holder.kill()
            await waiting
    finally:
        if holder.returncode is None:
            holder.kill()
        await holder.wait()
    (record,) = caplog.records
    assert f"waiting for process {holder.pid} on " in record.getMessage()
    assert "works on 1 of the units" in record.getMessage()
    assert await query_number(database, "select count(*) from claim where status = 'done'") == 1


async def test_a_heartbeat_outlives_whatever_it_meets(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await start_ledger(database, settings.model_copy(update={"lease_seconds": 1, "workers": 1}), "a")
    renew, errors, release = (
        runs.renew_leases,
        [psycopg.errors.DeadlockDetected(), exc.TimeoutError(), OUTAGE],
        asyncio.Event(),
    )

    async def fail_then_renew(*arguments: Any, **options: Any) -> None:
        if errors:
            raise errors.pop()
        await renew(*arguments, **options)

    async def wait_for_release(_unit: Unit) -> None:
        await release.wait()

    monkeypatch.setattr(runs, "renew_leases", fail_then_renew)
    async with heartbeat(ledger):
        working = asyncio.create_task(ledger.run_phase(0, commit_each(database, wait_for_release)))
        await wait_until_counted(database, "select count(*) from claim where status = 'leased'")
        clock.advance(timedelta(hours=1))
        await wait_until_counted(database, "select count(*) from claim where lease_until > %s", clock.now())
        release.set()
        await working
    assert not errors


async def test_what_a_lot_has_committed_is_not_done_again_where_a_later_unit_fails(
    database: Database, settings: Settings
) -> None:
    names, reported, attempted = [f"u{n}" for n in range(8)], list[str](), list[str]()
    one_worker = settings.model_copy(update={"workers": 1})
    ledger = await start_ledger(database, one_worker, *names, progress=reported.append)

    async def fail_once(unit: Unit) -> None:
        attempted.append(unit.name)
        if unit.name == "u1" and attempted.count("u1") == 1:
            raise psycopg.errors.DeadlockDetected("deadlock detected")

    await ledger.run_phase(0, commit_each(database, fail_once))
    assert sorted(attempted) == sorted([*names, "u1"])
    assert sorted(reported) == names
    assert await query_number(database, "select count(*) from claim where status = 'done'") == len(names)


async def test_a_unit_that_kills_whoever_works_on_it_is_claimed_alone_and_given_up(
    database: Database, settings: Settings
) -> None:
    names = [f"u{n}" for n in range(8)]
    one_worker = settings.model_copy(update={"workers": 1})
    claim_sizes: list[int] = []
    ledger = await start_ledger(database, one_worker, *names, owner=dead_owner_name())
    for _ in range(MAX_ATTEMPTS):
        while (units := await ledger._claim_units(0)) and units[0].name != "u0":
            async with database.transaction() as conn:
                await record_progress(conn, units, [unit.progress() for unit in units])
        claim_sizes.append(len(units))  # here its process is killed
        ledger = Ledger(database, one_worker, run_id=ledger.run_id, owner=dead_owner_name())
        await ledger.release_dead_owners()
    assert claim_sizes == [2, 1, 1]

    async def assert_not_u0(unit: Unit) -> None:
        assert unit.name != "u0"

    async def seven_events(_unit: str) -> int:
        return 7

    ledger.count_unlearned = seven_events
    await ledger.run_phase(0, commit_each(database, assert_not_u0))
    query = "select status, attempts, dead, error from claim where unit = 'u0'"
    (claim,) = await query_rows(database, query)
    assert (claim["status"], claim["dead"]) == ("dead", 7)
    assert "died" in claim["error"]
    assert await query_number(database, "select count(*) from claim where status = 'done'") == 7


async def test_a_replica_that_stops_marks_no_run_that_others_work_on(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    status = "select status from run"
    staying = await start_ledger(database, settings, "a", "b")
    assert len(await staying._claim_units(0)) == 1
    async with database.connection() as conn:
        await runs.mark_interrupted(conn, staying.run_id, database.clock.now())
    assert await query_rows(database, status) == [{"status": "running"}]
    clock.advance(timedelta(seconds=settings.lease_seconds + 1))
    async with database.connection() as conn:
        await runs.mark_interrupted(conn, staying.run_id, database.clock.now())
    assert await query_rows(database, status) == [{"status": "interrupted"}]


async def test_merges_are_opened_again_in_a_run_that_somebody_else_left(database: Database, settings: Settings) -> None:
    async def nothing(_unit: Unit) -> None:
        pass

    ledger = await start_ledger(database, settings, "ann", kind="merge")
    await ledger.run_phase(0, commit_each(database, nothing))
    async with database.connection() as conn:
        await runs.mark_interrupted(conn, ledger.run_id, database.clock.now())
    await ledger.add_units("merge", ["ann"], reopen=True)
    assert await query_number(database, "select count(*) from claim where status = 'open'") == 1


@pytest.mark.parametrize("job", ["consolidation", "retention", "import"])
async def test_a_run_by_hand_that_dies_of_a_bug_is_not_left_running(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch, job: Job
) -> None:
    runner, job_functions = JobRunner(database, settings), {"consolidation": "consolidate", "retention": "prune"}
    secret = "ghp_" + "Zk3" * 12
    await runner.run_due(job)

    async def dying(*_: Any, **__: Any) -> Any:
        raise KeyError(secret)

    monkeypatch.setattr(f"consolidator.jobs.nightly.{job_functions.get(job, 'import_sources')}", dying)
    with pytest.raises(KeyError):
        await runner.run_now(job)
    (run,) = await query_rows(database, "select status, error from run where trigger = 'manual'")
    assert run["status"] == "failed"
    assert run["error"].startswith("KeyError: ")
    assert secret not in run["error"]


async def test_runs_beside_the_schedule_whose_process_was_killed_are_given_up_and_no_others(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for job, trigger in (("consolidation", "manual"), ("consolidation", "batch"), ("retention", "manual")):
        await leave_run(database, job, trigger)
    await leave_run(database, "backfill", "manual")
    await leave_run(database, "import", "schedule")
    clock.advance(timedelta(seconds=settings.lease_seconds + 1))
    await leave_run(database, "retention", "batch")  # its process may still be alive
    await JobRunner(database, settings).run_due("consolidation")
    rows = await query_rows(
        database, "select job, trigger, status from run where owner = 'gone' order by job, trigger, scheduled_at"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("backfill", "manual", "interrupted"),
        ("consolidation", "batch", "failed"),
        ("consolidation", "manual", "failed"),
        ("import", "schedule", "running"),
        ("retention", "batch", "running"),
        ("retention", "manual", "failed"),
    ]


async def leave_run(database: Database, job: str, trigger: str) -> None:
    """Start a run that no process works on."""
    assert isinstance(database.clock, FrozenClock)
    database.clock.advance(timedelta(microseconds=1))
    now = database.clock.now()
    async with database.connection() as conn:
        await runs.start(conn, job=job, scheduled_at=now, trigger=trigger, owner="gone", now=now)


async def test_a_run_by_hand_keeps_its_heart_beating_from_its_beginning_to_its_end(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = asyncio.Event()

    async def wait_for_release(*_: Any, **__: Any) -> Any:
        await release.wait()
        return RetentionReport(clock.now(), dry_run=False)

    monkeypatch.setattr("consolidator.jobs.nightly.prune", wait_for_release)
    short_lease = settings.model_copy(update={"lease_seconds": 1})
    working = asyncio.create_task(JobRunner(database, short_lease).run_now("retention", older_than=timedelta(days=1)))
    await wait_until_counted(database, "select count(*) from run")
    clock.advance(timedelta(hours=1))
    await wait_until_counted(database, "select count(*) from run where heartbeat_at = %s", clock.now())
    await JobRunner(database, short_lease).run_due("consolidation")
    release.set()
    await working
    assert await query_number(database, "select count(*) from run where job = 'retention' and status = 'done'") == 1


async def test_a_renewal_does_not_wait_for_a_unit_that_its_worker_is_ending(
    database: Database, settings: Settings
) -> None:
    ledger = await start_ledger(database, settings, "a", "b")
    now = database.clock.now()
    later = now + timedelta(hours=1)
    lock = "select from claim where unit = 'a' for update"
    async with database.connection() as conn:
        claimed = await runs.claim_units(
            conn, ledger.run_id, phase=0, owner=ledger.owner, now=now, until=now + timedelta(minutes=1), limit=2
        )
    assert [unit.unit for unit in claimed] == ["a", "b"]
    async with database.transaction() as ending, database.transaction() as renewing:
        await ending.execute(lock)
        await renewing.execute("set local lock_timeout = '20s'")
        await runs.renew_leases(renewing, ledger.run_id, owner=ledger.owner, now=now, until=later)
    renewed = "select unit from claim where lease_until = %s::timestamptz"
    assert await query_rows(database, renewed, later) == [{"unit": "b"}]
