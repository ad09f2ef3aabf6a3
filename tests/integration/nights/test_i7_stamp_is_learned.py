"""I7: an event is stamped in the transaction that commits what every extractor learned from it, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Connection, Database
from consolidator.jobs import ledger
from consolidator.jobs.consolidation.backfill import retry_dead_letters
from consolidator.jobs.ledger import MAX_ATTEMPTS, Unit
from consolidator.jobs.retention import prune
from consolidator.memory.procedures.digest import Digest
from consolidator.models.event import Event
from consolidator.settings import Settings
from consolidator.store.nights import runs
from consolidator.store.nights.runs import UnitProgress
from tests import nights
from tests.nights import (
    all_learned,
    assert_ledger_balances,
    log_workdays,
    query_number,
    query_rows,
    run_next_night,
    workday_events,
)
from tests.support import assert_invariants, in_thread, later, log_events, read_memory, run_cli, run_job, user_message

SNAPSHOT = """
select (select count(*) from digest) as digests, (select count(*) from candidate) as candidates,
       (select count(*) from event where consolidated_at is not null) as stamped,
       (select coalesce(sum(learned), 0) from claim) as learned, (select consolidated_to from session) as watermark
"""
EMPTY_SNAPSHOT = {"digests": 0, "candidates": 0, "stamped": 0, "learned": 0, "watermark": 0}


async def test_what_a_unit_learns_appears_at_once_with_its_stamps_and_counts(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 1)
    clock.advance(timedelta(hours=1))
    async with nights.open_replica(database) as onlooker:
        with nights.hold_locks(database.dsn, "select from session for update") as session:
            working = asyncio.create_task(run_job(database, settings))
            await nights.wait_for_lock_waiters(database.dsn)  # the unit is claimed and read: now it would commit
            with nights.hold_locks(database.dsn, "select from claim for update") as claim:
                session.rollback()
                await wait_for_ledger_lock(database)  # all is written and stamped, but for the ledger
                snapshots = await query_rows(onlooker, SNAPSHOT)
                claim.rollback()
                while not working.done():
                    snapshots += await query_rows(onlooker, SNAPSHOT)
    await working
    snapshots += await query_rows(database, SNAPSHOT)
    assert snapshots[0] == EMPTY_SNAPSHOT
    assert {tuple(row.values()) for row in snapshots} == {tuple(EMPTY_SNAPSHOT.values()), tuple(snapshots[-1].values())}
    assert snapshots[-1]["stamped"] == snapshots[-1]["watermark"] == len(workday_events(0))
    assert snapshots[-1]["digests"] == 1
    assert snapshots[-1]["candidates"] > 0


async def wait_for_ledger_lock(database: Database) -> None:
    """Wait until a transaction that records progress waits for a lock."""
    statement = "update claim%set seen%"
    query = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    await nights.wait_until_counted(database, query + " and query like %s", f"%{statement}")


async def test_a_unit_that_fails_commits_neither_stamp_nor_memory(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_workdays(database, 2)

    async def record_and_fail(conn: Connection, units: Sequence[Unit], steps: Sequence[UnitProgress]) -> None:
        await ledger.record_progress(conn, units, steps)
        if any(step.unit == "coder-00" for step in steps):
            raise RuntimeError("the last step fails")

    with monkeypatch.context() as patch:
        patch.setattr("consolidator.jobs.consolidation.persistence.record_progress", record_and_fail)
        done = await run_next_night(database, clock, settings)
    assert done["status"] == "failed"
    assert (done["seen"], done["dead"]) == (2 * len(workday_events(0)), len(workday_events(0)))
    for table in ("digest", "candidate", "error_record"):
        assert {r["session_id"] for r in await query_rows(database, f"select session_id from {table}")} == {"coder-01"}
    stamped = await query_rows(database, "select distinct session_id from event where consolidated_at is not null")
    assert stamped == [{"session_id": "coder-01"}]
    (dead_unit,) = await query_rows(database, "select * from claim where status = 'dead'")
    assert (dead_unit["unit"], dead_unit["attempts"]) == ("coder-00", MAX_ATTEMPTS)
    assert "the last step fails" in dead_unit["error"]
    await assert_ledger_balances(database)
    await assert_invariants(database)

    done = await run_next_night(database, clock, settings)
    assert (done["status"], done["seen"]) == ("done", len(workday_events(0)))
    assert await all_learned(database)


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Make the digest fail on every event with the word poison, until it is undone."""
    feed = Digest.feed

    def fail_on_poison(self: Digest, event: Event) -> None:
        if "poison" in str(event.data):
            raise ValueError("cannot digest this")
        feed(self, event)

    monkeypatch.setattr(Digest, "feed", fail_on_poison)
    return monkeypatch


