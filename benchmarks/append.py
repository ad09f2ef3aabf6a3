"""One event appended durably through the write door, against a bare INSERT of the same row on the same server."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime

from benchmarks.made import tool_result
from benchmarks.report import Report, Timed, by_turns, ratio
from benchmarks.server import Server
from consolidator.database import partitions
from consolidator.database.partitions import Connection
from consolidator.store.log import events, sessions

TITLE = "one event durably, against a bare INSERT of the same row"
ROUNDS = {"tiny": 5, "small": 120, "full": 600}
APPENDS = {"tiny": 10, "small": 20, "full": 20}
PLAIN = """
create table plain (
    id bigint default nextval('event_id_seq') not null, session_id text not null, seq bigint not null,
    event_type text not null, data jsonb not null, created_at timestamptz not null, consolidated_at timestamptz,
    task_id text, tool_name text, primary key (session_id, seq, created_at)
)"""
INSERT = (
    "insert into plain (session_id, seq, event_type, data, created_at, task_id, tool_name) "
    "values (%s, %s, %s, %s::jsonb, %s, %s, %s)"
)


async def measure(server: Server, scale: str) -> Report:
    """Append by turns through the door and into a plain table with the same columns and primary key."""
    report = Report("append", TITLE, scale)
    rounds, count = ROUNDS[scale], APPENDS[scale]
    async with server.database() as database, database.connection() as conn, database.connection() as other:
        now = database.clock.now()
        await partitions.ensure(conn, now)
        await conn.execute(PLAIN)
        await sessions.open_session(conn, {"id": "s", "agent": "coder"}, now=now)
        through, plain = door(conn, count), bare(other, count)
        await by_turns(2, through, plain)
        ours, theirs = await by_turns(rounds, through, plain)
        for one in (conn, other):
            await one.execute("set synchronous_commit = off")
        ours_off, theirs_off = await by_turns(rounds, through, plain)
    report.add("append / INSERT", ratio(theirs, ours), "of its rate", at_least=0.65)
    report.add("append", count / statistics.median(ours), "events/s")
    report.add("INSERT", count / statistics.median(theirs), "events/s")
    report.add("append without waiting for the disk", count / statistics.median(ours_off), "events/s")
    report.add("INSERT without waiting for the disk", count / statistics.median(theirs_off), "events/s")
    report.add("their ratio without waiting for the disk", ratio(theirs_off, ours_off), "of its rate")
    return report


def door(conn: Connection, count: int) -> Timed:
    """Return the appending of so many events, one after another."""

    async def append() -> float:
        new = tool_result(0)
        started = time.perf_counter()
        for _ in range(count):
            await events.append(conn, "s", [new], now=datetime.now(UTC))
        return time.perf_counter() - started

    return append


def bare(conn: Connection, count: int) -> Timed:
    """Return the writing of so many bare rows, one after another."""
    written = 0

    async def insert() -> float:
        nonlocal written
        row = events.prepare(tool_result(0))
        started = time.perf_counter()
        for _ in range(count):
            written += 1
            moment = datetime.now(UTC)
            values = ("s", written, row.type, row.data, moment, row.task_id, row.tool_name)
            await conn.execute(INSERT, values)
        return time.perf_counter() - started

    return insert
