"""The first import: `install` over a folder of Claude Code's logs, with its first night, as its user waits for it.

The folder is the history that `install` finds; without one there is nothing to measure.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer

TITLE = "a first import of real logs, with its first night"
COMMAND = ["-m", "consolidator", "install", "claude-code", "--yes", "--no-model"]
LATEST = b"learned from the latest week"  # the note after which there is something to see
MIN_RATE = 3.4  # MB a second: 2 GB in ten minutes
MAX_MEMORY = 400  # MB, of the largest process


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Install into an empty home whose history is the folder."""
    report = Report("first-import", TITLE, scale)
    if server.logs is None:
        report.notes.append("skipped: name a folder with logs of Claude Code, as for real-night")
        return report
    async with server.open_database() as database:
        with tempfile.TemporaryDirectory() as home:
            agent = Path(home) / ".claude"
            agent.mkdir()
            (agent / "projects").symlink_to(server.logs.resolve())
            own = {"HOME": home, "CONSOLIDATOR_HOME": f"{home}/own", "CONSOLIDATOR_DATABASE_URL": database.dsn}
            seconds, first_seconds = await _install({**os.environ, **own})
        async with database.connection() as conn:
            count = (await (await conn.execute("select count(*) from event")).fetchone() or (0,))[0]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    read = sum(path.stat().st_size for path in server.logs.rglob("*.jsonl")) / 1e6
    report.add("logs", read, "MB")
    report.add("events", count)
    report.add("all of it", read / seconds, "MB/s", at_least=MIN_RATE)
    if first_seconds is not None:
        report.add("the latest week is learned after", first_seconds, "s", at_most=60)
    report.add("processor time without the server's", used.ru_utime + used.ru_stime, "s")
    report.add("largest process", used.ru_maxrss / 1000, "MB", at_most=MAX_MEMORY)
    return report


async def _install(environment: dict[str, str]) -> tuple[float, float | None]:
    """Return how long `install` takes, and when it has learned from the latest week; None if it does not say so."""
    started, first = time.perf_counter(), None
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *COMMAND, stdout=asyncio.subprocess.DEVNULL, stderr=pipe, env=environment
    )
    assert process.stderr is not None
    async for line in process.stderr:
        if LATEST in line:
            first = time.perf_counter() - started
    assert await process.wait() == 0, "install failed"
    return time.perf_counter() - started, first
