"""What is asked for each event, turn, night and answer is read by an index, however large its table."""

from __future__ import annotations

from datetime import timedelta

from benchmarks.harness import synthetic_sessions
from benchmarks.speed.plans import list_hot_queries
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.settings import Settings
from tests.nights import run_next_night
from tests.plans import plan_of

SESSIONS = 12


async def test_no_hot_query_reads_a_table_whole(database: Database, clock: FrozenClock, settings: Settings) -> None:
    for number in range(SESSIONS):
        async with database.transaction() as conn:
            await synthetic_sessions.write_session(conn, number, 60, now=clock.now())
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=1))
    async with database.transaction() as conn:
        await synthetic_sessions.write_session(conn, SESSIONS, 60, now=clock.now())
    async with database.owner_connection() as conn:
        await conn.execute("analyze")
        queries = await list_hot_queries(conn, clock, SESSIONS)
        whole: dict[str, set[str]] = {}
        for name, query, values in queries:
            async with conn.transaction(force_rollback=True):
                await conn.execute("set local enable_seqscan = off")
                plan = await plan_of(conn, query, values)
            scanned = {node["Relation Name"] for node in plan if node["Node Type"] == "Seq Scan"}
            whole |= {name: scanned} if scanned else {}
    assert whole == {}
