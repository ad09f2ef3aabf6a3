"""What a coding agent waits for at a hook: the whole process, beside an interpreter that does nothing."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer
from benchmarks.speed.recall import SCOPES, write_facts
from consolidator.database import Database
from consolidator.hooks import program
from consolidator.store.sessions import sessions

TITLE = "hooks of a coding agent, with the start of the interpreter"
FACTS = {"tiny": 1000, "small": 100_000, "full": 1_000_000}
RUNS = {"tiny": 5, "small": 200, "full": 500}
AT_MOST = 3.0
PROJECT = "/work/shop"
READY_SECONDS = 60
FAILURE = {"tool_name": "Bash", "tool_input": {"command": "make"}, "error": "Exit code 2\nmake: *** No rule to make"}


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Fill a database with facts of one agent, start the service, and run hooks and a bare interpreter in turns."""
    report = Report("hooks", TITLE, scale)
    async with server.open_database() as database:
        sentences = await write_facts(database, FACTS[scale])
        await _give_to_one_agent(database)
        with tempfile.TemporaryDirectory(prefix="consolidator-hooks-") as folder:
            service = await _start_service(database, Path(folder))
            try:
                await asyncio.to_thread(_time_hooks, report, Path(folder), sentences, RUNS[scale])
            finally:
                service.terminate()
                await asyncio.to_thread(service.wait)
    return report


async def _give_to_one_agent(database: Database) -> None:
    """Make the facts those of one agent, in sessions of one project that have no peer, as imported ones have none."""
    now = database.clock.now()
    async with database.transaction() as conn:
        for number in range(SCOPES):
            values = {"id": f"session-{number}", "agent": "claude-code", "project": PROJECT}
            await sessions.open_session(conn, values, now=now)
    async with database.connection() as conn:
        await conn.execute("update corpus set agent = 'claude-code'")
        await conn.execute("update fact set agent = 'claude-code', kind = 'constraint'")
        await conn.execute("vacuum analyze")


async def _start_service(database: Database, home: Path) -> subprocess.Popen[bytes]:
    """Start the hook service of a home, and wait until it answers."""
    environment = {**os.environ, "CONSOLIDATOR_DATABASE_URL": database.dsn, "CONSOLIDATOR_HOME": str(home)}
    command = [sys.executable, "-I", "-m", "consolidator.hooks.service", str(home)]
    service = subprocess.Popen(command, env=environment)  # noqa: ASYNC220 - it goes on
    deadline = time.monotonic() + READY_SECONDS
    while not (home / program.DIRECTORY / program.SOCKET).exists():
        if time.monotonic() > deadline or service.poll() is not None:
            raise RuntimeError("the hook service did not start")
        await asyncio.sleep(0.1)
    return service


def _time_hooks(report: Report, home: Path, sentences: Sequence[str], runs: int) -> None:
    bare = [getattr(sys, "_base_executable", sys.executable), "-I", "-c", "pass"]
    moments: dict[str, Mapping[str, Any]] = {
        "SessionStart": {"source": "startup"},
        "UserPromptSubmit": {},
        "PostToolUseFailure": FAILURE,
    }
    durations: dict[str, list[float]] = {"bare": [], **{event: [] for event in moments}}
    answered = dict.fromkeys(moments, 0)
    for number in range(runs):
        durations["bare"].append(_time(bare, b"")[0])
        for event, fields in moments.items():
            command = [sys.executable, "-I", "-S", program.__file__, str(home), event, "claude-code"]
            said = {"prompt": sentences[number % len(sentences)]} if event == "UserPromptSubmit" else fields
            payload = {"session_id": f"{event}-{number}", "cwd": PROJECT, "hook_event_name": event, **said}
            seconds, answer = _time(command, json.dumps(payload).encode())
            durations[event].append(seconds)
            answered[event] += bool(answer)
    report.add("python -I -c pass, p95", _p95(durations["bare"]) * 1000, "ms")
    for event in moments:
        report.add(
            f"{event} / python -I -c pass, p95", _p95(durations[event]) / _p95(durations["bare"]), at_most=AT_MOST
        )
        report.add(f"{event}, p95", _p95(durations[event]) * 1000, "ms")
    for event in ("SessionStart", "UserPromptSubmit"):
        report.add(f"{event}: answered", 100 * answered[event] / runs, "%")


def _time(command: Sequence[str], payload: bytes) -> tuple[float, bytes]:
    started = time.perf_counter()
    done = subprocess.run(command, input=payload, capture_output=True, check=True)
    return time.perf_counter() - started, done.stdout


def _p95(durations: Sequence[float]) -> float:
    return sorted(durations)[int(len(durations) * 0.95)]
