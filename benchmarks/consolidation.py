"""A night without a model, from log to stamp, against stamping the same events alone."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime, timedelta

from benchmarks import made
from benchmarks.report import Report, by_turns, ratio
from benchmarks.server import Server
from consolidator.clock import FrozenClock
from consolidator.jobs.nightly import Nights
from consolidator.store.log import events, sessions

TITLE = "a night from log to stamp, against stamping the same events alone"
ROUNDS = {"tiny": 1, "small": 5, "full": 5}
SESSIONS = {"tiny": 4, "small": 150, "full": 1000}
LENGTH = 200
AT_ONCE = 16  # sessions that one transaction stamps, as those of a night do


async def measure(server: Server, scale: str) -> Report:
    """Run nights and stampings by turns, each on a copy of the same log."""
    report = Report("consolidation", TITLE, scale)
    clock = FrozenClock(datetime.now(UTC))
    log = await written(server, clock, range(SESSIONS[scale]), LENGTH)
    clock.advance(timedelta(hours=1))

    async def night() -> float:
        async with server.database(clock, like=log) as database:
            started = time.perf_counter()
            done = await Nights(database, server.settings()).run_now("consolidation")
            assert done["status"] == "done", done
            return time.perf_counter() - started

    async def at_once() -> float:
        async with server.database(clock, like=log) as database, database.connection() as conn:
            started = time.perf_counter()
            await conn.execute("update event set consolidated_at = %s where consolidated_at is null", [clock.now()])
            return time.perf_counter() - started

    async def by_session() -> float:
        async with server.database(clock, like=log) as database, database.connection() as conn:
            due = [events.Span(r["id"], 0, r["events"]) for r in await sessions.due(conn)]
            started = time.perf_counter()
            for first in range(0, len(due), AT_ONCE):
                async with conn.transaction():
                    await events.stamp(conn, due[first : first + AT_ONCE], now=clock.now())
            return time.perf_counter() - started

    nights, stamps, stamped = await by_turns(ROUNDS[scale], night, at_once, by_session)
    count = SESSIONS[scale] * LENGTH
    report.add("events", count, f"in {SESSIONS[scale]:,} sessions")
    report.add("night / stamping as a night does", ratio(stamped, nights), "of its rate", at_least=0.15)
    report.add("night / stamping in one statement", ratio(stamps, nights), "of its rate")
    report.add("night", count / statistics.median(nights), "events/s")
    report.add("stamping as a night does", count / statistics.median(stamped), "events/s")
    report.add("stamping in one statement", count / statistics.median(stamps), "events/s")
    await server.drop(log)
    return report


async def written(server: Server, clock: FrozenClock, numbers: range, length: int, like: str | None = None) -> str:
    """Return the name of a database whose log holds made-up sessions, nothing of them learned from."""
    name = await server.create(like=like) if like else await server.prepared()
    database = server.opened(name, clock)
    for number in numbers:
        async with database.transaction(flushed=False) as conn:
            await made.write(conn, number, length, now=clock.now())
    async with database.connection() as conn:
        await conn.execute("vacuum analyze")
    await database.close()
    return name