async def _run_poisoned_night(database: Database, clock: FrozenClock, settings: Settings) -> dict[str, Any]:
    """Log three working days, one with an event nobody can digest, and let a night see them."""
    await log_workdays(database, 2)
    poisoned = [
        *workday_events(2)[:10],
        user_message("poison. From now on, always run the linter first."),
        *workday_events(2)[10:],
    ]
    await log_events(database, "coder-02", poisoned, project="shop")
    return await run_next_night(database, clock, settings)


async def test_an_event_nobody_can_digest_is_set_aside_and_the_others_go_on(
    database: Database, clock: FrozenClock, settings: Settings, poison: pytest.MonkeyPatch
) -> None:
    done = await _run_poisoned_night(database, clock, settings)
    assert (done["status"], done["dead"], done["seen"]) == ("failed", 1, 3 * len(workday_events(0)) + 1)
    (letter,) = await query_rows(database, "select * from dead_letter")
    assert (letter["session_id"], letter["seq"], letter["extractor"]) == ("coder-02", 11, "digest")
    assert letter["run_id"] == done["run"]
    unstamped = await query_rows(database, "select session_id, seq from event where consolidated_at is null")
    assert unstamped == [{"session_id": "coder-02", "seq": 11}]
    memory = await read_memory(database)
    assert any(support == 3 for _, _, support, *_ in memory["procedure"])  # of all three sessions
    assert not any("linter" in sentence for _, sentence, *_ in memory["fact"])  # of no extractor, not even facts
    assert await all_learned(database)
    await assert_ledger_balances(database)
    await assert_invariants(database)


async def test_retry_learns_what_it_would_have_once_the_fault_is_mended(
    database: Database, clock: FrozenClock, settings: Settings, poison: pytest.MonkeyPatch, dsn: str
) -> None:
    await _run_poisoned_night(database, clock, settings)
    assert await retry_dead_letters(database, settings) == {"settled": 0, "remaining": 1}  # the fault is still there
    assert await query_number(database, "select count(*) from event where consolidated_at is null") == 1
    poison.undo()
    clock.advance(timedelta(minutes=1))
    assert await retry_dead_letters(database, settings) == {"settled": 1, "remaining": 0}
    tries = (
        "select r.status, c.seen, c.learned, c.dead from run r join claim c on c.run_id = r.id and c.kind = 'session' "
        "where job = 'retry' order by r.scheduled_at"
    )
    assert [tuple(row.values()) for row in await query_rows(database, tries)] == [
        ("failed", 1, 0, 1),
        ("done", 1, 1, 0),
    ]
    (letter,) = await query_rows(database, "select * from dead_letter")
    assert letter["settlement"] == "retried"
    assert await query_number(database, "select count(*) from event where consolidated_at is null") == 0
    memory = await read_memory(database)
    assert any("linter" in sentence for _, sentence, *_ in memory["fact"])
    await assert_invariants(database)
    assert await retry_dead_letters(database, settings) == {"settled": 0, "remaining": 0}
    assert await read_memory(database) == memory


