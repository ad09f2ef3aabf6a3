"""The session runtime: appends beside other stores, long logs beside short ones, turns beside bare model calls."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from benchmarks.harness import synthetic_sessions
from benchmarks.harness.report import Report, TimedAction, median_ratio, run_interleaved
from benchmarks.harness.server import BenchmarkServer
from benchmarks.runtime.agent_turns import measure_agent
from benchmarks.speed.append import CREATE_PLAIN_TABLE, appender, inserter
from consolidator.clock import FrozenClock
from consolidator.context.build import ContextRequest, build_context
from consolidator.database import Database, partitions
from consolidator.store.log import events
from consolidator.store.sessions import sessions

TITLE = "the session runtime: appends beside other stores, long logs beside short ones, turns"
STORES_PYTHON = "CONSOLIDATOR_TEST_STORES"
ROUNDS = {"tiny": 5, "small": 60, "full": 300}
APPENDS = {"tiny": 5, "small": 20, "full": 20}
LENGTHS = {"tiny": (100, 200, 400), "small": (100, 10_000, 100_000), "full": (100, 10_000, 100_000)}
WINDOW = 50  # events of a context
DAYS = 10
_TARGETS = {"add_items": 4.0, "put": 1.5}
_START_TIMEOUT = 60  # seconds that the other libraries may take to load


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Measure each part in a database of its own."""
    report = Report("runtime", TITLE, scale)
    await _measure_appends(server, scale, report)
    await _measure_contexts(server, scale, report)
    await measure_agent(server, scale, report, LENGTHS[scale])
    return report


async def _measure_appends(server: BenchmarkServer, scale: str, report: Report) -> None:
    """Append single events, insert them into a plain table, and write them through the stores of other libraries."""
    rounds, count = ROUNDS[scale], APPENDS[scale]
    async with server.open_database() as database, database.connection() as conn, _start_peer_stores(server) as stores:
        now = database.clock.now()
        await partitions.ensure_ahead(conn, now)
        await conn.execute(CREATE_PLAIN_TABLE)
        await sessions.open_session(conn, {"id": "s", "agent": "coder"}, now=now)
        actions = {
            "append": appender(conn, count),
            "append, connection from the pool": _pooled_appender(database, count),
            "INSERT": inserter(conn, count),
            **{name: _peer_writer(stores, name, count) for name in stores.names},
        }
        await run_interleaved(2, *actions.values())
        seconds = dict(zip(actions, await run_interleaved(rounds, *actions.values()), strict=True))
    report.add("append / INSERT", median_ratio(seconds["INSERT"], seconds["append"]), "of its rate", at_least=0.65)
    for name in stores.names:  # add_items takes a connection from its pool each time, put keeps one
        ours = seconds["append, connection from the pool" if name == "add_items" else "append"]
        report.add(f"append / {name}", median_ratio(seconds[name], ours), "times", at_least=_TARGETS.get(name))
    if "put" in seconds:
        report.add("INSERT / put", median_ratio(seconds["put"], seconds["INSERT"]), "times")
    for name, durations in seconds.items():
        report.add(name, count / statistics.median(durations), "/s")
    report.notes += sorted({f"{name}: {version}" for name, version in stores.versions.items()}) or [
        f"other libraries left out: {sys.executable} has neither, and {STORES_PYTHON} names no Python that has them"
    ]


def _pooled_appender(database: Database, count: int) -> TimedAction:
    """Append as the runtime does: with a connection from the pool for each event."""

    async def append() -> float:
        event = synthetic_sessions.generate_tool_result(0)
        started = time.perf_counter()
        for _ in range(count):
            async with database.connection() as conn:
                await events.append(conn, "s", [event], now=database.clock.now())
        return time.perf_counter() - started

    return append


