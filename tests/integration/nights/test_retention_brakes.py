"""Retention stops, and says why, when the clock or the amount seems wrong; it goes on when it is told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from consolidator.clock import Clock, FrozenClock
from consolidator.database import Database
from consolidator.errors import RetentionHalted
from consolidator.jobs.nightly import JobRunner
from consolidator.settings import Settings
from tests.nights import query_number, query_rows, run_next_night
from tests.support import log_events, run_job, user_message

EVENTS = "select count(*) from event"


async def fill_days(database: Database, clock: FrozenClock, settings: Settings, days: int) -> None:
    """Log ten events and run a night on each of several days."""
    for day in range(days):
        await log_events(database, f"s{day}", [user_message(f"hello {n}") for n in range(10)])
        await run_next_night(database, clock, settings, days=1)


async def test_a_clock_that_jumped_prunes_nothing_until_it_is_told(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await fill_days(database, clock, settings, 4)
    clock.advance(timedelta(days=3650))
    with pytest.raises(RetentionHalted, match="the last event or run is of"):
        await run_job(database, settings, "retention")
    assert await query_number(database, EVENTS) == 40
    (run,) = await query_rows(database, "select status, error from run where job = 'retention' and error is not null")
    assert run["status"] == "failed"
    assert "run retention --force" in run["error"]
    report = await JobRunner(database, settings).run_now("retention", force=True)
    assert report["events"] == 40


async def test_more_than_half_of_the_log_stops_and_less_goes(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await fill_days(database, clock, settings, 8)
    age = {"older_than": timedelta(days=1)}
    strict = settings.model_copy(update={"retention_max_share": 0.5})
    with pytest.raises(RetentionHalted, match="70 of 80 events would go, more than 50% of the log"):
        await JobRunner(database, strict).run_now("retention", **age)
    assert await query_number(database, EVENTS) == 80
    lenient = settings.model_copy(update={"retention_max_share": 0.9})
    assert (await JobRunner(database, lenient).run_now("retention", **age))["events"] == 70


async def test_a_clock_that_differs_from_the_databases_prunes_nothing(
    dsn: str, database: Database, clock: FrozenClock, settings: Settings
) -> None:
    class FastClock(Clock):
        """The real clock of a machine that is two days ahead."""

        def now(self) -> datetime:
            return datetime.now(UTC) + timedelta(days=2)

    clock.set(datetime.now(UTC) - timedelta(days=32))
    await fill_days(database, clock, settings, 1)
    clock.set(datetime.now(UTC))
    await log_events(database, "new", [user_message("hello")] * 100)
    fast = Database(dsn, FastClock())
    try:
        with pytest.raises(RetentionHalted, match="the database's"):
            await run_job(fast, settings, "retention")
    finally:
        await fast.close()
    assert await query_number(database, EVENTS) == 110
