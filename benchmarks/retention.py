"""Dropping a day of learned events, alone and as the whole retention job, against DELETE of the same events."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime, timedelta

from benchmarks import made
from benchmarks.report import Report, by_turns, ratio
from benchmarks.server import Server
from consolidator.clock import FrozenClock
from consolidator.database import partitions
from consolidator.jobs.retention import prune

TITLE = "dropping a day of events, against DELETE of the same"
ROUNDS = {"tiny": 1, "small": 5, "full": 5}
SESSIONS = {"tiny": 5, "small": 500, "full": 5000}
LENGTH = 200
KEPT = timedelta(days=30)
# Copies of the made-up session, each under a name of its own, all of them learned from.
COPY_SESSIONS = """
insert into session (id, agent, root_id, status, head, consolidated_to, created_at, last_event_at, last_occurred_at)
select 'old-' || n, agent, 'old-' || n, 'ended', head, head, created_at, last_event_at, last_occurred_at
from session cross join generate_series(1, %(count)s) as n where id = %(id)s"""
COPY_EVENTS = """
insert into event (session_id, seq, event_type, data, created_at, consolidated_at, task_id, tool_name)
select 'old-' || n, seq, event_type, data, created_at, created_at, task_id, tool_name
from event cross join generate_series(1, %(count)s) as n where session_id = %(id)s"""


async def measure(server: Server, scale: str) -> Report:
    """Drop, prune and delete by turns, each on a copy of the same database."""
    report = Report("retention", TITLE, scale)
    clock = FrozenClock(datetime.now(UTC) - KEPT - timedelta(days=2))
    log, part, count = await _old_day(server, clock, SESSIONS[scale])
    clock.advance(KEPT + timedelta(days=2))

    async def drop() -> float:
        async with server.database(clock, like=log) as database, database.connection() as conn:
            started = time.perf_counter()
            await partitions.drop(conn, part)
            return time.perf_counter() - started

    async def job() -> float:
        async with server.database(clock, like=log) as database:
            started = time.perf_counter()
            done = await prune(database, older_than=KEPT)
            assert part in done.partitions, done
            return time.perf_counter() - started

    async def delete() -> float:
        async with server.database(clock, like=log) as database, database.connection() as conn:
            started = time.perf_counter()
            cursor = await conn.execute("delete from event where created_at < %s", [clock.now() - KEPT])
            assert cursor.rowcount == count, cursor.rowcount
            return time.perf_counter() - started

    dropped, pruned, deleted = await by_turns(ROUNDS[scale], drop, job, delete)
    report.add("events of the day", count, f"in {SESSIONS[scale]:,} sessions")
    report.add("dropping the day / DELETE", ratio(deleted, dropped), "x faster", at_least=10)
    report.add("the whole job / DELETE", ratio(deleted, pruned), "x faster")
    report.add("dropping the day", statistics.median(dropped), "s")
    report.add("the whole job", statistics.median(pruned), "s")
    report.add("DELETE", statistics.median(deleted), "s")
    await server.drop(log)
    return report


async def _old_day(server: Server, clock: FrozenClock, count: int) -> tuple[str, str, int]:
    """Return a database with a day of learned events, the name of the day's partition, and how many they are."""
    name = await server.prepared()
    database = server.opened(name, clock)
    async with database.transaction() as conn:
        await partitions.ensure(conn, clock.now())
        values = {"id": await made.write(conn, 0, LENGTH, now=clock.now()), "count": count}
        await conn.execute(COPY_SESSIONS, values)
        await conn.execute(COPY_EVENTS, values)
        await conn.execute("select set_config('consolidator.erase', %(id)s, true)", values)
        await conn.execute("delete from event where session_id = %(id)s", values)
        await conn.execute("delete from session where id = %(id)s", values)
    async with database.connection() as conn:
        await conn.execute("vacuum analyze")
    await database.close()
    return name, f"event_{clock.now():%Y%m%d}", count * LENGTH
