"""Backfills: some sessions, new events or all of them again; resumable, and a rehearsal writes nothing."""

from __future__ import annotations

import asyncio
import json
import signal
from datetime import timedelta
from typing import Any

import pytest

from consolidator.cli import main
from consolidator.cli.common import parse_moment
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import Interrupted, NotFound, UsageError
from consolidator.jobs.consolidation import revisions
from consolidator.jobs.consolidation.backfill import Backfill, retry_dead_letters
from consolidator.jobs.ledger import BackfillFilter, JobContext
from consolidator.jobs.merging.agent_merge import merge_agent
from consolidator.jobs.retention import prune
from consolidator.settings import Settings
from consolidator.store.nights import runs
from tests.integration.conftest import SALT, OpenDatabase
from tests.nights import (
    all_learned,
    assert_ledger_balances,
    dump_tables,
    hold_locks,
    log_workdays,
    open_replica,
    query_number,
    query_rows,
    run_next_night,
    start_cli,
    wait_for_lock_waiters,
    workday_events,
)
from tests.support import PATIENCE, assert_invariants, in_thread, later, log_events, read_memory, run_here, user_message

WORKDAY_EVENTS = len(workday_events(0))
LOCK_CANDIDATES = "lock table candidate in exclusive mode"
LOCK_DIGESTS = "lock table digest in access exclusive mode"
HOUR = timedelta(hours=1)
SELECT_STAMPS = "select session_id, seq, consolidated_at from event order by 1, 2"


async def run_backfill(database: Database, settings: Settings, **filters: Any) -> dict[str, Any]:
    """Run a backfill."""
    return await Backfill(database, settings, session_filter=BackfillFilter(**filters)).run()


async def rehearse_backfill(database: Database, settings: Settings, **filters: Any) -> dict[str, Any]:
    """Rehearse a backfill."""
    return await Backfill(database, settings, session_filter=BackfillFilter(**filters)).rehearse()


async def learned_sessions(database: Database) -> list[str]:
    """Return the sessions that were learned from."""
    rows = await query_rows(database, "select id from session where consolidated_to > 0 order by id")
    return [row["id"] for row in rows]


async def test_a_backfill_learns_as_a_night_does(
    database: Database, clock: FrozenClock, settings: Settings, fresh: OpenDatabase
) -> None:
    async with fresh() as other:
        for log in (database, other):
            await log_workdays(log, 4)
        assert isinstance(other.clock, FrozenClock)
        await run_next_night(other, other.clock, settings)
        expected = await read_memory(other)
    async with database.connection() as conn:
        await conn.execute("insert into setting (name, value) values ('salt', %s)", [SALT])
    clock.advance(HOUR)
    done = await run_backfill(database, settings)
    assert (done["job"], done["status"], done["seen"]) == ("backfill", "done", 4 * WORKDAY_EVENTS)
    assert await read_memory(database) == expected
    assert await all_learned(database)
    await assert_ledger_balances(database)
    await assert_invariants(database)
    assert (await run_next_night(database, clock, settings))["seen"] == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"agent": "bob"}, ["bob-00", "bob-01"]),
        ({"session": "ann-00"}, ["ann-00"]),
        ({"since": "2026-03-04"}, ["bob-01"]),
        ({"until": "2026-03-04"}, ["ann-00", "bob-00"]),
        ({"agent": "bob", "until": "2026-03-04"}, ["bob-00"]),
        ({"since": "5h"}, ["bob-01"]),
    ],
)
async def test_filters_choose_sessions(
    database: Database, clock: FrozenClock, settings: Settings, arguments: dict[str, str], expected: list[str]
) -> None:
    """K12."""
    await log_workdays(database, 1, agent="ann")
    await log_workdays(database, 1, agent="bob")
    clock.advance(timedelta(days=3))
    await log_workdays(database, 1, agent="bob", begin=1)
    clock.advance(HOUR)
    filters: dict[str, Any] = {
        name: parse_moment(text, clock.now()) if name in ("since", "until") else text
        for name, text in arguments.items()
    }
    assert (await rehearse_backfill(database, settings, **filters))["sessions"] == len(expected)
    assert await learned_sessions(database) == []
    done = await run_backfill(database, settings, **filters)
    assert await learned_sessions(database) == expected
    assert done["units"] == len(expected)


