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
NIGHTS = {"tiny": 1, "small": 5, "full": 5}
SESSIONS = {"tiny": 100, "small": 6000, "full": 20_000}  # fewer, and what any night costs is what is measured
LENGTH = {"tiny": 12, "small": 60, "full": 60}


async def measure(server: Server, scale: str) -> Report:
    """Consolidate a log once, then night after night one session in a hundred more."""
    report = Report("increment", TITLE, scale)
    clock = FrozenClock(datetime.now(UTC))
    count, length = SESSIONS[scale], LENGTH[scale]
    name = await written(server, clock, range(count), length)
    database = server.opened(name, clock)
    jobs = Nights(database, server.settings())
    clock.advance(timedelta(hours=1))
    backfill = await _timed(jobs)
    nights: list[float] = []
    for turn in range(NIGHTS[scale]):
        clock.advance(timedelta(days=1))
        first = count + turn * (count // 100)
        for number in range(first, first + count // 100):
            async with database.transaction(flushed=False) as conn:
                await made.write(conn, number, length, now=clock.now())
        clock.advance(timedelta(hours=1))
        nights.append(await _timed(jobs))
    await database.close()
    await server.drop(name)
    report.add("sessions", count, f"of {length} events")
    report.add("night with 1% new / full backfill", statistics.median(nights) / backfill, "of its time", at_most=0.02)
    report.add("full backfill", backfill, "s")
    report.add("night with 1% new", statistics.median(nights), f"s, of {len(nights)}")
    report.add("full backfill, events a second", count * length / backfill)
    return report


async def _timed(jobs: Nights) -> float:
    started = time.perf_counter()
    done = await jobs.run_now("consolidation")
    assert done["status"] == "done", done
    return time.perf_counter() - started
