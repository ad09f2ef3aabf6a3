"""What a person waits for who asks for help or mistypes: processor time of the command, beside `import typer` alone."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence

from benchmarks.harness.report import Report, TimedAction, median_ratio, run_interleaved
from benchmarks.harness.server import BenchmarkServer

TITLE = "start-up of the command line, in processor time"
ROUNDS = {"tiny": 1, "small": 7, "full": 21}
COMMANDS = {  # with the most that each may take, in times of the import
    "--help": (["--help"], 2.0),
    "a mistyped command": (["fact"], 2.0),
    "a mistyped subcommand": (["session", "lst"], 2.0),
    "--version": (["--version"], 2.0),
    "facts, with no service": (["facts"], 6.0),
    "recall, with no service": (["recall", "which package manager"], 6.0),
}


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Run each command and the bare import in turns."""
    report = Report("start", TITLE, scale)
    async with server.open_database() as database:
        environment = {**os.environ, "CONSOLIDATOR_DATABASE_URL": database.dsn}
        baseline = timed_process(["-c", "import typer"], environment)
        for name, (words, times) in COMMANDS.items():
            command = timed_process(["-m", "consolidator", *words], environment)
            ours, bare = await run_interleaved(ROUNDS[scale], command, baseline)
            report.add(f"{name} / import typer", median_ratio(ours, bare), at_most=times)
    return report


def timed_process(words: Sequence[str], environment: Mapping[str, str] = os.environ) -> TimedAction:
    """Return an action that runs Python with these arguments and returns the processor time it took, in seconds."""

    async def run() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], capture_output=True, check=False, env=environment)  # noqa: ASYNC221 - nothing else runs
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return run
