"""A whole turn with a tool's call, beside the same turn of four other ways to keep sessions in PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmarks.harness.instant_model import TOOL
from benchmarks.harness.report import Report, median_ratio
from benchmarks.harness.server import BenchmarkServer
from benchmarks.runtime.agent_turns import start_instant_model
from benchmarks.runtime.runtime import STORES_PYTHON
from benchmarks.runtime.turn_sides.__main__ import MODULES
from benchmarks.runtime.turn_sides.side import MESSAGES_OF_A_TURN

TITLE = "a turn with a tool's call, beside four other libraries on the same server with the same model"
OURS = "consolidator"
AT_ONCE = 8
ROUNDS = {"tiny": 2, "small": 8, "full": 30}
LONG = {"tiny": 3, "small": 100, "full": 100}  # turns of the long session of every side
LONGEST = {"tiny": 3, "small": 100, "full": 1000}  # turns of the long session that is compared with a new one
TURNS = 3  # of each session in a round
_TEXT = f"please {TOOL}"
_MODES = {"langgraph": ("sync", "async")}  # the durability of its checkpoints
_TABLES = {  # where each library keeps what it wrote
    OURS: ("event", "spend"),
    "langgraph": ("checkpoints", "checkpoint_blobs", "checkpoint_writes"),
    "openai-agents": ("agent_messages",),
    "DBOS": ("dbos.workflow_status", "dbos.operation_outputs"),
}
_START_TIMEOUT = 120  # seconds that a library may take to load and to create its tables


@dataclass(frozen=True)
class Column:
    """A way to take turns, and how many times as fast as the best other library it is to be."""

    name: str
    rate: float
    processor: float


@dataclass
class Cost:
    """What one round took, each for a turn."""

    seconds: float
    client: float  # seconds of processor time of the library's process
    server: float  # and of the database's processes; 0 if it runs elsewhere


@dataclass
class Library:
    """A library in its process, and what it did."""

    name: str
    database: str
    process: asyncio.subprocess.Process
    server: psutil.Process | None
    version: str = ""
    turns: dict[str, int] = field(default_factory=dict)  # by session

    async def ask(self, request: dict[str, Any]) -> Any:
        """Send a line and return the JSON of its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        await self.process.stdin.drain()
        answer = await self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process of {self.name} ended; see its output above")
        return json.loads(answer)


@dataclass
class Side:
    """A library that writes in one of its modes."""

    library: Library
    mode: str = ""

    @property
    def name(self) -> str:
        """How the report calls it."""
        return f"{self.library.name} {self.mode}".strip()

    async def open_sessions(self, number: int) -> list[str]:
        """Open new sessions and return their keys."""
        first = len(self.library.turns)
        keys = [f"s{first + position}" for position in range(number)]
        await self.library.ask({"sessions": keys, "open": True})
        self.library.turns |= dict.fromkeys(keys, 0)
        return keys

    async def take_turns(self, keys: Sequence[str], turns: int) -> Cost:
        """Have each session take turns, all sessions at once."""
        before = _processor_time(self.library.server)
        answer = await self.library.ask({"sessions": keys, "turns": turns, "text": _TEXT, "mode": self.mode})
        server = _processor_time(self.library.server) - before
        for key in keys:
            self.library.turns[key] += turns
        total = turns * len(keys)
        return Cost(answer["seconds"] / total, answer["processor"] / total, server / total)


Round = Callable[[], Awaitable[Cost]]
Read = Callable[[Cost], float]


def _seconds(cost: Cost) -> float:
    return cost.seconds