async def test_a_rehearsal_shows_what_would_be_learned_and_writes_nothing(
    database: Database, clock: FrozenClock, environment: dict[str, str]
) -> None:
    await log_workdays(database, 3)
    before = await dump_tables(database)
    environment["CONSOLIDATOR_CLOCK"] = later(clock.now(), hours=1).isoformat()
    output = (await in_thread(run_here, "backfill", "--dry-run", environment=environment)).stdout
    assert f"would read {3 * WORKDAY_EVENTS} events of 3 sessions; nothing was written" in output
    assert "tabs for indentation" in output
    assert "get_user" in output
    assert "pytets" in output
    assert await dump_tables(database) == before


async def test_a_rehearsal_keeps_no_agent_waiting(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await log_workdays(database, 2)
    await run_next_night(database, clock, settings)
    async with open_replica(database) as other:
        with hold_locks(database.dsn, LOCK_CANDIDATES):
            rehearsing = asyncio.create_task(rehearse_backfill(other, settings, reprocess=True))
            await wait_for_lock_waiters(database.dsn)
            await asyncio.wait_for(log_events(database, "coder-00", [user_message("go on")]), PATIENCE)
            assert not rehearsing.done()
        await rehearsing


async def test_an_interrupted_rehearsal_has_written_nothing(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 2)
    before = await dump_tables(database)
    stop, reported = asyncio.Event(), list[str]()

    def report(title: str) -> None:
        reported.append(title)
        stop.set()

    job = Backfill(database, settings, stop, progress=report)
    with pytest.raises(Interrupted):
        await job.rehearse()
    assert reported == ["in shop"]
    assert await dump_tables(database) == before


async def _kill_backfill(database: Database, environment: dict[str, str], *words: str, lock: str) -> str:
    """Kill a backfill that has done two sessions and holds a third; return its run."""
    with (
        hold_locks(database.dsn, "select from session where id = 'coder-02' for update") as third,
        start_cli("backfill", *words, environment=environment) as process,
    ):
        await wait_for_lock_waiters(database.dsn)  # two are done
        with hold_locks(database.dsn, lock):
            third.rollback()
            await wait_for_lock_waiters(database.dsn)
            process.kill()
            await asyncio.to_thread(process.wait)
    assert process.returncode == -signal.SIGKILL
    (run,) = await query_rows(database, "select id, status from run where job = 'backfill'")
    assert run["status"] == "running"
    assert (
        await query_number(database, "select count(*) from claim where run_id = %s and status = 'done'", run["id"]) == 2
    )
    return str(run["id"])


@pytest.mark.parametrize("since", [(), ("--since", "7d")], ids=["all", "since a span ago"])
async def test_a_killed_backfill_goes_on_where_it_was(
    database: Database, clock: FrozenClock, environment: dict[str, str], settings: Settings, fresh: OpenDatabase,
    since: tuple[str, ...],
) -> None:  # fmt: skip
    async with fresh() as other:
        await log_workdays(other, 5)
        assert isinstance(other.clock, FrozenClock)
        await run_next_night(other, other.clock, settings)
        expected = await read_memory(other)
    async with database.connection() as conn:
        await conn.execute("insert into setting (name, value) values ('salt', %s)", [SALT])
    await log_workdays(database, 5)
    environment |= {"CONSOLIDATOR_WORKERS": "1", "CONSOLIDATOR_LEASE_SECONDS": "60"}
    environment["CONSOLIDATOR_CLOCK"] = later(clock.now(), hours=1).isoformat()
    run = await _kill_backfill(database, environment, *since, lock=LOCK_CANDIDATES)
    environment["CONSOLIDATOR_CLOCK"] = later(clock.now(), hours=2).isoformat()
    done = json.loads((await in_thread(run_here, "backfill", *since, "--json", environment=environment)).stdout)
    assert (done["run"], done["status"], done["seen"]) == (run, "done", 5 * WORKDAY_EVENTS)
    assert await read_memory(database) == expected
    assert await all_learned(database)
    await assert_ledger_balances(database)
    await assert_invariants(database)


async def test_a_killed_replacement_goes_on_and_leaves_memory_as_it_was(
    database: Database, clock: FrozenClock, environment: dict[str, str], settings: Settings
) -> None:
    await log_workdays(database, 5)
    await run_next_night(database, clock, settings)
    expected, stamps = await read_memory(database), await query_rows(database, SELECT_STAMPS)
    environment |= {"CONSOLIDATOR_WORKERS": "1", "CONSOLIDATOR_LEASE_SECONDS": "60"}
    environment["CONSOLIDATOR_CLOCK"] = later(clock.now(), hours=1).isoformat()
    words = ("--reprocess", "--replace")
    run = await _kill_backfill(database, environment, *words, lock=LOCK_DIGESTS)
    environment["CONSOLIDATOR_CLOCK"] = later(clock.now(), hours=2).isoformat()
    done = json.loads((await in_thread(run_here, "backfill", *words, "--json", environment=environment)).stdout)
    assert (done["run"], done["status"]) == (run, "done")
    assert await read_memory(database) == expected
    assert await query_rows(database, SELECT_STAMPS) == stamps
    await assert_invariants(database)


@pytest.mark.parametrize(
    "filters", [{"reprocess": True}, *({"only": extractor} for extractor in ("facts", "procedures", "solutions"))]
)
async def test_deriving_again_moves_no_stamp_and_changes_nothing_of_what_is_right(
    database: Database, clock: FrozenClock, settings: Settings, filters: dict[str, Any]
) -> None:
    await log_workdays(database, 3)
    await log_events(database, "later", workday_events(7), project="shop")
    await run_next_night(database, clock, settings)
    await log_events(database, "later", [user_message("We use pnpm.")])  # not learned from yet, and not now
    before, whole = await read_memory(database), await dump_tables(database)
    shown = await rehearse_backfill(database, settings, **filters)
    assert not any(any(changes.values()) for changes in shown["memory"].values())
    assert await dump_tables(database) == whole
    stamps = await query_rows(database, SELECT_STAMPS)
    clock.advance(HOUR)
    done = await run_backfill(database, settings, **filters)
    assert done["status"] == "done"
    assert await read_memory(database) == before
    assert await query_rows(database, SELECT_STAMPS) == stamps
    assert await query_number(database, "select head - consolidated_to from session where id = 'later'") == 1
    await assert_invariants(database)


async def test_what_differs_is_shown_and_replaced_only_on_request(
    database: Database, clock: FrozenClock, settings: Settings, environment: dict[str, str]
) -> None:
    await log_workdays(database, 3)
    await run_next_night(database, clock, settings)
    right = await read_memory(database)
    async with database.connection() as conn:  # as an older version might have learned it
        await conn.execute("update fact set sentence = 'The user likes spaces.'")
        await conn.execute("update error_record set record = jsonb_set(record, '{headline}', '\"once upon a time\"')")
        await conn.execute("update candidate set sentence = 'The user likes spaces.' where predicate = 'rule'")
        await conn.execute("update procedure set title = 'an old title', support = 1, rank = 0")
    wrong = await dump_tables(database)
    environment["CONSOLIDATOR_CLOCK"] = later(clock.now(), hours=1).isoformat()
    shown = (await in_thread(run_here, "backfill", "--reprocess", environment=environment)).stdout
    assert "add --replace to write these changes" in shown
    assert "tabs for indentation" in shown
    assert await dump_tables(database) == wrong
    clock.advance(HOUR)
    await run_backfill(database, settings, only="facts")
    assert (await read_memory(database))["fact"] == right["fact"]
    assert (await read_memory(database))["procedure"] != right["procedure"]
    clock.advance(HOUR)
    await run_backfill(database, settings, reprocess=True)
    assert await read_memory(database) == right
    await assert_invariants(database)


async def test_what_was_pruned_is_kept_when_the_rest_is_derived_again(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 3)
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=40))
    await log_events(database, "coder-00", [user_message("My name is Ada."), *workday_events(0)[1:]], project="shop")
    await run_next_night(database, clock, settings)
    await prune(database, older_than=timedelta(days=30))
    assert await query_number(database, "select count(*) from session where pruned_to > 0") > 0
    before = await read_memory(database)
    clock.advance(HOUR)
    done = await run_backfill(database, settings, reprocess=True)
    assert done["status"] == "done"
    assert await read_memory(database) == before
    await assert_invariants(database)


