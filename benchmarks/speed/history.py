"""Merging 100 new sessions of an agent with a long history, against the same with a short one."""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.harness.peak_memory import peak_megabytes
from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer
from benchmarks.harness.synthetic_digests import AGENT, SyntheticDigests
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.merging.agent_merge import merge_agent
from consolidator.settings import Settings
from consolidator.store.calls import scopes

TITLE = "merging 100 new sessions of one agent: a long history against a short one"
# Sessions of the histories. With 200,000 each of 100 projects has more than its window; with 10,000 none has.
SESSIONS = {"tiny": (60, 240), "small": (3000, 30_000), "full": (10_000, 200_000, 1_000_000)}
PROJECTS = {"tiny": 4, "small": 100, "full": 100}  # where there are several
NIGHTS = {"tiny": 1, "small": 5, "full": 7}
NEW = 100
LENGTH = 16  # events of a session, of which some six are calls
DISTINCT = 211  # sessions folded from events; a prime, so that each project has all of them
_BATCH = 10_000  # digests that are written at once


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Merge in turns on the two histories, each in a child process, so that its peak memory is that of merges."""
    report = Report("history", TITLE, scale)
    peak = 0.0
    for projects, spreads in ((1, [1]), (PROJECTS[scale], [1, PROJECTS[scale]])):
        merges = [await _Merges.start(server, count, projects) for count in SESSIONS[scale]]
        for news in spreads:
            name = f"{projects} projects, news in {news}" if projects > 1 else "one project"
            await _compare(report, name, merges, news, NIGHTS[scale])
        for child in merges:
            peak = max(peak, await child.end())
    report.add("peak of memory", peak, "MB", at_most=400)
    return report


async def _compare(report: Report, name: str, merges: Sequence[_Merges], news: int, nights: int) -> None:
    """Merge new sessions on a short, a longer and a long history, in turns."""
    measured: dict[int, list[dict[str, float]]] = {child.count: [] for child in merges}
    for _ in range(nights):
        for child in merges:
            measured[child.count].append(await child.merge_news(news))
    short, *middle, long = (
        {key: statistics.median(night[key] for night in nights_of) for key in ("seconds", "processor")}
        for nights_of in measured.values()
    )
    report.add(f"{name}: long / short", long["seconds"] / short["seconds"], "of its time", at_most=1.5)
    report.add(f"{name}: long / short, processor", long["processor"] / short["processor"], "without the server's")
    for full in middle:
        ratio = long["seconds"] / full["seconds"]
        report.add(f"{name}: long / {merges[1].count:,}", ratio, "of its time, with full windows", at_most=1.5)
    report.add(f"{name}: {NEW} new on {merges[-1].count:,}", long["seconds"], "s")


@dataclass(slots=True)
class _Merges:
    """A history of so many sessions, and the process that merges what comes to it."""

    server: BenchmarkServer
    name: str  # of the database
    count: int
    process: asyncio.subprocess.Process

    @classmethod
    async def start(cls, server: BenchmarkServer, count: int, projects: int) -> _Merges:
        """Make a history of digests, and merge it once."""
        name = await server.create_migrated_database()
        database = server.connect(name, FrozenClock(datetime.now(UTC)))
        made = SyntheticDigests(DISTINCT, LENGTH, projects)
        for first in range(0, count, _BATCH):
            async with database.transaction(flushed=False) as conn:
                await made.write(conn, range(first, min(first + _BATCH, count)))
        async with database.transaction(flushed=False) as conn:
            await conn.execute(
                "insert into scope (agent, project, version) select distinct agent, project, 1 from digest"
            )
        async with database.connection() as conn:
            await conn.execute("vacuum analyze")
        await database.close()
        command = [sys.executable, "-m", "benchmarks.speed.history", database.dsn, str(server.home), str(projects)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        child = cls(server, name, count, process)
        await child.merge_news(0)
        return child

    async def merge_news(self, news: int) -> dict[str, float]:
        """Merge 100 new sessions, in so many projects; return how long that took."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{news}\n".encode())
        await self.process.stdin.drain()
        answer: dict[str, float] = json.loads(await self.process.stdout.readline())
        return answer

    async def end(self) -> float:
        """End the process and drop the history; return the peak of the process's memory in megabytes."""
        peak = (await self.merge_news(0))["peak"]
        assert self.process.stdin is not None
        self.process.stdin.close()
        await self.process.wait()
        await self.server.drop_database(self.name)
        return peak


async def _merge_in_turn(dsn: str, home: Path, projects: int) -> None:
    """Merge for each line of the input; it says in how many projects there is news, 0 for none."""
    database = Database(dsn, FrozenClock(datetime.now(UTC)))
    settings = Settings(home=home, sources=[])
    made = SyntheticDigests(DISTINCT, LENGTH, projects)
    while line := await asyncio.to_thread(sys.stdin.readline):
        if news := int(line):
            await _write_news(database, made, projects, news)
        before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        async with database.transaction() as conn:
            await merge_agent(conn, AGENT, run_id="night", now=database.clock.now(), settings=settings)
        seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(json.dumps({"seconds": seconds, "processor": processor, "peak": peak_megabytes()}), flush=True)
    await database.close()


async def _write_news(database: Database, made: SyntheticDigests, projects: int, news: int) -> None:
    async with database.transaction() as conn:
        cursor = await conn.execute("select substr(max(session_id), 6)::bigint from digest")
        last = int((await cursor.fetchone() or (0,))[0])
        first = (last // projects + 1) * projects  # of the first project
        numbers = [first + n // news * projects + n % news for n in range(NEW)]
        written = await made.write(conn, numbers)
        await scopes.touch(conn, await scopes.list_of_sessions(conn, written))


if __name__ == "__main__":
    asyncio.run(_merge_in_turn(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