@dataclass
class _PeerStores:
    """The process in which other libraries write."""

    process: asyncio.subprocess.Process
    names: list[str]  # of the stores whose library is installed
    versions: dict[str, str]  # by store; "absent: ..." where the library is missing

    async def write(self, name: str, count: int) -> float:
        """Have a store write `count` messages; return its seconds."""
        return float(await _send_line(self.process, f"{name} {count}"))


def _peer_writer(stores: _PeerStores, name: str, count: int) -> TimedAction:
    async def write() -> float:
        return await stores.write(name, count)

    return write


@asynccontextmanager
async def _start_peer_stores(server: BenchmarkServer) -> AsyncIterator[_PeerStores]:
    """Start the stores of other libraries on a database of their own, with the Python that has them."""
    name = await server.create_database()
    process = await asyncio.create_subprocess_exec(
        os.environ.get(STORES_PYTHON, sys.executable), "-W", "ignore", str(Path(__file__).with_name("peer_stores.py")),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env={key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ},
    )  # fmt: skip
    request = {
        "server": {**conninfo_to_dict(server.dsn), "dbname": name},
        "text": synthetic_sessions.generate_tool_result(0).data["content"],
    }
    try:
        async with asyncio.timeout(_START_TIMEOUT):
            answer = await _send_line(process, json.dumps(request))
        yield _PeerStores(process, answer["stores"], answer["versions"])
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.terminate() if process.returncode is None else None
        await process.wait()
        await server.drop_database(name)


async def _send_line(process: asyncio.subprocess.Process, line: str) -> Any:
    """Send a line to a process and return the JSON of its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line.encode() + b"\n")
    await process.stdin.drain()
    answer = await process.stdout.readline()
    if not answer:
        raise RuntimeError("the process of the other libraries ended; see its output above")
    return json.loads(answer)


async def _measure_contexts(server: BenchmarkServer, scale: str, report: Report) -> None:
    """Build the context of the last events of logs of several lengths."""
    clock = FrozenClock(synthetic_sessions.START)
    async with server.open_database(clock) as database:
        session_ids = [await _write_log(database, length) for length in LENGTHS[scale]]
        session_ids.append(await _write_log(database, LENGTHS[scale][-1], days=DAYS))
        async with database.connection() as conn:
            await conn.execute("vacuum analyze event")
            actions = [_context_builder(database, session_id) for session_id in session_ids]
            await run_interleaved(3, *actions)
            seconds = await run_interleaved(ROUNDS[scale], *actions)
    shortest = seconds[0]
    for length, durations in zip(LENGTHS[scale], seconds, strict=False):
        report.add(f"context of the last {WINDOW} of {length:,} events", statistics.median(durations) * 1000, "ms")
    name = f"context: {LENGTHS[scale][-1]:,} / {LENGTHS[scale][0]:,} events"
    report.add(name, median_ratio(seconds[-2], shortest), "of the time", at_most=1.5)
    report.add(f"{name}, over {DAYS} days", median_ratio(seconds[-1], shortest), "of the time")


async def _write_log(database: Database, length: int, *, days: int = 1) -> str:
    """Write a session of `length` events over `days` days; return its id."""
    session_id = f"log-{length}-{days}"
    rows = synthetic_sessions.prepare_session(7, length)
    first = database.clock.now()
    async with database.transaction() as conn:
        await sessions.open_session(conn, {"id": session_id, "agent": "coder"}, now=first)
        for day in range(days):
            now = first + timedelta(days=day)
            await partitions.ensure_ahead(conn, now)
            of_day = rows[day * length // days : (day + 1) * length // days]
            await events.load_each(conn, {session_id: of_day}, now=now)
    return session_id


def _context_builder(database: Database, session_id: str) -> TimedAction:
    async def build() -> float:
        started = time.perf_counter()
        async with database.connection() as conn:
            context = await build_context(conn, session_id, ContextRequest("window", last=WINDOW))
        seconds = time.perf_counter() - started
        assert context.messages
        return seconds

    return build
