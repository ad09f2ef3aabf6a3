"""Replicas share a night by claims: each session is done once, whichever replica dies, sleeps or is stopped."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Connection, Database
from consolidator.errors import Interrupted
from consolidator.jobs import ledger
from consolidator.jobs.consolidation import session_window
from consolidator.jobs.consolidation.backfill import Backfill
from consolidator.jobs.ledger import BackfillFilter, LostClaim, Unit, record_progress
from consolidator.jobs.nightly import JobRunner
from consolidator.settings import Settings
from consolidator.store.nights import runs
from tests.forks import Fork
from tests.integration.conftest import OpenDatabase
from tests.nights import (
    all_learned,
    assert_ledger_balances,
    hold_locks,
    log_workdays,
    open_replica,
    query_number,
    query_rows,
    start_cli,
    wait_for_lock_waiters,
    wait_until_counted,
    wait_until_signal_taken,
    workday_events,
)
from tests.support import PATIENCE, assert_invariants, log_events, read_memory, user_message

CANDIDATES = "lock table candidate in exclusive mode"  # stops a unit just before it stores its candidates
DIGESTS = "lock table digest in access exclusive mode"  # stops a unit that was claimed, before it reads
HOUR = timedelta(hours=1)


async def wait_for_exit(process: Fork) -> tuple[int, str]:
    """Wait for a process; return its exit code and stderr."""
    _, stderr = await asyncio.to_thread(process.communicate, PATIENCE)
    return process.wait(), stderr


async def assert_done_once(database: Database, sessions: int) -> None:
    """Assert that one run did every session once, and that its counts balance."""
    (run,) = await query_rows(database, "select * from run where job = 'consolidation'")
    assert (run["status"], run["report"]["units"]) == ("done", sessions)
    assert run["report"]["seen"] == sessions * len(workday_events(0))
    assert await query_number(database, "select count(*) from claim where status = 'done' and phase = 0") == sessions
    assert await all_learned(database)
    await assert_ledger_balances(database)
    await assert_invariants(database)


@asynccontextmanager
async def memory_of_one_replica(fresh: OpenDatabase, settings: Settings, sessions: int) -> AsyncIterator[Any]:
    """Yield the memory that one replica with one worker learns from as many sessions."""
    async with fresh() as database:
        await log_workdays(database, sessions)
        assert isinstance(database.clock, FrozenClock)
        database.clock.advance(HOUR)
        await JobRunner(database, settings.model_copy(update={"workers": 1})).run_due("consolidation")
        yield await read_memory(database)


async def test_two_replicas_of_one_process_share_a_night(fresh: OpenDatabase, settings: Settings) -> None:
    async with (
        memory_of_one_replica(fresh, settings, 8) as expected,
        fresh() as database,
        open_replica(database) as other,
    ):
        await log_workdays(database, 8)
        assert isinstance(database.clock, FrozenClock)
        database.clock.advance(HOUR)
        with hold_locks(database.dsn, CANDIDATES):
            both = asyncio.gather(
                *(
                    JobRunner(replica_database, settings).run_due("consolidation")
                    for replica_database in (database, other)
                )
            )
            await wait_for_lock_waiters(database.dsn, 4)  # two workers of each replica
        reports = await both
        assert len({report["run"] for report in reports if report}) == 1
        assert await query_number(database, "select count(distinct owner) from claim where phase = 0") == 2
        assert await query_number(database, "select max(attempts) from claim") == 1
        await assert_done_once(database, 8)
        assert await read_memory(database) == expected


async def test_two_processes_share_a_night(
    database: Database, environment: dict[str, str], fresh: OpenDatabase, settings: Settings
) -> None:
    async with database.connection() as conn:
        await conn.execute("insert into setting (name, value) values ('salt', %s)", [bytes(16)])
    await log_workdays(database, 6)
    environment |= {"CONSOLIDATOR_CLOCK": (database.clock.now() + HOUR).isoformat(), "CONSOLIDATOR_WORKERS": "1"}
    with (
        hold_locks(database.dsn, CANDIDATES) as holding,
        start_cli("run", "consolidation", environment=environment) as first,
        start_cli("run", "consolidation", environment=environment) as second,
    ):
        await wait_for_lock_waiters(database.dsn, 2)
        holding.rollback()
        codes = [(await wait_for_exit(process))[0] for process in (first, second)]
    assert codes == [0, 0]
    assert await query_number(database, "select count(distinct owner) from claim where phase = 0") == 2
    await assert_done_once(database, 6)
    async with memory_of_one_replica(fresh, settings, 6) as expected:
        assert await read_memory(database) == expected


async def test_four_workers_never_wait_in_a_circle(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await log_workdays(database, 16)  # all of one scope, with one error and one fact
    clock.advance(HOUR)
    four = settings.model_copy(update={"workers": 4})
    async with open_replica(database) as other:
        with hold_locks(database.dsn, CANDIDATES):
            both = asyncio.gather(
                *(JobRunner(replica_database, four).run_due("consolidation") for replica_database in (database, other))
            )
            await wait_for_lock_waiters(database.dsn, 8)
        await both
    assert await query_number(database, "select max(attempts) from claim") == 1
    await assert_done_once(database, 16)
    before = await read_memory(database)
    again = await Backfill(database, four, session_filter=BackfillFilter(reprocess=True)).run()
    assert again["status"] == "done"
    assert await query_number(database, "select max(attempts) from claim where run_id = %s", again["run"]) == 1
    assert await read_memory(database) == before


async def test_what_a_killed_replica_held_is_taken_over_when_its_lease_runs_out(
    database: Database,
    clock: FrozenClock,
    settings: Settings,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger, "has_ended", lambda _: False)  # as on another machine
    await log_workdays(database, 4)
    clock.advance(HOUR)
    environment |= {"CONSOLIDATOR_CLOCK": clock.now().isoformat(), "CONSOLIDATOR_WORKERS": "1"}
    with hold_locks(database.dsn, DIGESTS), start_cli("run", "consolidation", environment=environment) as process:
        await wait_for_lock_waiters(database.dsn)
        process.kill()
        assert (await wait_for_exit(process))[0] == -signal.SIGKILL
    (leased,) = await query_rows(database, "select * from claim where status = 'leased'")
    working = asyncio.create_task(JobRunner(database, settings).run_due("consolidation"))
    await wait_until_counted(database, "select count(*) / 3 from claim where status = 'done'")
    assert not working.done()  # the others are done; the last one's lease has not expired
    clock.set(leased["lease_until"] + timedelta(seconds=1))
    assert await working
    (taken_over,) = await query_rows(database, "select * from claim where unit = %s", leased["unit"])
    assert (taken_over["status"], taken_over["attempts"]) == ("done", 2)
    assert taken_over["owner"] != leased["owner"]
    await assert_done_once(database, 4)


async def test_a_zombie_commits_nothing_when_it_comes_back(
    database: Database, clock: FrozenClock, settings: Settings, environment: dict[str, str]
) -> None:
    await log_workdays(database, 3)
    clock.advance(HOUR)
    environment |= {"CONSOLIDATOR_CLOCK": clock.now().isoformat(), "CONSOLIDATOR_WORKERS": "1"}
    with start_cli("run", "consolidation", environment=environment) as zombie:
        with hold_locks(database.dsn, DIGESTS):
            await wait_for_lock_waiters(database.dsn)
            os.kill(zombie.pid, signal.SIGSTOP)
        (held_by_zombie,) = await query_rows(database, "select * from claim where status = 'leased'")
        clock.set(held_by_zombie["lease_until"] + timedelta(seconds=1))
        await JobRunner(database, settings).run_due("consolidation")
        before, claims = await read_memory(database), await query_rows(database, "select * from claim order by unit")
        os.kill(zombie.pid, signal.SIGCONT)
        code, stderr = await wait_for_exit(zombie)
    assert code == 0
    assert "was taken over by another replica" in stderr
    assert await read_memory(database) == before
    assert await query_rows(database, "select * from claim order by unit") == claims
    await assert_done_once(database, 3)


async def test_counts_of_an_owner_that_was_given_up_roll_their_step_back(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 1)
    clock.advance(HOUR)
    done = await JobRunner(database, settings).run_due("consolidation")
    assert done is not None
    (before,) = await query_rows(database, "select * from claim where phase = 0")
    zombie = Unit(done["run"], "session", before["unit"], "somebody else", 1)

    async def commit() -> None:
        async with database.transaction() as conn:
            await conn.execute("update session set error = 'written by a zombie'")
            await record_progress(conn, [zombie], [zombie.progress(learned=1)])

    with pytest.raises(LostClaim):
        await commit()
    assert await query_number(database, "select count(*) from session where error is not null") == 0
    assert await query_rows(database, "select * from claim where phase = 0") == [before]


async def test_a_terminated_process_finishes_what_is_in_hand_and_the_next_one_goes_on(
    database: Database, environment: dict[str, str]
) -> None:
    await log_workdays(database, 5)
    environment |= {"CONSOLIDATOR_CLOCK": (database.clock.now() + HOUR).isoformat(), "CONSOLIDATOR_WORKERS": "1"}
    with (
        hold_locks(database.dsn, CANDIDATES) as holding,
        start_cli("run", "consolidation", environment=environment) as process,
    ):
        await wait_for_lock_waiters(database.dsn)
        process.terminate()
        await asyncio.to_thread(wait_until_signal_taken, process)
        holding.rollback()
        code, stderr = await wait_for_exit(process)
    assert (code, "interrupted" in stderr) == (Interrupted.exit_code, True)
    (interrupted,) = await query_rows(database, "select * from run")
    assert interrupted["status"] == "interrupted"
    assert await query_rows(database, "select status, count(*) from claim group by 1 order by 1") == [
        {"status": "done", "count": 1},
        {"status": "open", "count": 4},
    ]
    with start_cli("run", "consolidation", environment=environment) as process:
        assert (await wait_for_exit(process))[0] == 0
    (finished,) = await query_rows(database, "select * from run")
    assert (finished["id"], finished["status"]) == (interrupted["id"], "done")
    await assert_done_once(database, 5)


async def test_a_long_session_is_handed_back_between_two_windows(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_window, "WINDOW", 10)
    await log_events(database, "long", [user_message(f"message {n}") for n in range(45)])
    clock.advance(HOUR)
    first = JobRunner(database, settings)
    with hold_locks(database.dsn, DIGESTS):
        working = asyncio.create_task(first.run_due("consolidation"))
        await wait_for_lock_waiters(database.dsn)
        first.stop.set()
    with pytest.raises(Interrupted):
        await working
    (unit,) = await query_rows(database, "select * from claim")
    assert (unit["status"], unit["seen"], unit["attempts"], unit["owner"]) == ("open", 10, 0, None)
    done = await JobRunner(database, settings).run_due("consolidation")
    assert done is not None
    assert (done["seen"], done["status"]) == (45, "done")
    await assert_ledger_balances(database)
    await assert_invariants(database)


async def test_a_heartbeat_keeps_a_unit_that_takes_longer_than_its_lease(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 1)
    clock.advance(HOUR)
    short = settings.model_copy(update={"lease_seconds": 1})
    with hold_locks(database.dsn, CANDIDATES):
        working = asyncio.create_task(JobRunner(database, short).run_due("consolidation"))
        await wait_for_lock_waiters(database.dsn)
        async with open_replica(database) as other:
            helping = asyncio.create_task(JobRunner(other, short).run_due("consolidation"))
            for _ in range(3):
                clock.advance(timedelta(seconds=0.9))
                await wait_until_counted(database, "select count(*) from claim where lease_until > %s", clock.now())
                renewed = clock.now() + timedelta(seconds=1)
                await wait_until_counted(database, "select count(*) from claim where lease_until = %s", renewed)
            assert await query_number(database, "select max(attempts) from claim") == 1
            helping.cancel()
            await asyncio.gather(helping, return_exceptions=True)
    await working
    assert await query_number(database, "select max(attempts) from claim") == 1
    assert await all_learned(database)


async def test_one_replica_prunes_and_the_other_waits_for_it(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 2)
    clock.advance(HOUR)
    await JobRunner(database, settings).run_due("consolidation")
    clock.advance(timedelta(days=40))
    async with open_replica(database) as other:
        with hold_locks(database.dsn, "select from session for update"):
            both = [
                asyncio.create_task(JobRunner(replica_database, settings).run_due("retention"))
                for replica_database in (database, other)
            ]
            await wait_for_lock_waiters(database.dsn)
            await wait_until_counted(database, "select count(*) from run where job = 'retention'")
        reports = [report for report in await asyncio.gather(*both) if report]
    assert [report["events"] for report in reports] == [2 * len(workday_events(0))]
    (run,) = await query_rows(database, "select * from run where job = 'retention'")
    assert run["report"]["events"] == reports[0]["events"]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_replica_that_only_waits_leaves_the_run_to_whom_it_waits_for(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    await log_workdays(database, 2)
    clock.advance(HOUR)
    await JobRunner(database, settings).run_due("consolidation")
    clock.advance(timedelta(days=40))
    refused, try_lock_job = asyncio.Event(), runs.try_lock_job

    async def note_refusal(conn: Connection, job: str) -> bool:
        entered = await try_lock_job(conn, job)
        if not entered:
            refused.set()
        return entered

    monkeypatch.setattr(runs, "try_lock_job", note_refusal)
    async with open_replica(database) as other:
        waiting = JobRunner(other, settings)
        with hold_locks(database.dsn, "select from session for update"):
            working = asyncio.create_task(JobRunner(database, settings).run_due("retention"))
            await wait_for_lock_waiters(database.dsn)
            in_vain = asyncio.create_task(waiting.run_due("retention"))
            await refused.wait()
            if cancelled:
                in_vain.cancel()
            waiting.stop.set()
            with pytest.raises(asyncio.CancelledError if cancelled else Interrupted):
                await in_vain
            assert await query_number(database, "select count(*) from run where status = 'interrupted'") == 0
        assert await working


@pytest.mark.usefixtures("agents_apart")
async def test_a_run_that_goes_on_merges_again_what_has_news_since(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 3, agent="ann")
    await log_workdays(database, 3, agent="bob")
    clock.advance(HOUR)
    first = JobRunner(database, settings.model_copy(update={"workers": 1}))
    first.progress = lambda unit: first.stop.set() if unit == "merge ann" else None
    with pytest.raises(Interrupted):
        await first.run_due("consolidation")
    await log_workdays(database, 1, begin=3, agent="ann")
    clock.advance(HOUR)
    done = await JobRunner(database, settings).run_due("consolidation")
    assert done is not None
    assert done["units"] == 7
    support = await query_rows(database, "select agent, max(support) as best from procedure group by 1 order by 1")
    assert support == [{"agent": "ann", "best": 4}, {"agent": "bob", "best": 3}]
    await assert_ledger_balances(database)
