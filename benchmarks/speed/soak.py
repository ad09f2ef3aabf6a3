"""Thirty days of a busy installation: each day's sessions, a night that learns from them, and retention.

With `--keep DIR` the days that are done stay there, and the next call goes on with the one that follows.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from benchmarks.harness import synthetic_sessions
from benchmarks.harness.peak_memory import peak_megabytes
from benchmarks.harness.processor_time import own_processor_seconds, server_processor_seconds
from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer
from benchmarks.harness.synthetic_sessions import START
from consolidator.clock import Clock, FrozenClock
from consolidator.database import Database, upgrade
from consolidator.jobs.nightly import JobRunner
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.memory.recall import recall

TITLE = "days of sessions, nights and retention, one after another"
DATABASE = "consolidator_bench_soak"


class Size(NamedTuple):
    """How much is written, and how long it is kept."""

    days: int
    sessions: int  # a day
    length: int  # events of a session
    retention: int  # days


SIZES = {"tiny": Size(3, 12, 30, 1), "small": Size(6, 400, 50, 3), "full": Size(30, 6_667, 50, 10)}
QUESTIONS = {"tiny": 8, "small": 100, "full": 200}
BATCH = 50  # sessions written in one transaction
DAY = timedelta(days=1)
RESULTS = "create table if not exists public.soak_day (day integer primary key, figures jsonb not null)"
LAST_WRITTEN = "select coalesce(max(substr(id, 6)::bigint), -1) from consolidator.session where id like 'made-%'"
SIZE = """
select pg_database_size(current_database()),
       (select coalesce(sum(pg_total_relation_size(inhrelid)), 0) from pg_inherits
        where inhparent = 'consolidator.event'::regclass),
       (select count(*) from consolidator.event),
       (select count(*) from consolidator.session)"""
FACTS = "select sentence from consolidator.fact where superseded_at is null order by id limit 400"


@dataclass(frozen=True, slots=True)
class Day:
    """What one day, its night and its retention took, and what was there afterwards."""

    events: int  # written so far
    events_kept: int
    sessions: int
    database_mb: float
    log_mb: float
    writing_seconds: float
    night_seconds: float
    night_processor_seconds: float  # of this process and its children, and of the server
    night_peak_mb: float
    retention_seconds: float
    recall_median_ms: float
    recall_p95_ms: float


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Live through the days, and compare the last nights with the first after retention began to prune."""
    report, size = Report("soak", TITLE, scale), SIZES[scale]
    clock = FrozenClock(START)
    async with _open_database(server, clock) as database:
        days = await _load_days(database)
        for number in range(len(days), size.days):
            days.append(await _live_through(database, server, clock, number, size, QUESTIONS[scale]))
            await _save_day(database, number, days[-1])
            print(f"day {number + 1} of {size.days}: {json.dumps(asdict(days[-1]))}", file=sys.stderr, flush=True)
    _summarize(report, days[: size.days], size)
    return report


def _summarize(report: Report, days: Sequence[Day], size: Size) -> None:
    first, last = days[min(size.retention, len(days) - 1)], days[-1]
    report.add("events written", last.events, f"in {last.sessions:,} sessions")
    report.add("events kept", last.events_kept)
    report.add("database", last.database_mb, "MB")
    report.add("log, a kept event", last.log_mb * 1e6 / max(last.events_kept, 1), "bytes")
    others = (last.database_mb - last.log_mb) * 1e6
    report.add("everything else, a session ever", others / max(last.sessions, 1), "bytes")
    report.add("last night", last.night_seconds, "s")
    report.add("last night, processor time an event", _microseconds(last, size), "us")
    ratio = last.night_processor_seconds / first.night_processor_seconds
    report.add("last night / the first after pruning began, of processor time", ratio)
    report.add("last night, peak of memory", last.night_peak_mb, "MB")
    report.add("last retention", last.retention_seconds, "s")
    report.add("recall after the last night, median", last.recall_median_ms, "ms")
    report.add("recall after the last night, p95", last.recall_p95_ms, "ms")
    report.details["days"] = [asdict(day) for day in days]


def _microseconds(day: Day, size: Size) -> float:
    return day.night_processor_seconds / (size.sessions * size.length) * 1e6


