"""Prepared rows with `load_each` against bare COPY of the same rows, and whole imports of each format.

The peak memory of an import is measured in a child process, with a small folder and with a large one.
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

from benchmarks.harness import log_samples
from benchmarks.harness.data_sets import FORMATS
from benchmarks.harness.peak_memory import peak_megabytes
from benchmarks.harness.report import Report, TimedAction, median_ratio, run_interleaved
from benchmarks.harness.server import BenchmarkServer
from benchmarks.harness.synthetic_sessions import prepare_session
from benchmarks.speed.append import CREATE_PLAIN_TABLE
from consolidator.clock import Clock
from consolidator.database import Database, partitions
from consolidator.database.partitions import Connection
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.store.log import events
from consolidator.store.sessions import sessions
from tests.unit.formats.agent_logs import LOGS, AgentLog

TITLE = "prepared rows against COPY of the same rows, and imports of each format"
ROUNDS = {"tiny": 5, "small": 15, "full": 31}
ROWS = {"tiny": 100, "small": 1000, "full": 1000}  # an import's buffer holds a thousand events
LARGE_ROWS = {"tiny": 200, "small": 10_000, "full": 100_000}
FORMAT_BYTES = {"tiny": 50_000, "small": 4_000_000, "full": 20_000_000}
BUILT_TURNS = {"tiny": 20, "small": 5_000, "full": 20_000}
FOLDER_BYTES = {"tiny": (100_000, 400_000), "small": (20_000_000, 100_000_000), "full": (50_000_000, 500_000_000)}
COPY_PLAIN = "copy plain (session_id, seq, event_type, data, created_at, task_id, tool_name) from stdin"


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Measure loading, then importing."""
    report = Report("bulk", TITLE, scale)
    await _measure_loading(server, scale, report)
    with tempfile.TemporaryDirectory(prefix="consolidator-bench-") as folder:
        samples = await log_samples.LogSamples.collect(server, Path(folder) / "samples")
        async with server.open_database() as database:
            for name in FORMATS:
                await _measure_import(database, samples, name, Path(folder) / name, FORMAT_BYTES[scale], report)
            for name in LOGS:
                await _measure_agent(server, name, Path(folder) / f"built-{name}", BUILT_TURNS[scale], report)
        await _measure_memory(server, samples, Path(folder), scale, report)
    return report


async def _measure_loading(server: BenchmarkServer, scale: str, report: Report) -> None:
    async with server.open_database() as database, database.connection() as conn:
        await partitions.ensure_ahead(conn, database.clock.now())
        await conn.execute(CREATE_PLAIN_TABLE)
        for count, target in ((ROWS[scale], 0.5), (LARGE_ROWS[scale], None)):
            rows = prepare_session(1, count)
            loader, copier = _Loader(conn, database.clock, rows), _copier(conn, database.clock, rows)
            await run_interleaved(1, loader.load, copier)
            rounds = ROUNDS[scale] if target else 5
            ours, theirs = await run_interleaved(rounds, loader.load, copier)
            suffix = f"of {count:,} rows"
            report.add(f"load_bulk / COPY {suffix}", median_ratio(theirs, ours), "of its rate", at_least=target)
            report.add(f"load_bulk {suffix}", count / statistics.median(ours), "events/s")
            report.add(f"COPY {suffix}", count / statistics.median(theirs), "events/s")


class _Loader:
    """Loads rows into a new session each time, in one transaction."""

    def __init__(self, conn: Connection, clock: Clock, rows: Sequence[events.PreparedEvent]) -> None:
        self._conn, self._clock, self._rows = conn, clock, rows
        self._count = 0

    async def load(self) -> float:
        self._count += 1
        name = f"load-{len(self._rows)}-{self._count}"
        now = self._clock.now()
        await sessions.open_session(self._conn, {"id": name, "agent": "coder"}, now=now)
        started = time.perf_counter()
        async with self._conn.transaction():
            await events.load_each(self._conn, {name: self._rows}, now=now)
        return time.perf_counter() - started


