"""A night in several processes: the same memory, whatever process dies, and none left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import Interrupted
from consolidator.jobs.consolidation import session_worker
from consolidator.jobs.consolidation.persistence import unpack_folds
from consolidator.jobs.nightly import JobRunner
from consolidator.settings import Settings
from consolidator.store.calls import digests
from tests.integration.conftest import OpenDatabase
from tests.nights import (
    all_learned,
    assert_ledger_balances,
    hold_locks,
    log_workdays,
    run_next_night,
    wait_for_lock_waiters,
    wait_until_counted,
)
from tests.support import PATIENCE, assert_invariants, log_events, read_memory, user_message

LOCK = "select from session where id = %s for update"
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
# A night of another process, in the database and at the time of its arguments.
NIGHT = """
import asyncio, sys
from datetime import datetime
from pathlib import Path
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.consolidation import session_worker
from consolidator.jobs.nightly import JobRunner
from consolidator.settings import Settings
session_worker.MIN_EVENTS = 1
dsn, now, home = sys.argv[1:]
database = Database(dsn, FrozenClock(datetime.fromisoformat(now)))
asyncio.run(JobRunner(database, Settings(home=Path(home), learn_processes=2)).run_now("consolidation"))
"""


@pytest.fixture(autouse=True)
def _small_nights(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start processes also for a small night; assert that none is left."""
    monkeypatch.setattr(session_worker, "MIN_EVENTS", 1)
    yield
    assert not learning_processes(os.getpid())


@pytest.fixture
def in_two(settings: Settings) -> Settings:
    """The settings of a night in two processes."""
    return settings.model_copy(update={"learn_processes": 2})


def learning_processes(parent: int) -> list[psutil.Process]:
    """Return the processes that learn for another one."""
    return [
        process
        for process in psutil.Process(parent).children()
        if process.status() != psutil.STATUS_ZOMBIE and any("spawn_main" in part for part in process.cmdline())
    ]


async def read_digests(database: Database, names: list[str]) -> dict[str, Any]:
    """Return the folds of sessions as the next night would go on with them."""
    async with database.connection() as conn:
        return {name: unpack_folds(row) for name, row in (await digests.get_each(conn, names)).items()}


async def test_one_and_two_processes_learn_the_same(fresh: OpenDatabase, settings: Settings, in_two: Settings) -> None:
    memories = []
    for chosen in (settings.model_copy(update={"learn_processes": 1}), in_two):
        async with fresh() as database:
            assert isinstance(database.clock, FrozenClock)
            names = await log_workdays(database, 7) + await log_workdays(database, 6, agent="helper")
            report = await run_next_night(database, database.clock, chosen)
            assert (report["status"], report["seen"]) == ("done", 13 * 15)
            await log_events(database, names[0], [user_message("From now on, always write tests first.")])
            await run_next_night(database, database.clock, chosen)
            await assert_ledger_balances(database)
            await assert_invariants(database)
            memories.append((await read_memory(database), await read_digests(database, names)))
    assert memories[0] == memories[1]
    assert memories[0][0]["procedure"]


async def test_a_small_night_starts_no_process(
    database: Database, clock: FrozenClock, in_two: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_worker, "MIN_EVENTS", 100)
    monkeypatch.setattr(session_worker, "ProcessPoolExecutor", None)
    await log_workdays(database, 6)  # 90 events
    assert (await run_next_night(database, clock, in_two))["status"] == "done"


async def test_where_no_process_can_be_started_the_night_goes_on_in_this_one(
    database: Database,
    clock: FrozenClock,
    in_two: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("multiprocessing.spawn._python_exe", b"/nowhere/python")
    await log_workdays(database, 3)
    assert (await run_next_night(database, clock, in_two))["seen"] == 3 * 15
    assert "learning in this one" in caplog.text


async def test_a_killed_process_costs_one_attempt_and_the_night_goes_on(
    database: Database, clock: FrozenClock, in_two: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    names = await log_workdays(database, 5)
    await log_events(database, names[2], [user_message(f"the key is {SECRET}")])
    with hold_locks(database.dsn, LOCK, names[2]) as held:
        night = asyncio.create_task(run_next_night(database, clock, in_two))
        await wait_for_lock_waiters(database.dsn)
        for process in learning_processes(os.getpid()):
            process.kill()
        await wait_until_counted(database, "select count(*) from claim where attempts > 1")
        held.rollback()
        report = await night
    assert (report["status"], report["seen"], report["dead"]) == ("done", 5 * 15 + 1, 0)
    assert await all_learned(database)
    assert "a process died while it learned" in caplog.text
    assert SECRET not in caplog.text
    await assert_ledger_balances(database)
    await assert_invariants(database)


async def test_an_interrupted_night_stops_its_processes_and_resumes(
    database: Database, clock: FrozenClock, in_two: Settings
) -> None:
    names = await log_workdays(database, 5)
    clock.set(clock.now().replace(hour=18))
    runner = JobRunner(database, in_two)
    with hold_locks(database.dsn, LOCK, names[0]) as held:
        night = asyncio.create_task(runner.run_now("consolidation"))
        await wait_for_lock_waiters(database.dsn)
        runner.stop.set()
        held.rollback()
        with pytest.raises(Interrupted):
            await night
    assert not learning_processes(os.getpid())
    await run_next_night(database, clock, in_two)
    assert await all_learned(database)
    await assert_ledger_balances(database)


async def test_a_cancelled_night_leaves_no_process(database: Database, clock: FrozenClock, in_two: Settings) -> None:
    names = await log_workdays(database, 3)
    with hold_locks(database.dsn, LOCK, names[0]):
        night = asyncio.create_task(run_next_night(database, clock, in_two))
        await wait_for_lock_waiters(database.dsn)
        night.cancel()
        with pytest.raises(asyncio.CancelledError):
            await night
        assert not learning_processes(os.getpid())
    await run_next_night(database, clock, in_two)
    assert await all_learned(database)


async def test_a_killed_night_leaves_no_process(
    database: Database, clock: FrozenClock, in_two: Settings, tmp_path: Path
) -> None:
    names = await log_workdays(database, 3)
    arguments = [database.dsn, clock.now().replace(hour=18).isoformat(), str(tmp_path)]
    with hold_locks(database.dsn, LOCK, names[0]):
        parent = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", NIGHT, *arguments])
        await wait_for_lock_waiters(database.dsn)
        processes = learning_processes(parent.pid)
        assert processes
        for process in processes:  # a service manager's stop reaches them, too: the night decides when they end
            process.send_signal(signal.SIGTERM)
        parent.kill()
        await asyncio.to_thread(parent.wait)
        gone, alive = await asyncio.to_thread(psutil.wait_procs, processes, PATIENCE)
        assert (len(gone), alive) == (len(processes), [])
    await run_next_night(database, clock, in_two)
    assert await all_learned(database)
    await assert_ledger_balances(database)


async def test_a_script_without_a_main_guard_runs_once(database: Database, clock: FrozenClock, tmp_path: Path) -> None:
    await log_workdays(database, 3)
    script = tmp_path / "night.py"
    script.write_text(f"open(__file__ + '.runs', 'a').write('run ')\n{NIGHT}")
    arguments = [sys.executable, str(script), database.dsn, clock.now().replace(hour=18).isoformat(), str(tmp_path)]
    await asyncio.to_thread(subprocess.run, arguments, check=True, timeout=PATIENCE)
    assert await asyncio.to_thread(Path(f"{script}.runs").read_text) == "run "
    assert await all_learned(database)
