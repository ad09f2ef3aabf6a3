"""What a person waits for who asks for help or mistypes: processor time of the command, beside `import typer` alone."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.harness.report import Report, TimedAction, median_ratio, run_interleaved
from benchmarks.harness.server import BenchmarkServer

TITLE = "start-up of the command line, in processor time"
ROUNDS = {"tiny": 1, "small": 7, "full": 21}
AT_MOST = 2.0
COMMANDS = {
    "--help": ["--help"],
    "a mistyped command": ["fact"],
    "a mistyped subcommand": ["session", "lst"],
    "--version": ["--version"],
}


async def measure(_server: BenchmarkServer, scale: str) -> Report:
    """Run each command and the bare import in turns."""
    report = Report("start", TITLE, scale)
    baseline = timed_process(["-c", "import typer"])
    for name, words in COMMANDS.items():
        command = timed_process(["-m", "consolidator", *words])
        ours, bare = await run_interleaved(ROUNDS[scale], command, baseline)
        report.add(f"{name} / import typer", median_ratio(ours, bare), at_most=AT_MOST)
    return report


def timed_process(words: Sequence[str]) -> TimedAction:
    """Return an action that runs Python with these arguments and returns the processor time it took, in seconds."""

    async def run() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], capture_output=True, check=False)  # noqa: ASYNC221 - nothing else runs
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return run