async def _live_through(
    database: Database, server: BenchmarkServer, clock: FrozenClock, number: int, size: Size, questions: int
) -> Day:
    """Write a day's sessions, run the night and retention after it, and ask memory."""
    clock.set(START + number * DAY)
    started = time.perf_counter()
    await _write_day(database, clock, number, size)
    writing = time.perf_counter() - started
    clock.set(START + (number + 1) * DAY + timedelta(hours=3))
    settings = server.default_settings().model_copy(update={"retention_days": size.retention})
    jobs = JobRunner(database, settings)
    _reset_peak()
    processor, started = await _processor_seconds(database), time.perf_counter()
    result = await jobs.run_now("consolidation")
    assert result["status"] == "done", result
    night, night_processor = time.perf_counter() - started, await _processor_seconds(database) - processor
    peak = peak_megabytes()
    started = time.perf_counter()
    result = await jobs.run_now("retention")
    assert result["status"] == "done", result
    retention = time.perf_counter() - started
    milliseconds = sorted(await _ask(database, number, questions))
    async with database.connection() as conn:
        row = await (await conn.execute(SIZE)).fetchone()
    assert row is not None
    return Day(
        events=(number + 1) * size.sessions * size.length,
        events_kept=row[2],
        sessions=row[3],
        database_mb=round(row[0] / 1e6, 1),
        log_mb=round(float(row[1]) / 1e6, 1),
        writing_seconds=round(writing, 1),
        night_seconds=round(night, 2),
        night_processor_seconds=round(night_processor, 2),
        night_peak_mb=round(peak, 1),
        retention_seconds=round(retention, 2),
        recall_median_ms=round(milliseconds[len(milliseconds) // 2], 1),
        recall_p95_ms=round(milliseconds[int(len(milliseconds) * 0.95)], 1),
    )


async def _write_day(database: Database, clock: FrozenClock, number: int, size: Size) -> None:
    """Write the sessions of a day that are not there yet, spread over twenty hours."""
    async with database.connection() as conn:
        row = await (await conn.execute(LAST_WRITTEN)).fetchone()
    assert row is not None
    first = max(number * size.sessions, row[0] + 1)
    end = (number + 1) * size.sessions
    for batch in range(first, end, BATCH):
        async with database.transaction(flushed=False) as conn:
            for session in range(batch, min(batch + BATCH, end)):
                began_at = clock.now() + timedelta(hours=20) * (session - number * size.sessions) / size.sessions
                await synthetic_sessions.write_session(
                    conn, session, size.length, now=clock.now() + timedelta(hours=21), began_at=began_at
                )


async def _ask(database: Database, number: int, questions: int) -> list[float]:
    """Ask memory for known facts and for what people asked; return the milliseconds of each answer."""
    rng = random.Random(number)
    async with database.connection() as conn:
        sentences = [row[0] for row in await (await conn.execute(FACTS)).fetchall()]
    asked = [*rng.sample(sentences, min(len(sentences), questions // 2))]
    while len(asked) < questions:
        request = synthetic_sessions.generate_session(rng.randrange(10_000), 1)[0]
        asked.append(str(request.data["text"]))
    milliseconds = []
    for turn, question in enumerate([asked[0], *asked]):
        scope = rng.randrange(synthetic_sessions.PROJECTS)
        agent, project = synthetic_sessions.agent_of(scope), synthetic_sessions.project_of(scope)
        started = time.perf_counter()
        await recall(database, question, MemoryScope(agent=agent, project=project))
        if turn:  # the first one opens connections
            milliseconds.append((time.perf_counter() - started) * 1000)
    return milliseconds


async def _processor_seconds(database: Database) -> float:
    return own_processor_seconds() + await server_processor_seconds(database)


def _reset_peak() -> None:
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")


@asynccontextmanager
async def _open_database(server: BenchmarkServer, clock: FrozenClock) -> AsyncIterator[Database]:
    """Yield a database of its own, or the one that is kept, with the days that are done."""
    if not server.keeps:
        async with server.open_database(clock) as database:
            await _prepare(database)
            yield database
        return
    with psycopg.connect(server.dsn, autocommit=True) as conn:
        if not conn.execute("select 1 from pg_database where datname = %s", [DATABASE]).fetchone():
            conn.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
    dsn = make_conninfo(server.dsn, dbname=DATABASE)
    await asyncio.to_thread(lambda: upgrade.upgrade(dsn, Clock()))
    database = Database(dsn, clock)
    try:
        await _prepare(database)
        yield database
    finally:
        await database.close()


async def _prepare(database: Database) -> None:
    async with database.connection() as conn:
        await conn.execute(RESULTS)


async def _load_days(database: Database) -> list[Day]:
    async with database.connection() as conn:
        rows = await (await conn.execute("select figures from public.soak_day order by day")).fetchall()
    return [Day(**row[0]) for row in rows]


async def _save_day(database: Database, number: int, day: Day) -> None:
    async with database.connection() as conn:
        await conn.execute("insert into public.soak_day values (%s, %s)", [number, json.dumps(asdict(day))])
