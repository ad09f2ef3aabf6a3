"""A night without a model, from log to stamp, against stamping the same events alone, and on two cores against one."""

from __future__ import annotations

import statistics
import time
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import LiteralString

from benchmarks.harness.cores import count_usable_cores, on_cores
from benchmarks.harness.log_database import create_log_database
from benchmarks.harness.processor_time import own_processor_seconds
from benchmarks.harness.report import Report, median_ratio, run_interleaved
from benchmarks.harness.server import BenchmarkServer
from consolidator.clock import FrozenClock
from consolidator.jobs.nightly import JobRunner
from consolidator.store.log import events
from consolidator.store.sessions import sessions

TITLE = "a night from log to stamp, against stamping the same events alone"
ROUNDS = {"tiny": 1, "small": 5, "full": 5}
SESSIONS = {"tiny": 4, "small": 150, "full": 1000}
LENGTH = 200
STAMP: LiteralString = """
update event set consolidated_at = now()
where session_id = %(session)s and seq > %(after)s and seq <= %(upto)s and consolidated_at is null
  and created_at >= %(low)s and created_at <= %(high)s"""
BATCH = 16  # sessions that one transaction stamps, as a night does


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Run nights and stampings, each on a copy of the same log."""
    report = Report("consolidation", TITLE, scale)
    clock = FrozenClock(datetime.now(UTC))
    log = await create_log_database(server, clock, range(SESSIONS[scale]), LENGTH)
    clock.advance(timedelta(hours=1))

    seconds_of_processor: list[float] = []

    async def run_night(cores: int | None = None) -> float:
        async with server.open_database(clock, template=log) as database:
            async with database.connection() as conn:
                backend = conn.info.backend_pid
            with nullcontext() if cores is None else on_cores(cores, backend):
                started, processor = time.perf_counter(), own_processor_seconds()
                result = await JobRunner(database, server.default_settings()).run_now("consolidation")
                assert result["status"] == "done", result
                seconds_of_processor.append(own_processor_seconds() - processor)
                return time.perf_counter() - started

    async def run_on_one_core() -> float:
        return await run_night(1)

    async def run_on_two_cores() -> float:
        return await run_night(2)

    async def stamp_in_one_statement() -> float:
        async with server.open_database(clock, template=log) as database, database.connection() as conn:
            started = time.perf_counter()
            await conn.execute("update event set consolidated_at = %s where consolidated_at is null", [clock.now()])
            return time.perf_counter() - started

    async def stamp_as_a_night() -> float:
        async with server.open_database(clock, template=log) as database, database.connection() as conn:
            spans = [events.Span(row.id, 0, row.events) for row in await sessions.list_due(conn)]
            started = time.perf_counter()
            for first in range(0, len(spans), BATCH):
                async with conn.transaction(), conn.cursor() as cursor:
                    await cursor.executemany(STAMP, [span.values() for span in spans[first : first + BATCH]])
            return time.perf_counter() - started

    nights, in_one, as_nights = await run_interleaved(
        ROUNDS[scale], run_night, stamp_in_one_statement, stamp_as_a_night
    )
    count = SESSIONS[scale] * LENGTH
    processor = statistics.median(seconds_of_processor)
    report.add("events", count, f"in {SESSIONS[scale]:,} sessions")
    report.add("night / stamping as a night does", median_ratio(as_nights, nights), "of its rate", at_least=0.10)
    report.add("night / stamping in one statement", median_ratio(in_one, nights), "of its rate")
    if server.is_local and count_usable_cores() >= 2:
        one, two = await run_interleaved(ROUNDS[scale], run_on_one_core, run_on_two_cores)
        report.add("night on two cores / on one", median_ratio(one, two), "of its rate", at_least=2.0)
    report.add("night", count / statistics.median(nights), "events/s")
    report.add("night, processor time without the server's", processor / count * 1e6, "µs/event")
    report.add("stamping as a night does", count / statistics.median(as_nights), "events/s")
    report.add("stamping in one statement", count / statistics.median(in_one), "events/s")
    await server.drop_database(log)
    return report
