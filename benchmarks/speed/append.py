"""One event appended durably, against a bare INSERT of the same row on the same server."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime

from benchmarks.harness.report import Report, TimedAction, median_ratio, run_interleaved
from benchmarks.harness.server import BenchmarkServer
from benchmarks.harness.synthetic_sessions import generate_tool_result
from consolidator.database import partitions
from consolidator.database.partitions import Connection
from consolidator.store.log import events
from consolidator.store.sessions import sessions

TITLE = "one event durably, against a bare INSERT of the same row"
ROUNDS = {"tiny": 5, "small": 120, "full": 600}
APPENDS = {"tiny": 10, "small": 20, "full": 20}
CREATE_PLAIN_TABLE = """
create table plain (
    id bigint default nextval('event_id_seq') not null, session_id text not null, seq bigint not null,
    event_type text not null, data jsonb not null, created_at timestamptz not null, consolidated_at timestamptz,
    task_id text, tool_name text, primary key (session_id, seq, created_at)
)"""
INSERT_PLAIN = (
    "insert into plain (session_id, seq, event_type, data, created_at, task_id, tool_name) "
    "values (%s, %s, %s, %s::jsonb, %s, %s, %s)"
)


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Append to a session, and insert into a plain table with the same columns and primary key."""
    report = Report("append", TITLE, scale)
    rounds, count = ROUNDS[scale], APPENDS[scale]
    async with server.open_database() as database, database.connection() as conn, database.connection() as other_conn:
        now = database.clock.now()
        await partitions.ensure_ahead(conn, now)
        await conn.execute(CREATE_PLAIN_TABLE)
        await sessions.open_session(conn, {"id": "s", "agent": "coder"}, now=now)
        append, insert = appender(conn, count), inserter(other_conn, count)
        await run_interleaved(2, append, insert)
        ours, theirs = await run_interleaved(rounds, append, insert)
        for each_conn in (conn, other_conn):
            await each_conn.execute("set synchronous_commit = off")
        ours_off, theirs_off = await run_interleaved(rounds, append, insert)
    report.add("append / INSERT", median_ratio(theirs, ours), "of its rate", at_least=0.65)
    report.add("append", count / statistics.median(ours), "events/s")
    report.add("INSERT", count / statistics.median(theirs), "events/s")
    report.add("append without waiting for the disk", count / statistics.median(ours_off), "events/s")
    report.add("INSERT without waiting for the disk", count / statistics.median(theirs_off), "events/s")
    ratio = median_ratio(theirs_off, ours_off)
    report.add("append / INSERT without waiting for the disk", ratio, "of its rate", at_least=0.40)
    return report


def appender(conn: Connection, count: int) -> TimedAction:
    """Return an action that appends `count` events, one after another."""

    async def append() -> float:
        event = generate_tool_result(0)
        started = time.perf_counter()
        for _ in range(count):
            await events.append(conn, "s", [event], now=datetime.now(UTC))
        return time.perf_counter() - started

    return append


def inserter(conn: Connection, count: int) -> TimedAction:
    """Return an action that inserts `count` rows into the plain table, one after another."""
    seq = 0

    async def insert() -> float:
        nonlocal seq
        row = events.prepare(generate_tool_result(0))
        started = time.perf_counter()
        for _ in range(count):
            seq += 1
            now = datetime.now(UTC)
            values = ("s", seq, row.type, row.data, now, row.task_id, row.tool_name)
            await conn.execute(INSERT_PLAIN, values)
        return time.perf_counter() - started

    return insert
