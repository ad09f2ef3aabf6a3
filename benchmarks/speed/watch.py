"""`serve --watch`: from the end of a session's log to its lesson in another agent's brief."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from asyncio.subprocess import PIPE
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.memory.telling.brief import brief

TITLE = "from the end of a session's log to its lesson in another agent's brief"
PROJECT = "/work/shop"
SESSIONS = 3  # that met the failure: fewer teach nothing
PATIENCE = 300.0
_CALLS = (("wrap pnpm run test", "Exit code 2\nerror: unrecognized subcommand 'pnpm'"), ("pnpm run test", "12 passed"))


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Start the service, leave the logs of some sessions, and ask for a brief until it has the lesson."""
    report = Report("watch", TITLE, scale)
    async with server.open_database() as database:
        with TemporaryDirectory() as folder:
            sources = json.dumps([f"claude-code:{folder}"])
            environment = {
                **os.environ, "CONSOLIDATOR_DATABASE_URL": database.dsn, "CONSOLIDATOR_HOME": str(server.home),
                "CONSOLIDATOR_SOURCES": sources, "CONSOLIDATOR_HEALTH_PORT": "0", "CONSOLIDATOR_FIND_MODEL": "false",
            }  # fmt: skip
            command = [sys.executable, "-m", "consolidator", "serve", "--watch"]
            service = await asyncio.create_subprocess_exec(*command, env=environment, stderr=PIPE)
            try:
                assert service.stderr is not None
                while b"retention:" not in await asyncio.wait_for(service.stderr.readline(), PATIENCE):
                    continue  # the nights that it made up for
                for number in range(SESSIONS):
                    await asyncio.to_thread(_write_log, Path(folder), number)
                started = time.monotonic()
                while True:
                    told = await brief(database, "session_start", MemoryScope("codex", PROJECT, ""))
                    if told is not None and "`wrap pnpm …` always fails" in told.block.text:
                        break
                    if time.monotonic() - started > PATIENCE:
                        raise RuntimeError("the lesson never came")
                    await asyncio.sleep(0.5)
                report.add("the lesson is in another agent's brief after", time.monotonic() - started, "s", at_most=60)
            finally:
                service.terminate()
                await service.communicate()
    return report


def _write_log(folder: Path, number: int) -> None:
    name, at = f"00000000-0000-4000-8000-{number:012}", datetime.now(UTC) - timedelta(minutes=1)
    messages: list[tuple[str, dict[str, Any]]] = [("user", {"role": "user", "content": "Run the tests."})]
    for call, (line, output) in enumerate(_CALLS):
        use = {"type": "tool_use", "id": f"t{number}{call}", "name": "Bash", "input": {"command": line}}
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": output, "is_error": not call}
        messages += [("assistant", {"role": "assistant", "id": f"m{call}", "content": [use]})]
        messages += [("user", {"role": "user", "content": [result]})]
    shared = {"sessionId": name, "cwd": PROJECT, "version": "2.1.0", "userType": "external", "isSidechain": False}
    lines = [
        {
            **shared, "type": kind, "message": message, "uuid": f"{name[:-2]}{n:02}", "parentUuid": None,
            "timestamp": (at + timedelta(seconds=n)).isoformat().replace("+00:00", "Z"),
        }
        for n, (kind, message) in enumerate(messages)
    ]  # fmt: skip
    path = folder / "-work-shop" / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
