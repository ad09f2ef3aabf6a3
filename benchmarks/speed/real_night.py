"""A night without a model over real logs: processor time and bytes of an event, and which stage takes how much of it.

The folder has logs of any agents that imports read; without one there is nothing to measure. It runs in one process, in
which the stages follow each other.
"""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer
from consolidator.clock import FrozenClock
from consolidator.jobs.consolidation import learning, persistence, pipeline
from consolidator.jobs.importing.importer import import_sources
from consolidator.jobs.indexing import indexer
from consolidator.jobs.nightly import JobRunner
from consolidator.llm.static_vectors import WORDS_ONLY
from consolidator.service.nights.imports import select_sources
from consolidator.store.log import events

TITLE = "a night over real logs"
SIZE = "select count(*), coalesce(sum(length(data::text)), 0) from event"


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Import the folder's logs and run one night over them."""
    report = Report("real-night", TITLE, scale)
    if server.logs is None:
        report.notes.append("skipped: name a folder with logs, as in `python -m benchmarks real-night FOLDER`")
        return report
    clock = FrozenClock(datetime.now(UTC))
    async with server.open_database(clock) as database:
        await import_sources(database, select_sources("auto", [server.logs]))
        async with database.connection() as conn:
            count, size = await (await conn.execute(SIZE)).fetchone() or (0, 0)
        clock.advance(timedelta(hours=30))
        chosen = {"workers": 1, "learn_processes": 1, "embed_model": WORDS_ONLY}
        settings = server.default_settings().model_copy(update=chosen)
        stages: defaultdict[str, float] = defaultdict(float)
        with (
            _timed(stages, "reading", events, "read_each"),
            patch.object(learning, "learn_window", _time_function(stages, "learning", learning.learn_window)),
            _timed(stages, "the search index", indexer, "save_episodes"),
            _timed(stages, "memory, stored", persistence, "save_memory"),
            _timed(stages, "merging", pipeline, "merge_agent"),
        ):
            started = time.process_time()
            result = await JobRunner(database, settings).run_now("consolidation")
            spent = time.process_time() - started
        assert result["status"] == "done", result
        report.add("events", count)
        read = sum(path.stat().st_size for path in server.logs.rglob("*") if path.is_file())
        report.add("an event", read / max(count, 1) / 1000, "kB of logs")
        report.add("an event, stored", size / max(count, 1) / 1000, "kB without large texts")
        report.add("night, processor time without the server's", spent / max(count, 1) * 1000, "ms/event", at_most=0.5)
        for stage, seconds in sorted(stages.items(), key=lambda item: -item[1]):
            report.add(f"of it {stage}", seconds / spent)
    return report


def _time_function(stages: defaultdict[str, float], stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def timed(*values: Any) -> Any:
        started = time.process_time()
        try:
            return function(*values)
        finally:
            stages[stage] += time.process_time() - started

    return timed


def _timed(stages: defaultdict[str, float], stage: str, module: Any, name: str) -> Any:
    """Have a stage's function add its processor time; it waits for the server meanwhile, and for nothing else."""
    function: Callable[..., Awaitable[Any]] = getattr(module, name)

    @functools.wraps(function)
    async def timed(*values: Any, **options: Any) -> Any:
        started = time.process_time()
        try:
            return await function(*values, **options)
        finally:
            stages[stage] += time.process_time() - started

    return patch.object(module, name, timed)