def _copier(conn: Connection, clock: Clock, rows: Sequence[events.PreparedEvent]) -> TimedAction:
    count = 0

    async def load() -> float:
        nonlocal count
        count += 1
        name, now = f"copy-{len(rows)}-{count}", clock.now()
        started = time.perf_counter()
        async with conn.transaction(), conn.cursor() as cursor, cursor.copy(COPY_PLAIN) as copy:
            for seq, row in enumerate(rows, 1):
                await copy.write_row((name, seq, row.type, row.data, now, row.task_id, row.tool_name))
        return time.perf_counter() - started

    return load


async def _measure_import(
    database: Database, samples: log_samples.LogSamples, name: str, folder: Path, size: int, report: Report
) -> None:
    """Import a folder of one format and report its speed; add a note if there are no samples of it."""
    written = await asyncio.to_thread(samples.write_copies, folder, name, size)
    if not written:
        report.notes.append(f"{name}: skipped, there are no samples of it here")
        return
    started = time.perf_counter()
    imported = await import_sources(database, [ImportSource(folder, FORMATS[name])])
    seconds = time.perf_counter() - started
    report.add(f"import {name}", written / 1e6 / seconds, f"MB/s, {imported.events / seconds:,.0f} events/s")
    if imported.repeated or imported.problem_count:
        report.notes.append(f"{name}: {imported.repeated} events repeated, {imported.problem_count} problems")


async def _measure_agent(server: BenchmarkServer, name: str, folder: Path, turns: int, report: Report) -> None:
    """Import the log of an agent of which there are no samples, as the tests build it."""
    path, size = await asyncio.to_thread(_build_log, LOGS[name](), folder, turns)
    async with server.open_database() as database:
        started = time.process_time()  # its own: what the server does is the same for all
        imported = await import_sources(database, [ImportSource(path, FORMATS[LOGS[name].name])])
        seconds = time.process_time() - started
    report.add(f"import {name}, built", size / 1e6 / seconds, f"MB/s, {imported.events / seconds:,.0f} events/s")


def _build_log(log: AgentLog, folder: Path, turns: int) -> tuple[Path, int]:
    """Return a log of many turns, and its size."""
    records = log.header()
    for number in range(turns):
        records += log.prompt(f"Look at case {number} of the shop.")
        records += log.call(f"make t{number}", "ok\n" * 40, False)
        records += log.answer(f"Case {number} is done.")
    path = log.write(folder, records)
    return path, sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


async def _measure_memory(
    server: BenchmarkServer, samples: log_samples.LogSamples, folder: Path, scale: str, report: Report
) -> None:
    """Import a folder and one several times its size, each in a child process."""
    name = "claude-code" if samples.has_format("claude-code") else "consolidator"
    peaks = []
    for size_name, size in zip(("small", "large"), FOLDER_BYTES[scale], strict=True):
        target = folder / f"{size}"
        written = await asyncio.to_thread(samples.write_copies, target, name, size)
        async with server.open_database() as database:
            command = [sys.executable, "-m", "benchmarks.speed.bulk", database.dsn, str(target)]
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            out, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"the import ended with {process.returncode}")
        result = json.loads(out)
        peaks.append(result["peak"])
        report.add(f"{size_name} folder of {name}", written / 1e6, "MB")
        report.add(f"its import, {size_name} folder", written / 1e6 / result["seconds"], "MB/s")
        report.add(f"its peak memory, {size_name} folder", result["peak"], "MB")
    report.add("peak of the large / the small folder", peaks[1] / peaks[0], "", at_most=1.25)


async def _import_folder(dsn: str, folder: Path) -> None:
    """Import a folder and print the seconds and the peak memory as JSON."""
    database = Database(dsn, Clock())
    started = time.perf_counter()
    await import_sources(database, [ImportSource(folder)])
    seconds = time.perf_counter() - started
    await database.close()
    print(json.dumps({"seconds": seconds, "peak": peak_megabytes()}))


if __name__ == "__main__":
    asyncio.run(_import_folder(sys.argv[1], Path(sys.argv[2])))
