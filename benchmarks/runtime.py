"""The session runtime: appends beside other stores, long logs beside short ones, turns beside bare calls of a model."""

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

from benchmarks import made
from benchmarks.append import PLAIN, bare, door
from benchmarks.report import Report, Timed, by_turns, ratio
from benchmarks.server import Server
from benchmarks.turns import measure_agent
from consolidator.clock import FrozenClock
from consolidator.context.build import build_context
from consolidator.database import Database, partitions
from consolidator.store.log import events, sessions

TITLE = "the session runtime: appends beside other stores, long logs beside short ones, turns"
STORES = "CONSOLIDATOR_TEST_STORES"
ROUNDS = {"tiny": 5, "small": 60, "full": 300}
APPENDS = {"tiny": 5, "small": 20, "full": 20}
LENGTHS = {"tiny": (100, 200, 400), "small": (100, 10_000, 100_000), "full": (100, 10_000, 100_000)}
LAST = 50
DAYS = 10
_TARGETS = {"add_items": 4.0, "put": 1.5}
_OPENING = 60  # seconds that the other libraries may take to load


async def measure(server: Server, scale: str) -> Report:
    """Measure all of it, each part in a database of its own."""
    report = Report("runtime", TITLE, scale)
    await _appends(server, scale, report)
    await _contexts(server, scale, report)
    await measure_agent(server, scale, report, LENGTHS[scale])
    return report


async def _appends(server: Server, scale: str, report: Report) -> None:
    """Append one event by turns through the door, into a plain table, and through the stores of other libraries."""
    rounds, count = ROUNDS[scale], APPENDS[scale]
    async with server.database() as database, database.connection() as conn, _stores(server) as stores:
        now = database.clock.now()
        await partitions.ensure(conn, now)
        await conn.execute(PLAIN)
        await sessions.open_session(conn, {"id": "s", "agent": "coder"}, now=now)
        things = {
            "append": door(conn, count),
            "append, connection from the pool": _pooled(database, count),
            "INSERT": bare(conn, count),
            **_written(stores, count),
        }
        await by_turns(2, *things.values())
        seconds = dict(zip(things, await by_turns(rounds, *things.values()), strict=True))
    report.add("append / INSERT", ratio(seconds["INSERT"], seconds["append"]), "of its rate", at_least=0.65)
    for name in stores.found:  # add_items takes a connection from its pool each time, put has one
        ours = seconds["append, connection from the pool" if name == "add_items" else "append"]
        report.add(f"append / {name}", ratio(seconds[name], ours), "times", at_least=_TARGETS.get(name))
    if "put" in seconds:
        report.add("INSERT / put", ratio(seconds["put"], seconds["INSERT"]), "times")
    for name, found in seconds.items():
        report.add(name, count / statistics.median(found), "/s")
    report.notes += sorted({f"{name}: {told}" for name, told in stores.names.items()}) or [
        f"other libraries left out: {sys.executable} has neither, and {STORES} names no Python that has them"
    ]


def _pooled(database: Database, count: int) -> Timed:
    """Append as the runtime does: with a connection from the pool for each."""

    async def append() -> float:
        new = made.tool_result(0)
        started = time.perf_counter()
        for _ in range(count):
            async with database.connection() as conn:
                await events.append(conn, "s", [new], now=database.clock.now())
        return time.perf_counter() - started

    return append


@dataclass
class _Stores:
    """The process in which other libraries write."""

    process: asyncio.subprocess.Process | None
    found: list[str]
    names: dict[str, str]

    async def write(self, name: str, count: int) -> float:
        """Have a store write so many messages; return its seconds."""
        assert self.process is not None
        return float(await _asked(self.process, f"{name} {count}"))


def _written(stores: _Stores, count: int) -> dict[str, Timed]:
    def through(name: str) -> Timed:
        async def write() -> float:
            return await stores.write(name, count)

        return write

    return {name: through(name) for name in stores.found}


@asynccontextmanager
async def _stores(server: Server) -> AsyncIterator[_Stores]:
    """Start the other libraries on a database of their own, if a Python has them."""
    name = await server.create()
    place = {**conninfo_to_dict(server.dsn), "dbname": name}
    process = await asyncio.create_subprocess_exec(
        os.environ.get(STORES, sys.executable), "-W", "ignore", str(Path(__file__).with_name("stores.py")),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env={key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ},
    )  # fmt: skip
    try:
        async with asyncio.timeout(_OPENING):
            told = await _asked(process, json.dumps({"place": place, "text": made.tool_result(0).data["content"]}))
        yield _Stores(process, told["stores"], told["names"])
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.terminate() if process.returncode is None else None
        await process.wait()
        await server.drop(name)


async def _asked(process: asyncio.subprocess.Process, line: str) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line.encode() + b"\n")
    await process.stdin.drain()
    answer = await process.stdout.readline()
    if not answer:
        raise RuntimeError("the process of the other libraries ended; what it said is above")
    return json.loads(answer)


async def _contexts(server: Server, scale: str, report: Report) -> None:
    """Build the context of the last events of logs of several lengths, by turns."""
    clock = FrozenClock(made.FIRST)
    async with server.database(clock) as database:
        names = [await _log(database, length) for length in LENGTHS[scale]]
        spread = await _log(database, LENGTHS[scale][-1], days=DAYS)
        async with database.connection() as conn:
            await conn.execute("vacuum analyze event")
            things = [_context(database, name) for name in (*names, spread)]
            await by_turns(3, *things)
            seconds = await by_turns(ROUNDS[scale], *things)
    short = seconds[0]
    for length, found in zip(LENGTHS[scale], seconds, strict=False):
        report.add(f"context of the last {LAST} of {length:,} events", statistics.median(found) * 1000, "ms")
    long = f"context: {LENGTHS[scale][-1]:,} / {LENGTHS[scale][0]:,} events"
    report.add(long, ratio(seconds[-2], short), "of the time", at_most=1.5)
    report.add(f"{long}, over {DAYS} days", ratio(seconds[-1], short), "of the time")


async def _log(database: Database, length: int, *, days: int = 1) -> str:
    """Write a session of so many events, over so many days; return its id."""
    name = f"log-{length}-{days}"
    told = made.prepared(7, length)
    begun = database.clock.now()
    async with database.transaction() as conn:
        await sessions.open_session(conn, {"id": name, "agent": "coder"}, now=begun)
        for day in range(days):
            now = begun + timedelta(days=day)
            await partitions.ensure(conn, now)
            await events.load_bulk(conn, name, told[day * length // days : (day + 1) * length // days], now=now)
    return name


def _context(database: Database, name: str) -> Timed:
    async def build() -> float:
        started = time.perf_counter()
        async with database.connection() as conn:
            found = await build_context(conn, name, strategy="window", last=LAST)
        took = time.perf_counter() - started
        assert found.messages
        return took

    return build
