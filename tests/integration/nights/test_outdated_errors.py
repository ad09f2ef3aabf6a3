"""Errors that another version fingerprinted are derived again in the first night after an upgrade."""

from __future__ import annotations

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.settings import Settings
from tests.nights import failed_command_events, query_rows, run_next_night
from tests.support import assert_invariants, log_events

SOLUTIONS = "select id, fingerprint, headline, occurrences from solution order by id"
RECORDS = "select session_id, seq, fingerprint, status, record from error_record order by session_id, seq"
OUTDATE = """
    update error_record set fingerprint = replace(fingerprint, 'v17:', 'v4:'), record = record
        || jsonb_build_object('fingerprint', replace(fingerprint, 'v17:', 'v4:'), 'headline', 'an older headline');
    update solution set id = id || '_old', fingerprint = replace(fingerprint, 'v17:', 'v4:');
"""


async def outdate(database: Database, more: str = "") -> None:
    """Make what is stored look as if an older version had derived it."""
    async with database.owner_connection() as conn, conn.transaction():
        await conn.execute(OUTDATE + more)


async def test_a_session_is_derived_again(database: Database, clock: FrozenClock, settings: Settings) -> None:
    for name in ("s1", "s2"):
        await log_events(database, name, failed_command_events(1))
    await run_next_night(database, clock, settings)
    records, solutions = await query_rows(database, RECORDS), await query_rows(database, SOLUTIONS)
    await outdate(database)
    await run_next_night(database, clock, settings)
    assert await query_rows(database, RECORDS) == records
    assert await query_rows(database, SOLUTIONS) == solutions
    await assert_invariants(database)


async def test_what_is_pruned_keeps_its_record_with_a_new_fingerprint(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_events(database, "s1", failed_command_events(1))
    await run_next_night(database, clock, settings)
    await outdate(database, "update session set pruned_to = 1;")
    await run_next_night(database, clock, settings)
    (record,) = await query_rows(database, RECORDS)
    assert record["fingerprint"] == "v17:sh:pytets|an older headline"
    assert record["record"]["status"] == "resolved"
    (solution,) = await query_rows(database, SOLUTIONS)
    assert solution["fingerprint"] == record["fingerprint"]
