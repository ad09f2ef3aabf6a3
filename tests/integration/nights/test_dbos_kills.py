"""Nights by DBOS, the real library: processes that are killed lose nothing, repeat nothing, and keep one rate."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import DatabaseUnavailable, Interrupted
from consolidator.jobs.nightly import JobRunner
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.forks import Fork
from tests.integration.conftest import OpenDatabase
from tests.nights import (
    all_learned,
    assert_ledger_balances,
    hold_locks,
    log_workdays,
    query_number,
    query_rows,
    start_cli,
    wait_for_lock_waiters,
    wait_until_counted,
    wait_until_signal_taken,
    workday_events,
)
from tests.oracle import oracle, with_model
from tests.support import PATIENCE, assert_invariants, log_events, read_memory, user_message

HOUR = timedelta(hours=1)
DIGESTS = "lock table digest in access exclusive mode"  # stops a unit that was claimed, before it reads
CANDIDATES = "lock table candidate in exclusive mode"  # stops a unit just before it stores what it learned
RATE = 240  # model calls a minute
SESSIONS = 12
FUELS = ("Tea", "Coffee", "Mate", "Cocoa", "Water", "Juice")


async def log_sessions(database: Database) -> None:
    """Log sessions of as many people, each of which has a question for the model and work for the rules."""
    async with database.connection() as conn:
        await conn.execute("insert into setting (name, value) values ('salt', %s) on conflict do nothing", [bytes(16)])
    for n in range(SESSIONS):
        said = user_message(f"{FUELS[n % len(FUELS)]} is my fuel, says number {n}.")
        await log_events(database, f"s-{n:02}", [said, *workday_events(n)], peer=f"peer-{n}", project="shop")


@asynccontextmanager
async def memory_by_claims(fresh: OpenDatabase, settings: Settings) -> AsyncIterator[Any]:
    """Yield the memory that one process learns from the same sessions with the built-in claims."""
    async with fresh() as database, ModelServer(oracle) as server:
        await log_sessions(database)
        assert isinstance(database.clock, FrozenClock)
        database.clock.advance(HOUR)
        report = await JobRunner(database, with_model(settings, server, workers=1)).run_due("consolidation")
        assert report is not None
        assert report["status"] == "done"
        assert len(server.requests) == SESSIONS
        yield await read_memory(database)


async def find_pid(database: Database, workflow: str) -> int:
    """Return the id of the process that runs a workflow."""
    (row,) = await query_rows(
        database, "select executor_id from consolidator_dbos.workflow_status where name = %s", workflow
    )
    return int(row["executor_id"].split("/")[-3])


def for_dbos(environment: dict[str, str], clock: FrozenClock, **more: str) -> dict[str, str]:
    """Return the environment of a process that shares the night of an hour later by DBOS, one session at a time."""
    return {
        **environment,
        "CONSOLIDATOR_CLOCK": (clock.now() + HOUR).isoformat(),
        "CONSOLIDATOR_WORKERS": "1",
        "CONSOLIDATOR_NIGHT_ENGINE": "dbos",
        **{f"CONSOLIDATOR_{name}": value for name, value in more.items()},
    }


async def wait_for_exit(process: Fork) -> tuple[int, str, str]:
    """Wait for a process; return its exit code and what it printed."""
    stdout, stderr = await asyncio.to_thread(process.communicate, PATIENCE)
    return process.wait(), stdout, stderr


async def assert_night_is_done(database: Database, sessions: int) -> None:
    """Assert that one run learned from every session, once, and that nothing of it is left in DBOS."""
    (run,) = await query_rows(database, "select * from run where job = 'consolidation'")
    assert (run["status"], run["report"]["units"]) == ("done", sessions)
    assert run["report"]["seen"] == run["report"]["learned"] + run["report"]["nothing"]
    assert {row["status"] for row in await query_rows(database, "select status from claim")} == {"done"}
    assert await query_number(database, "select count(*) from event where consolidated_at is null") == 0
    assert await all_learned(database)
    await assert_ledger_balances(database)
    await assert_invariants(database)
    states = "select count(*) from consolidator_dbos.workflow_status where status <> 'SUCCESS'"
    assert await query_number(database, states) == 0


async def test_three_processes_share_a_night_and_two_are_killed(
    database: Database, clock: FrozenClock, environment: dict[str, str], fresh: OpenDatabase, settings: Settings
) -> None:
    asked_at: list[float] = []
    started_at = time.monotonic()

    def answer(request: dict[str, Any]) -> ScriptedReply:
        asked_at.append(time.monotonic())
        return oracle(request)

    await log_sessions(database)
    async with ModelServer(answer) as server:
        environment = for_dbos(
            environment,
            clock,
            MODEL_CALLS_PER_MINUTE=str(RATE),
            MODEL="gpt-4o-mini",
            OPENAI_BASE_URL=server.url,
            OPENAI_API_KEY="none",
        )
        with ExitStack() as stack:
            holding = stack.enter_context(hold_locks(database.dsn, CANDIDATES))
            processes = [
                stack.enter_context(start_cli("run", "consolidation", environment=environment)) for _ in range(3)
            ]
            await wait_for_lock_waiters(database.dsn, 3)  # each has a session that it is about to commit
            conductor = await find_pid(database, "night")
            processes.sort(key=lambda process: process.pid != conductor)
            for process in processes[:2]:
                process.kill()
                assert process.wait(PATIENCE) == -signal.SIGKILL
            holding.rollback()
            code, stdout, stderr = await wait_for_exit(processes[2])
    assert code == 0, stderr
    assert stdout.startswith("consolidation: ")
    assert not re.search("WARNING|ERROR|Traceback", stderr), stderr
    await assert_night_is_done(database, SESSIONS)
    attempts = await query_rows(database, "select attempts from claim where phase = 0 order by 1")
    assert [row["attempts"] for row in attempts][-3:] == [1, 2, 2]  # two were in hand when their process died
    assert len(asked_at) == SESSIONS  # no question was asked twice
    assert max(asked_at) - started_at >= 60 / RATE * (SESSIONS - 1)  # over all processes, the dead ones too
    async with memory_by_claims(fresh, settings) as expected:
        assert await read_memory(database) == expected


async def test_a_frozen_process_loses_its_work_after_a_lease_and_commits_nothing_when_it_wakes(
    database: Database, clock: FrozenClock, environment: dict[str, str]
) -> None:
    await log_workdays(database, 4)
    environment = for_dbos(environment, clock, LEASE_SECONDS="5")
    with start_cli("run", "consolidation", environment=environment) as frozen:
        with hold_locks(database.dsn, DIGESTS):
            await wait_for_lock_waiters(database.dsn)
            os.kill(frozen.pid, signal.SIGSTOP)
        with start_cli("run", "consolidation", environment=environment) as other:
            code, _, stderr = await wait_for_exit(other)
        assert code == 0, stderr
        before, claims = await read_memory(database), await query_rows(database, "select * from claim order by unit")
        os.kill(frozen.pid, signal.SIGCONT)
        code, _, stderr = await wait_for_exit(frozen)
    assert code == 0, stderr
    assert await read_memory(database) == before
    assert await query_rows(database, "select * from claim order by unit") == claims
    await assert_night_is_done(database, 4)


async def test_a_terminated_process_finishes_what_is_in_hand_and_another_goes_on(
    database: Database, clock: FrozenClock, environment: dict[str, str]
) -> None:
    await log_workdays(database, 4)
    environment = for_dbos(environment, clock)
    with (
        hold_locks(database.dsn, CANDIDATES) as holding,
        start_cli("run", "consolidation", environment=environment) as process,
    ):
        await wait_for_lock_waiters(database.dsn)
        process.terminate()
        await asyncio.to_thread(wait_until_signal_taken, process)
        holding.rollback()
        code, _, stderr = await wait_for_exit(process)
    assert (code, "interrupted" in stderr) == (Interrupted.exit_code, True), stderr
    assert "Traceback" not in stderr
    done = "select count(*) from claim where phase = 0 and status = 'done'"
    assert await query_number(database, done) == 1
    with start_cli("run", "consolidation", environment=environment) as process:
        code, _, stderr = await wait_for_exit(process)
    assert code == 0, stderr
    await assert_night_is_done(database, 4)
    assert await query_number(database, "select max(attempts) from claim where phase = 0") == 1


async def test_who_dies_while_it_ends_the_night_leaves_that_to_another(
    database: Database, clock: FrozenClock, environment: dict[str, str]
) -> None:
    await log_workdays(database, 2)
    environment = for_dbos(environment, clock)
    with (
        hold_locks(database.dsn, "lock table seal in access exclusive mode") as holding,
        start_cli("run", "consolidation", environment=environment) as first,
        start_cli("run", "consolidation", environment=environment) as second,
    ):
        waiting = "select count(*) from pg_locks where relation = 'seal'::regclass and not granted"
        await wait_until_counted(database, waiting)  # and not for each other, as they start
        conductor = await find_pid(database, "night")
        dying, other = (first, second) if first.pid == conductor else (second, first)
        dying.kill()
        assert dying.wait(PATIENCE) == -signal.SIGKILL
        holding.rollback()
        code, _, stderr = await wait_for_exit(other)
    assert code == 0, stderr
    await assert_night_is_done(database, 2)
    assert await query_number(database, "select count(*) from seal") == 1


async def test_without_its_database_a_night_ends_at_once_and_goes_on_when_it_is_back(
    database: Database, clock: FrozenClock, settings: Settings, server_dsn: str
) -> None:
    await log_workdays(database, 3)
    clock.advance(HOUR)
    runner = JobRunner(database, settings.model_copy(update={"night_engine": "dbos", "workers": 1}))
    name = conninfo_to_dict(database.dsn)["dbname"]
    with psycopg.connect(server_dsn, autocommit=True) as admin, closing(psycopg.connect(database.dsn)) as holding:
        holding.execute("set search_path = consolidator")
        holding.execute(CANDIDATES)
        working = asyncio.create_task(runner.run_due("consolidation"))
        await wait_for_lock_waiters(database.dsn)
        admin.execute(sql.SQL("alter database {} allow_connections false").format(sql.Identifier(str(name))))
        admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
        try:
            with pytest.raises(DatabaseUnavailable):
                await working
        finally:
            admin.execute(sql.SQL("alter database {} allow_connections true").format(sql.Identifier(str(name))))
    report = await runner.run_due("consolidation")
    assert report is not None
    await assert_night_is_done(database, 3)