async def test_a_session_that_a_night_learns_from_meanwhile_loses_nothing(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 3)
    await run_next_night(database, clock, settings)
    await log_events(database, "coder-00", [user_message("We use pnpm."), *workday_events(9)[1:]], project="shop")
    clock.advance(HOUR)
    async with open_replica(database) as other:
        with hold_locks(database.dsn, LOCK_CANDIDATES):
            deriving = asyncio.create_task(run_backfill(database, settings, session="coder-00", reprocess=True))
            await wait_for_lock_waiters(database.dsn)
            learning = asyncio.create_task(run_next_night(other, clock, settings))
            await wait_for_lock_waiters(database.dsn, 2)
        await asyncio.gather(deriving, learning)
    memory = await read_memory(database)
    assert any("pnpm" in sentence for _, sentence, *_ in memory["fact"])
    clock.advance(HOUR)
    await run_backfill(database, settings, reprocess=True)
    assert await read_memory(database) == memory
    await assert_invariants(database)


@pytest.mark.parametrize("words", [("--replace",), ("--only", "everything")])
def test_words_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.setattr("sys.argv", ["consolidator", "backfill", *words])
    with pytest.raises(SystemExit) as refused:
        main()
    assert refused.value.code == UsageError.exit_code


async def test_a_session_with_nothing_to_read_begins_no_run(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 1)
    await run_next_night(database, clock, settings)
    with pytest.raises(NotFound, match="--reprocess"):
        await run_backfill(database, settings, session="coder-00")
    assert await query_number(database, "select count(*) from run where job = 'backfill'") == 0