async def test_a_discarded_event_is_stamped_with_nothing_learned(
    database: Database, clock: FrozenClock, settings: Settings, poison: pytest.MonkeyPatch
) -> None:
    await _run_poisoned_night(database, clock, settings)
    memory = await read_memory(database)
    assert await retry_dead_letters(database, settings, discard=True) == {"settled": 1, "remaining": 0}
    assert await read_memory(database) == memory
    assert await query_number(database, "select count(*) from event where consolidated_at is null") == 0
    assert await query_number(database, "select count(*) from dead_letter where settlement = 'discarded'") == 1
    await assert_invariants(database)


async def test_a_dead_letter_keeps_what_follows_it_from_being_pruned(
    database: Database, clock: FrozenClock, settings: Settings, poison: pytest.MonkeyPatch
) -> None:
    await _run_poisoned_night(database, clock, settings)
    clock.set(later(clock.now(), days=40))
    pruned = await prune(database, older_than=timedelta(days=30))
    remaining = await query_rows(database, "select session_id, min(seq) as first, count(*) from event group by 1")
    assert remaining == [{"session_id": "coder-02", "first": 11, "count": len(workday_events(2)) - 9}]
    assert pruned.spared["not learned from"] == len(workday_events(2)) - 9
    await retry_dead_letters(database, settings, discard=True)
    await prune(database, older_than=timedelta(days=30))
    assert await query_number(database, "select count(*) from event") == 0
    await assert_invariants(database)


async def test_the_units_of_a_failed_run_are_forgotten_in_time_and_its_dead_letter_is_still_learned_from(
    database: Database, clock: FrozenClock, settings: Settings, poison: pytest.MonkeyPatch
) -> None:
    done = await _run_poisoned_night(database, clock, settings)
    units = "select count(*) from claim where run_id = %s"
    clock.set(later(clock.now(), days=20))
    await prune(database, older_than=timedelta(days=30))
    assert await query_number(database, units, done["run"]) == 4
    clock.set(later(clock.now(), days=20))
    await prune(database, older_than=timedelta(days=30))
    assert await query_number(database, units, done["run"]) == 0
    async with database.connection() as conn:
        (run,) = await runs.list_runs(conn)
    assert (run.seen, run.dead, run.units) == (done["seen"], 1, 3)
    poison.undo()
    assert await retry_dead_letters(database, settings, run_or_letter_id=done["run"]) == {"settled": 1, "remaining": 0}
    await assert_ledger_balances(database)
    await assert_invariants(database)


async def test_a_fault_in_everything_gives_the_session_up_and_not_its_events_one_by_one(
    database: Database, clock: FrozenClock, settings: Settings, poison: pytest.MonkeyPatch
) -> None:
    await log_events(database, "coder-00", [user_message(f"poison {n}") for n in range(150)])
    done = await run_next_night(database, clock, settings)
    assert (done["dead"], done["dead_units"]) == (150, 1)
    assert await query_number(database, "select count(*) from dead_letter") == 0
    assert await query_number(database, "select count(*) from event where consolidated_at is not null") == 0
    await assert_ledger_balances(database)


async def test_the_command_says_by_its_exit_code_that_something_was_set_aside(
    database: Database, clock: FrozenClock, settings: Settings, poison: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    await _run_poisoned_night(database, clock, settings)
    shown = await in_thread(run_cli, "runs", await _latest_run(database), environment=environment)
    assert "cannot digest this" in shown.stdout
    retried = await in_thread(run_cli, "runs", "--retry", environment=environment)  # a process of its own digests it
    assert "1 settled" in retried.stdout
    await log_events(database, "quiet", [user_message("hm")])
    environment["CONSOLIDATOR_CLOCK"] = later(clock.now(), hours=2).isoformat()
    nothing = await in_thread(run_cli, "run", "consolidation", environment=environment)
    assert "learned nothing from any" in nothing.stderr


async def _latest_run(database: Database) -> str:
    (run,) = await query_rows(database, "select id from run order by started_at desc limit 1")
    return str(run["id"])
