"""Dropping a day of learned events, alone and as the whole retention job, against DELETE of the same events."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime, timedelta

from benchmarks.harness import synthetic_sessions
from benchmarks.harness.report import Report, median_ratio, run_interleaved
from benchmarks.harness.server import BenchmarkServer
from consolidator.clock import FrozenClock
from consolidator.database import partitions
from consolidator.jobs.retention import prune

TITLE = "dropping a day of events, against DELETE of the same"
ROUNDS = {"tiny": 1, "small": 5, "full": 5}
SESSIONS = {"tiny": 5, "small": 500, "full": 5000}
LENGTH = 200
RETENTION = timedelta(days=30)
# Copies of the synthetic session, each with a name of its own; all of them count as learned from.
COPY_SESSIONS = """
insert into session (id, agent, root_id, status, head, consolidated_to, created_at, last_event_at, last_occurred_at)
select 'old-' || n, agent, 'old-' || n, 'ended', head, head, created_at, last_event_at, last_occurred_at
from session cross join generate_series(1, %(count)s) as n where id = %(id)s"""
COPY_EVENTS = """
insert into event (session_id, seq, event_type, data, created_at, consolidated_at, task_id, tool_name)
select 'old-' || n, seq, event_type, data, created_at, created_at, task_id, tool_name
from event cross join generate_series(1, %(count)s) as n where session_id = %(id)s"""


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Drop the day, run the job and delete the events, each on a copy of the same database."""
    report = Report("retention", TITLE, scale)
    clock = FrozenClock(datetime.now(UTC) - RETENTION - timedelta(days=2))
    log, partition, count = await _create_old_day(server, clock, SESSIONS[scale])
    clock.advance(RETENTION + timedelta(days=2))

    async def drop_day() -> float:
        async with server.open_database(clock, template=log) as database, database.connection() as conn:
            await conn.execute("update session set pruned_to = consolidated_to")
            started = time.perf_counter()
            await partitions.drop(conn, partition)
            return time.perf_counter() - started

    async def run_job() -> float:
        async with server.open_database(clock, template=log) as database:
            started = time.perf_counter()
            pruned = await prune(database, older_than=RETENTION)
            assert partition in pruned.partitions, pruned
            return time.perf_counter() - started

    async def delete_events() -> float:
        async with server.open_database(clock, template=log) as database, database.connection() as conn:
            await conn.execute("update session set pruned_to = consolidated_to")  # else the guards keep its events
            started = time.perf_counter()
            cursor = await conn.execute("delete from event where created_at < %s", [clock.now() - RETENTION])
            assert cursor.rowcount == count, cursor.rowcount
            return time.perf_counter() - started

    drop_seconds, job_seconds, delete_seconds = await run_interleaved(ROUNDS[scale], drop_day, run_job, delete_events)
    report.add("events of the day", count, f"in {SESSIONS[scale]:,} sessions")
    target = 10 if scale == "full" else None  # to drop a day takes as long for one event as for many
    report.add("dropping the day / DELETE", median_ratio(delete_seconds, drop_seconds), "x faster", at_least=target)
    report.add("the whole job / DELETE", median_ratio(delete_seconds, job_seconds), "x faster")
    report.add("dropping the day", statistics.median(drop_seconds), "s")
    report.add("the whole job", statistics.median(job_seconds), "s")
    report.add("DELETE", statistics.median(delete_seconds), "s")
    await server.drop_database(log)
    return report


async def _create_old_day(server: BenchmarkServer, clock: FrozenClock, count: int) -> tuple[str, str, int]:
    """Create a database with a day of learned events; return its name, the day's partition, and the event count."""
    name = await server.create_migrated_database()
    database = server.connect(name, clock)
    async with database.transaction() as conn:
        await partitions.ensure_ahead(conn, clock.now())
        values = {"id": await synthetic_sessions.write_session(conn, 0, LENGTH, now=clock.now()), "count": count}
        await conn.execute(COPY_SESSIONS, values)
        await conn.execute(COPY_EVENTS, values)
        await conn.execute("select erase_session(%(id)s, 'first', 0, 'it was copied', now())", values)
    async with database.connection() as conn:
        await conn.execute("vacuum analyze")
    await database.close()
    return name, f"event_{clock.now():%Y%m%d}", count * LENGTH