def _processor(cost: Cost) -> float:
    return cost.client + cost.server


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Measure three columns: one session, several at once, and one that is long."""
    report = Report("turns", TITLE, scale)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(start_instant_model())
        libraries, sides = [], []
        for name in MODULES if STORES_PYTHON in os.environ else (OURS,):
            library = await stack.enter_async_context(_start(server, name, url))
            report.notes.append(f"{name}: {library.version}")
            if not library.version.startswith("absent"):
                libraries.append(library)
                sides += [Side(library, mode) for mode in _MODES.get(name, ("",))]
        long_keys = {}
        for side in sides:
            await side.take_turns(await side.open_sessions(1), TURNS)
            [long_keys[side.name]] = await side.open_sessions(1)
            await side.take_turns([long_keys[side.name]], LONG[scale])
        columns: list[tuple[Column, Callable[[Side], Round]]] = [
            (Column("one session", 1.2, 1.1), partial(_new_sessions, number=1)),
            (Column(f"{AT_ONCE} sessions at once", 1.3, 1.1), partial(_new_sessions, number=AT_ONCE)),
            (Column(f"one session after {LONG[scale]} turns", 4, 4), lambda side: _session(side, long_keys[side.name])),
        ]
        for column, action in columns:
            costs = await _run_interleaved(ROUNDS[scale], [action(side) for side in sides])
            _report_column(report, column, dict(zip([side.name for side in sides], costs, strict=True)))
        await _measure_length(sides[0], long_keys[OURS], scale, report)
        for library in libraries:
            report.notes.append(await _check_written(server, library))
    if len(sides) == 1:
        report.notes.append(f"other libraries left out: {STORES_PYTHON} names no Python that has them")
    return report


async def _run_interleaved(rounds: int, actions: Sequence[Round]) -> list[list[Cost]]:
    """Run actions in the order A B C C B A A B C ..., so that other load affects all."""
    costs: list[list[Cost]] = [[] for _ in actions]
    for number in range(rounds):
        order = range(len(actions)) if number % 2 == 0 else reversed(range(len(actions)))
        for position in order:
            costs[position].append(await actions[position]())
    return costs


def _new_sessions(side: Side, number: int) -> Round:
    """Take the first turns of new sessions, which were opened before the clock runs."""

    async def run() -> Cost:
        return await side.take_turns(await side.open_sessions(number), TURNS)

    return run


def _session(side: Side, key: str) -> Round:
    async def run() -> Cost:
        return await side.take_turns([key], 1)

    return run


def _report_column(report: Report, column: Column, costs: dict[str, list[Cost]]) -> None:
    """Add each side's rate and processor time, and the ratio of ours to the best other one."""
    for name, of_side in costs.items():
        report.add(f"{column.name}: {name}", 1 / statistics.median(map(_seconds, of_side)), "turns/s")
    for name, of_side in costs.items():
        total = statistics.median(map(_processor, of_side))
        report.add(f"{column.name}: {name}, processor time", total * 1000, "ms a turn")
    peers = {name: of_side for name, of_side in costs.items() if name != OURS}
    if not peers:
        return
    for what, read, target in (("turns/s", _seconds, column.rate), ("processor time", _processor, column.processor)):
        medians = {name: statistics.median(map(read, of_side)) for name, of_side in peers.items()}
        best = min(medians, key=lambda name: medians[name])
        ratio = median_ratio(list(map(read, peers[best])), list(map(read, costs[OURS])))
        report.add(f"{column.name}: the best other one ({best}) / ours, {what}", ratio, "times", at_least=target)


async def _measure_length(ours: Side, long_key: str, scale: str, report: Report) -> None:
    """Compare turns of a long session with the first turns of new ones."""
    await ours.take_turns([long_key], max(LONGEST[scale] - ours.library.turns[long_key], 0) or 1)

    async def first() -> Cost:
        [key] = await ours.open_sessions(1)
        return await ours.take_turns([key], 1)

    length = ours.library.turns[long_key]
    late, new = await _run_interleaved(3 * ROUNDS[scale], [_session(ours, long_key), first])
    for what, read, target in (("time", _seconds, 1.2), ("processor time", _processor, None)):
        ratio = median_ratio(list(map(read, late)), list(map(read, new)))
        report.add(f"a turn after {length} / the first, {what}", ratio, "times", at_most=target)


async def _check_written(server: BenchmarkServer, library: Library) -> str:
    """Read back through the library every message of every turn, and count the rows behind them."""
    for key, turns in library.turns.items():
        found = (await library.ask({"messages": key}))["messages"] if turns else 0
        if found != MESSAGES_OF_A_TURN * turns:
            raise AssertionError(f"{library.name} kept {found} messages of {turns} turns of {key}")
    rows = []
    dsn = make_conninfo(server.dsn, dbname=library.database)
    async with await psycopg.AsyncConnection.connect(dsn, options="-c search_path=consolidator,public") as conn:
        for table in _TABLES[library.name]:
            query = sql.SQL("select count(*) from {}").format(sql.Identifier(*table.split(".")))
            row = await (await conn.execute(query)).fetchone()
            assert row is not None
            rows.append(f"{row[0]:,} of {table}")
    return f"{library.name} wrote for {sum(library.turns.values()):,} turns these rows: {', '.join(rows)}"


@asynccontextmanager
async def _start(server: BenchmarkServer, name: str, model_url: str) -> AsyncIterator[Library]:
    """Start a library on a database of its own."""
    database = await (server.create_migrated_database() if name == OURS else server.create_database())
    python = sys.executable if name == OURS else os.environ[STORES_PYTHON]
    environment = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    process = await asyncio.create_subprocess_exec(
        python, "-W", "ignore", "-m", "benchmarks.runtime.turn_sides", name,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env={**environment, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    library = Library(name, database, process, await _find_server(server.dsn))
    try:
        request = {"server": {**conninfo_to_dict(server.dsn), "dbname": database}, "model_url": model_url}
        async with asyncio.timeout(_START_TIMEOUT):
            answer = await library.ask(request)
        library.version = answer.get("version") or f"absent: {answer['absent']}"
        yield library
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        await server.drop_database(database)


async def _find_server(dsn: str) -> psutil.Process | None:
    """Return the database's main process if it runs on this machine."""
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        if conn.info.host.startswith("/") or conn.info.host in ("127.0.0.1", "::1", "localhost"):
            try:
                main = psutil.Process(conn.info.backend_pid).parent()
            except psutil.Error:
                return None
            return main if main is not None and main.name().startswith("postgres") else None
    return None


def _processor_time(main: psutil.Process | None) -> float:
    """Return the seconds of processor time of the database's processes, with those that ended."""
    if main is None:
        return 0.0
    own = main.cpu_times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in main.children():
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total
