"""A night with one session in a hundred new, against the full backfill of the same log."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime, timedelta

from benchmarks.harness import synthetic_sessions
from benchmarks.harness.log_database import create_log_database
from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer
from consolidator.clock import FrozenClock
from consolidator.jobs.nightly import JobRunner

TITLE = "a night with 1% new sessions, against the full backfill"
NIGHTS = {"tiny": 1, "small": 5, "full": 5}
SESSIONS = {"tiny": 100, "small": 6000, "full": 20_000}  # with fewer, the fixed cost of a night dominates
LENGTH = {"tiny": 12, "small": 60, "full": 60}


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Consolidate a log once, then for some nights one session in a hundred more."""
    report = Report("increment", TITLE, scale)
    clock = FrozenClock(datetime.now(UTC))
    count, length = SESSIONS[scale], LENGTH[scale]
    name = await create_log_database(server, clock, range(count), length)
    database = server.connect(name, clock)
    jobs = JobRunner(database, server.default_settings())
    clock.advance(timedelta(hours=1))
    backfill = await _time_night(jobs)
    nights: list[float] = []
    for night in range(NIGHTS[scale]):
        clock.advance(timedelta(days=1))
        first = count + night * (count // 100)
        for number in range(first, first + count // 100):
            async with database.transaction(flushed=False) as conn:
                await synthetic_sessions.write_session(conn, number, length, now=clock.now())
        clock.advance(timedelta(hours=1))
        nights.append(await _time_night(jobs))
    await database.close()
    await server.drop_database(name)
    report.add("sessions", count, f"of {length} events")
    report.add("night with 1% new / full backfill", statistics.median(nights) / backfill, "of its time", at_most=0.02)
    report.add("full backfill", backfill, "s")
    report.add("night with 1% new", statistics.median(nights), f"s, of {len(nights)}")
    report.add("full backfill, events a second", count * length / backfill)
    return report


async def _time_night(jobs: JobRunner) -> float:
    """Run a night and return its seconds."""
    started = time.perf_counter()
    result = await jobs.run_now("consolidation")
    assert result["status"] == "done", result
    return time.perf_counter() - started
