"""A solution is made of the latest records of its error, however many there are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.settings import Settings
from consolidator.store.calls import error_records
from tests.integration.conftest import OpenDatabase
from tests.nights import failed_command_events, limit_records, query_rows, run_next_night
from tests.support import assert_invariants, log_events, read_memory

pytestmark = pytest.mark.usefixtures("agents_apart")

COUNTED = "select occurrences, sessions, body -> 'evidence' -> 0 ->> 'session' as latest from solution"


async def test_a_solution_is_made_of_the_latest_records_alone(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    with limit_records(3):
        for number in range(5):
            await log_events(database, f"s{number}", failed_command_events(0), project="shop")
            await run_next_night(database, clock, settings)
        (solution,) = await query_rows(database, COUNTED)
        assert (solution["occurrences"], solution["sessions"]) == (3, 3)
        async with database.connection() as conn:
            latest = await error_records.list_of_fingerprints(conn, "coder", await _fingerprints(database))
            assert sorted(record.session_id for record in latest) == ["s2", "s3", "s4"]


async def test_an_erasure_makes_a_solution_of_the_latest_records_that_are_left(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    with limit_records(3):
        for number in range(5):
            await log_events(database, f"s{number}", failed_command_events(0), project="shop")
            await run_next_night(database, clock, settings)
        plan = await plan_erasure(database, session="s4")
        await erase_sessions(database, settings, plan, reason="asked to")
        (solution,) = await query_rows(database, COUNTED)
        assert (solution["occurrences"], solution["sessions"]) == (3, 3)
        async with database.connection() as conn:
            latest = await error_records.list_of_fingerprints(conn, "coder", await _fingerprints(database))
            assert sorted(record.session_id for record in latest) == ["s1", "s2", "s3"]
        assert "s4" not in str(await read_memory(database))
    await assert_invariants(database)


async def _fingerprints(database: Database) -> list[str]:
    return [row["fingerprint"] for row in await query_rows(database, "select distinct fingerprint from error_record")]


async def test_nights_with_more_records_than_are_read_teach_what_one_batch_does(
    fresh: OpenDatabase, settings: Settings
) -> None:
    learned: list[Any] = []
    with limit_records(3):
        for is_nightly in (True, False):
            async with fresh() as database:
                assert isinstance(database.clock, FrozenClock)
                for number in range(5):
                    await log_events(
                        database, f"s{number}", failed_command_events(number % 2), project=f"p{number % 2}"
                    )
                    if is_nightly or number == 4:
                        await run_next_night(database, database.clock, settings)
                    else:
                        database.clock.advance(timedelta(hours=1))  # as a night does
                learned.append(await read_memory(database))
    assert learned[0] == learned[1]
