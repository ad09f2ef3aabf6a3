"""Prepared rows through `load_bulk` against bare COPY of the same rows; and whole imports of each format.

An import's peak of memory is taken in a process of its own, on a small folder and on a large one.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import logs
from benchmarks.append import PLAIN
from benchmarks.made import prepared
from benchmarks.memory import peak_megabytes
from benchmarks.report import Report, Timed, by_turns, ratio
from benchmarks.server import Server
from consolidator.clock import Clock
from consolidator.database import Database, partitions
from consolidator.database.partitions import Connection
from consolidator.formats import FORMATS
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.store.log import events, sessions

TITLE = "prepared rows against COPY of the same rows, and imports of each format"
ROUNDS = {"tiny": 5, "small": 15, "full": 31}
ROWS = {"tiny": 100, "small": 1000, "full": 1000}  # an import's buffer holds a thousand events
MANY = {"tiny": 200, "small": 10_000, "full": 100_000}
FORMAT_BYTES = {"tiny": 50_000, "small": 4_000_000, "full": 20_000_000}
FOLDERS = {"tiny": (100_000, 400_000), "small": (20_000_000, 100_000_000), "full": (50_000_000, 500_000_000)}
COPY = "copy plain (session_id, seq, event_type, data, created_at, task_id, tool_name) from stdin"


async def measure(server: Server, scale: str) -> Report:
    """Measure loading, then importing."""
    report = Report("bulk", TITLE, scale)
    await _loading(server, scale, report)
    with tempfile.TemporaryDirectory(prefix="consolidator-bench-") as folder:
        samples = await logs.Samples.gathered(server, Path(folder) / "samples")
        async with server.database() as database:
            for name in FORMATS:
                await _format(database, samples, name, Path(folder) / name, FORMAT_BYTES[scale], report)
        await _memory(server, samples, Path(folder), scale, report)
    return report


async def _loading(server: Server, scale: str, report: Report) -> None:
    async with server.database() as database, database.connection() as conn:
        await partitions.ensure(conn, database.clock.now())
        await conn.execute(PLAIN)
        for count, target in ((ROWS[scale], 0.5), (MANY[scale], None)):
            rows = prepared(1, count)
            loader, copier = _Loader(conn, database.clock, rows), _copier(conn, database.clock, rows)
            await by_turns(1, loader.load, copier)
            rounds = ROUNDS[scale] if target else 5
            ours, theirs = await by_turns(rounds, loader.load, copier)
            what = f"of {count:,} rows"
            report.add(f"load_bulk / COPY {what}", ratio(theirs, ours), "of its rate", at_least=target)
            report.add(f"load_bulk {what}", count / statistics.median(ours), "events/s")
            report.add(f"COPY {what}", count / statistics.median(theirs), "events/s")


class _Loader:
    """Loads rows into a new session each time, in one transaction."""

    def __init__(self, conn: Connection, clock: Clock, rows: Sequence[events.Prepared]) -> None:
        self._conn, self._clock, self._rows = conn, clock, rows
        self._count = 0

    async def load(self) -> float:
        self._count += 1
        name = f"load-{len(self._rows)}-{self._count}"
        now = self._clock.now()
        await sessions.open_session(self._conn, {"id": name, "agent": "coder"}, now=now)
        started = time.perf_counter()
        async with self._conn.transaction():
            await events.load_bulk(self._conn, name, self._rows, now=now)
        return time.perf_counter() - started


def _copier(conn: Connection, clock: Clock, rows: Sequence[events.Prepared]) -> Timed:
    count = 0

    async def load() -> float:
        nonlocal count
        count += 1
        name, now = f"copy-{len(rows)}-{count}", clock.now()
        started = time.perf_counter()
        async with conn.transaction(), conn.cursor() as cursor, cursor.copy(COPY) as copy:
            for seq, row in enumerate(rows, 1):
                await copy.write_row((name, seq, row.type, row.data, now, row.task_id, row.tool_name))
        return time.perf_counter() - started

    return load


async def _format(
    database: Database, samples: logs.Samples, name: str, folder: Path, size: int, report: Report
) -> None:
    """Import a folder of one format and tell its speed; say so where there is nothing to make it from."""
    written = await asyncio.to_thread(samples.fill, folder, name, size)
    if not written:
        report.notes.append(f"{name}: skipped, there are no samples of it here")
        return
    started = time.perf_counter()
    done = await import_sources(database, [ImportSource(folder, FORMATS[name])])
    seconds = time.perf_counter() - started
    report.add(f"import {name}", written / 1e6 / seconds, f"MB/s, {done.events / seconds:,.0f} events/s")
    if done.repeated or done.problem_count:
        report.notes.append(f"{name}: {done.repeated} events repeated, {done.problem_count} problems")


async def _memory(server: Server, samples: logs.Samples, folder: Path, scale: str, report: Report) -> None:
    """Import a folder and one several times its size, each in a process of its own."""
    name = "claude-code" if samples.has("claude-code") else "consolidator"
    peaks = []
    for which, size in zip(("small", "large"), FOLDERS[scale], strict=True):
        place = folder / f"{size}"
        written = await asyncio.to_thread(samples.fill, place, name, size)
        async with server.database() as database:
            child = [sys.executable, "-m", "benchmarks.bulk", database.dsn, str(place)]
            process = await asyncio.create_subprocess_exec(*child, stdout=asyncio.subprocess.PIPE)
            out, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"the import ended with {process.returncode}")
        told = json.loads(out)
        peaks.append(told["peak"])
        report.add(f"{which} folder of {name}", written / 1e6, "MB")
        report.add(f"its import, {which} folder", written / 1e6 / told["seconds"], "MB/s")
        report.add(f"its peak of memory, {which} folder", told["peak"], "MB")
    report.add("peak of the large / the small folder", peaks[1] / peaks[0], "", at_most=1.25)


async def _import(dsn: str, folder: Path) -> None:
    """Import a folder and print how long it took and how much memory."""
    database = Database(dsn, Clock())
    started = time.perf_counter()
    await import_sources(database, [ImportSource(folder)])
    seconds = time.perf_counter() - started
    await database.close()
    print(json.dumps({"seconds": seconds, "peak": peak_megabytes()}))


if __name__ == "__main__":
    asyncio.run(_import(sys.argv[1], Path(sys.argv[2])))
