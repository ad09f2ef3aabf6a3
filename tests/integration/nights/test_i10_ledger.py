"""I10: for each run and unit, events seen = learned from + nothing to learn + deferred + dead-lettered."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, strategies
from hypothesis import settings as examples

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.consolidation import learning
from consolidator.jobs.consolidation.backfill import retry_dead_letters
from consolidator.jobs.nightly import JobRunner
from consolidator.jobs.scheduler import summarize
from consolidator.memory.procedures.digest import Digest
from consolidator.models.event import Event, NewEvent
from consolidator.models.payload import EventType
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.settings import Settings
from tests import nights
from tests.integration.conftest import OpenDatabase
from tests.logs import Story, make_story
from tests.nights import (
    all_learned,
    assert_ledger_balances,
    log_workdays,
    query_number,
    query_rows,
    run_next_night,
    workday_events,
)
from tests.support import (
    PATIENCE,
    assert_invariants,
    count_examples,
    log_events,
    read_memory,
    tool_call,
    tool_result,
    user_message,
)

LENGTH = len(workday_events(0))
COUNTS = ("seen", "learned", "nothing", "deferred", "dead")
TASK = NewEvent(EventType.TASK_START, {"task_id": "t"}, task_id="t")
DONE = NewEvent(EventType.TASK_END, {"task_id": "t", "outcome": "success"}, task_id="t")


async def test_every_event_is_accounted_for_once_over_all_nights(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    """K13."""
    await log_workdays(database, 3)
    first = await run_next_night(database, clock, settings)
    assert (first["seen"], first["deferred"], first["dead"]) == (3 * LENGTH, 0, 0)
    assert first["learned"] + first["nothing"] == first["seen"]
    assert first["learned"] >= 3 * 12  # of calls, results and what was stated
    await log_workdays(database, 1, begin=3)
    second = await run_next_night(database, clock, settings)
    assert (second["seen"], second["units"]) == (LENGTH, 1)
    third = await run_next_night(database, clock, settings)
    assert (third["seen"], third["units"], third["status"]) == (0, 0, "done")
    await assert_ledger_balances(database)


@dataclass(frozen=True)
class Deferral:
    """A session that may not be read to its end tonight, and the events that change this tomorrow."""

    today: list[NewEvent]
    read: int
    tomorrow: list[NewEvent]
    pause: timedelta = timedelta(hours=1)


DEFERRALS = {
    "it is not quiet yet": Deferral(workday_events(0), 0, [], timedelta(minutes=5)),
    "a call is open": Deferral(
        [*workday_events(0), tool_call("z", "get_user", {})], LENGTH, [tool_result("z", {"a": 1})]
    ),
    "a task is open and it is not quiet": Deferral(
        [TASK, DONE, TASK, user_message("go on")], 2, [DONE], timedelta(minutes=5)
    ),
}


@pytest.mark.parametrize("why", DEFERRALS)
async def test_what_is_deferred_comes_the_next_night(
    database: Database, clock: FrozenClock, settings: Settings, why: str
) -> None:
    case = DEFERRALS[why]
    await log_events(database, "s", case.today, project="shop")
    clock.advance(case.pause)
    done = await JobRunner(database, settings).run_now("consolidation")
    assert (done["seen"], done["deferred"]) == (len(case.today), len(case.today) - case.read)
    assert await query_number(database, "select consolidated_to from session") == case.read
    await log_events(database, "s", case.tomorrow)
    done = await run_next_night(database, clock, settings)
    assert (done["seen"], done["deferred"]) == (len(case.today) - case.read + len(case.tomorrow), 0)
    assert await all_learned(database)
    await assert_ledger_balances(database)
    await assert_invariants(database)


async def test_a_call_that_nobody_answers_is_given_up_after_a_day(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_events(database, "s", [*workday_events(0), tool_call("z", "get_user", {})])
    await run_next_night(database, clock, settings)
    assert not await all_learned(database)
    done = await run_next_night(database, clock, settings, hours=23)
    assert (done["seen"], done["deferred"]) == (1, 0)
    assert await all_learned(database)


async def test_an_event_that_comes_while_its_session_is_read_is_seen_the_next_night(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_workdays(database, 1)
    loop = asyncio.get_running_loop()
    learn = learning.learn_window

    def meanwhile(*arguments: Any) -> Any:
        one_more = log_events(database, "coder-00", [user_message("one more thing")])
        asyncio.run_coroutine_threadsafe(one_more, loop).result(PATIENCE)
        return learn(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(learning, "learn_window", meanwhile)
        done = await run_next_night(database, clock, settings)
    assert done["seen"] == LENGTH
    assert await query_number(database, "select head - consolidated_to from session") == 1
    done = await run_next_night(database, clock, settings)
    assert done["seen"] == 1
    assert await all_learned(database)
    await assert_ledger_balances(database)


async def test_a_session_erased_in_the_middle_of_its_night_ends_quietly(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 2)
    working = asyncio.create_task(run_next_night(database, clock, settings))
    async with nights.open_replica(database) as other:
        with nights.hold_locks(database.dsn, "lock table candidate in exclusive mode"):
            await nights.wait_for_lock_waiters(database.dsn)
            planned = await plan_erasure(other, session="coder-00")
            erasing = asyncio.create_task(erase_sessions(other, settings, planned, reason="asked to"))
            await nights.wait_for_lock_waiters(database.dsn, 3)
        await erasing
    done = await working
    assert done["status"] == "done"
    assert done["seen"] in (LENGTH, 2 * LENGTH)
    for table in ("event", "digest", "candidate", "error_record"):
        assert await query_number(database, f"select count(*) from {table} where session_id = 'coder-00'") == 0
    await assert_ledger_balances(database)
    await assert_invariants(database)


async def test_a_session_erased_after_it_was_claimed_ends_quietly(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 2)
    working = asyncio.create_task(run_next_night(database, clock, settings))
    with nights.hold_locks(database.owner_dsn, "lock table session in access exclusive mode") as holding:
        await nights.wait_for_lock_waiters(database.dsn)  # the run is about to read the sessions
        holding.execute("select consolidator.erase_session('coder-00', 'e', 0, 'asked to', now())")
        holding.commit()
    done = await working
    assert (done["status"], done["seen"]) == ("done", LENGTH)
    await assert_ledger_balances(database)


def test_a_night_that_sees_everything_and_learns_nothing_says_so_loudly() -> None:
    counts = {"job": "consolidation", "seen": 3, "learned": 0, "nothing": 3, "deferred": 0, "dead": 0, "units": 1}
    assert summarize(counts).startswith("NOTHING LEARNED")
    assert not summarize(counts | {"learned": 1, "nothing": 2}).startswith("NOTHING LEARNED")


@examples(
    max_examples=count_examples(4),
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(seed=strategies.integers(0, 2**32))
def test_random_nights_with_poison_balance_and_a_retry_learns_what_one_batch_does(
    fresh: OpenDatabase, settings: Settings, seed: int
) -> None:
    log_story = make_story(seed)
    rng = random.Random(seed)
    poisoned = {
        (session.name, seq)
        for session in log_story.sessions
        for seq in range(1, len(session.events) + 1)
        if rng.random() < 0.05
    }
    nightly = asyncio.run(learn_with_poison(fresh, log_story, poisoned, settings))
    batch = asyncio.run(learn_with_poison(fresh, Story(log_story.sessions, log_story.nights[-1:]), set(), settings))
    assert nightly == batch


async def learn_with_poison(
    fresh: OpenDatabase, log_story: Story, poisoned: set[tuple[str, int]], settings: Settings
) -> Any:
    feed = Digest.feed

    def feed_or_die(self: Digest, event: Event) -> None:
        if (event.session_id, event.seq) in poisoned:
            raise ValueError("poison")
        feed(self, event)

    async with fresh() as database:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Digest, "feed", feed_or_die)
            for number, night in enumerate(log_story.nights):
                for index, session in enumerate(log_story.sessions):
                    new = session.events[
                        log_story.events_until(index, number - 1) if number else 0 : log_story.events_until(
                            index, number
                        )
                    ]
                    await log_events(database, session.name, new, **session.columns)
                assert isinstance(database.clock, FrozenClock)
                await run_next_night(database, database.clock, settings, seconds=night.pause.total_seconds())
                await assert_ledger_balances(database)
                await assert_invariants(database)
        unstamped = await query_rows(database, "select session_id, seq from event where consolidated_at is null")
        assert {(row["session_id"], row["seq"]) for row in unstamped} == poisoned
        letters = await query_rows(database, "select session_id, seq from dead_letter where settled_at is null")
        assert {(row["session_id"], row["seq"]) for row in letters} == poisoned
        assert await retry_dead_letters(database, settings) == {"settled": len(poisoned), "remaining": 0}
        await assert_invariants(database)
        return await read_memory(database)
