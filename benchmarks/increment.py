"""A night with one session in a hundred new, against the full backfill of the same log."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime, timedelta

from benchmarks import made
from benchmarks.consolidation import written
from benchmarks.report import Report
from benchmarks.server import Server
from consolidator.clock import FrozenClock
from consolidator.jobs.nightly import Nights

TITLE = "a night with 1% new sessions, against the full backfill"
ROUNDS = {"tiny": 1, "small": 5, "full": 5}
SESSIONS = {"tiny": 100, "small": 1500, "full": 10_000}
LENGTH = {"tiny": 12, "small": 60, "full": 60}


async def measure(server: Server, scale: str) -> Report:
    """Consolidate a log, then nights on copies of it that have one session in a hundred more."""
    report = Report("increment", TITLE, scale)
    clock = FrozenClock(datetime.now(UTC))
    count, length = SESSIONS[scale], LENGTH[scale]
    log = await written(server, clock, range(count), length)
    nights: list[float] = []
    backfills: list[float] = []
    clock.advance(timedelta(hours=1))
    for turn in range(ROUNDS[scale]):
        async with server.database(clock, like=log) as database:
            jobs = Nights(database, server.settings())
            backfills.append(await _timed(jobs))
            clock.advance(timedelta(days=1))
            first = count + turn * (count // 100)
            for number in range(first, first + count // 100):
                async with database.transaction(flushed=False) as conn:
                    await made.write(conn, number, length, now=clock.now())
            clock.advance(timedelta(hours=1))
            nights.append(await _timed(jobs))
    shares = [night / backfill for night, backfill in zip(nights, backfills, strict=True)]
    report.add("sessions", count, f"of {length} events")
    report.add("night with 1% new / full backfill", statistics.median(shares), "of its time", at_most=0.02)
    report.add("full backfill", statistics.median(backfills), "s")
    report.add("night with 1% new", statistics.median(nights), "s")
    report.add("full backfill, events a second", count * length / statistics.median(backfills))
    await server.drop(log)
    return report


async def _timed(jobs: Nights) -> float:
    started = time.perf_counter()
    done = await jobs.run_now("consolidation")
    assert done["status"] == "done", done
    return time.perf_counter() - started