@pytest.mark.parametrize("job", ["backfill", "retry", "promotion"])
async def test_what_dies_of_a_bug_is_not_left_running(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    await log_workdays(database, 1)
    done = await run_next_night(database, clock, settings)
    async with database.connection() as conn:
        failures = {1: "facts: a bug"}
        await runs.add_dead_letters(conn, done["run"], session="coder-00", failures=failures, now=clock.now())
    await log_workdays(database, 1, begin=1)
    clock.advance(HOUR)

    async def fail(*_: Any, **__: Any) -> Any:
        raise KeyError("a bug")

    monkeypatch.setattr("consolidator.jobs.consolidation.backfill.consolidate", fail)
    monkeypatch.setattr("consolidator.jobs.consolidation.backfill.merge_agents", fail)
    monkeypatch.setattr("consolidator.jobs.consolidation.revisions.merge_agents", fail)
    work = {
        "backfill": run_backfill(database, settings),
        "retry": retry_dead_letters(database, settings),
        "promotion": revisions._merge_in_run(JobContext(database, settings), {"promoted": 2}),
    }
    tested = work.pop(job)
    for unused in work.values():
        unused.close()
    with pytest.raises(KeyError):
        await tested
    (run,) = await query_rows(database, "select status, error from run where job <> 'consolidation'")
    assert (run["status"], run["error"]) == ("failed", "KeyError: 'a bug'")


async def test_a_rehearsal_and_a_merge_wait_for_each_other_in_no_circle(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 2)
    await run_next_night(database, clock, settings)
    async with database.connection() as conn:
        await conn.execute("update scope set merged = 0")
    memory_before = await read_memory(database)

    async def merge(other: Database) -> None:
        async with other.transaction() as conn:
            await merge_agent(conn, "coder", run_id="test", now=clock.now(), settings=settings)

    async with open_replica(database) as other:
        with hold_locks(database.dsn, LOCK_CANDIDATES):
            rehearsing = asyncio.create_task(rehearse_backfill(database, settings, reprocess=True))
            await wait_for_lock_waiters(database.dsn)  # it has taken the first session's digest
            merging = asyncio.create_task(merge(other))
            await wait_for_lock_waiters(database.dsn, 2)
        await asyncio.gather(rehearsing, merging)
    assert await read_memory(database) == memory_before
    await assert_invariants(database)


async def test_a_rehearsal_and_a_night_wait_for_each_other_in_no_circle_and_no_append_waits(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 1, begin=2)
    await run_next_night(database, clock, settings)
    await log_workdays(database, 2)
    clock.advance(HOUR)
    async with open_replica(database) as other:
        with hold_locks(database.dsn, LOCK_CANDIDATES):
            rehearsing = asyncio.create_task(rehearse_backfill(database, settings))
            await wait_for_lock_waiters(database.dsn)  # it has stored what the first session taught
            learning = asyncio.create_task(run_backfill(other, settings, session="coder-01"))
            await wait_for_lock_waiters(database.dsn, 2)  # it has learned from the second session
            with hold_locks(
                database.dsn, "set lock_timeout = '1s'; update session set head = head where id = 'coder-01'"
            ):
                pass  # an append to it does not wait
        assert (await rehearsing)["sessions"] == 2
        assert (await learning)["status"] == "done"
    assert await query_number(database, "select max(attempts) from claim where unit = 'coder-01'") == 1
    assert await learned_sessions(database) == ["coder-01", "coder-02"]
    await assert_invariants(database)
