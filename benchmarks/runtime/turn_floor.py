"""A turn with one tool call beside what physics asks of it: its model calls, and a commit for each durable step.

A turn is a message, an answer that calls a tool, the tool's result, and an answer; both answers are streamed.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from psycopg.conninfo import make_conninfo

from benchmarks.harness.instant_model import TOOL
from benchmarks.harness.report import Report, TimedAction, median_ratio, run_interleaved
from benchmarks.harness.round_trips import count_round_trips
from benchmarks.harness.server import BenchmarkServer
from benchmarks.runtime.agent_turns import CONCURRENT_SESSIONS, MODEL, look, start_instant_model
from consolidator import Consolidator
from consolidator.clock import Clock
from consolidator.context.build import build_context
from consolidator.database import Connection, Database
from consolidator.llm.client import ModelClient
from consolidator.runtime.agent import Session
from consolidator.runtime.turn.generation import StreamedAnswer, stream_answer

TITLE = "a turn with one tool call, beside its floor"
ROUNDS = {"tiny": 2, "small": 40, "full": 150}
TURNS = {"tiny": 6, "small": 1000, "full": 1000}
MAX_ROUND_TRIPS = 10
COMMITS = 7  # durable steps: message and lease, call, answer, result, call, answer, delivery and release
_GROUP = {"tiny": 2, "small": 20, "full": 20}  # turns of which the median is taken, at both ends of a long session


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Measure round trips, processor time, the ratio to the floor, and a long session's last turns."""
    report = Report("turn-floor", TITLE, scale)
    async with start_instant_model() as url:
        report.add("round trips", await count_turn(server, url), "a turn", at_most=MAX_ROUND_TRIPS)
        async with _open_agent(server, url) as agent, agent.database.connection() as conn:
            await _measure_floor(agent, conn, ROUNDS[scale], report)
        async with _open_agent(server, url) as agent:
            await _measure_long_session(agent, agent.harness.client, TURNS[scale], _GROUP[scale], report)
    return report


async def count_turn(server: BenchmarkServer, model_url: str) -> int:
    """Return the round trips to the database that a turn of a session takes that had some turns before."""
    name = await server.create_migrated_database()
    async with count_round_trips(make_conninfo(server.dsn, dbname=name)) as counter:
        database = Database(counter.dsn, Clock())
        settings = server.default_settings().model_copy(update={"model": MODEL, "openai_base_url": model_url})
        try:
            async with Consolidator([look], settings=settings, database=database) as agent:
                session = await agent.open("bench:round-trips", MODEL)
                counts = []
                for _ in range(5):
                    before = counter.round_trips
                    await _take_turn(session)
                    counts.append(counter.round_trips - before)
        finally:
            await database.close()
    await server.drop_database(name)
    return min(counts)  # the first connects, and the heartbeat of a slow one asks, too


@asynccontextmanager
async def _open_agent(server: BenchmarkServer, url: str) -> AsyncIterator[Consolidator]:
    async with server.open_database(Clock()) as database:
        settings = server.default_settings().model_copy(update={"model": MODEL, "openai_base_url": url})
        async with Consolidator([look], settings=settings, database=database) as agent:
            yield agent


async def _measure_floor(agent: Consolidator, conn: Connection, rounds: int, report: Report) -> None:
    """Measure turns beside their floor, and the processor time of this process for each turn."""
    await conn.execute("create table floor (id bigint generated always as identity primary key, data jsonb)")
    used: dict[str, list[float]] = {}

    def opened(number: int) -> Any:
        return agent.open(f"bench:floor:{number}", MODEL, strategy="window", last=50)

    one = [await opened(0)]
    many = [await opened(1 + number) for number in range(CONCURRENT_SESSIONS)]
    actions = {
        "one": _turns(one, used.setdefault("one", [])),
        "many": _turns(many, used.setdefault("many", [])),
        "floor": _floor(agent.harness.client, conn),
    }
    await run_interleaved(min(10, rounds), *actions.values())
    used["one"].clear()
    used["many"].clear()
    seconds = dict(zip(actions, await run_interleaved(rounds, *actions.values()), strict=True))
    report.add(
        f"a turn / its model calls and {COMMITS} INSERTs", median_ratio(seconds["one"], seconds["floor"]),
        "of the time", at_most=1.8,
    )  # fmt: skip
    report.add("turns, one session", 1 / statistics.median(seconds["one"]), "/s")
    at_once = f"{CONCURRENT_SESSIONS} sessions at once"
    report.add(f"turns, {at_once}", CONCURRENT_SESSIONS / statistics.median(seconds["many"]), "/s")
    report.add("processor time, one session", statistics.median(used["one"]) * 1000, "ms a turn")
    report.add(f"processor time, {at_once}", statistics.median(used["many"]) * 1000, "ms a turn")


async def _measure_long_session(
    agent: Consolidator, client: ModelClient, turns: int, group: int, report: Report
) -> None:
    """Take many turns of one session, of the default strategy; the first and last ones beside bare model calls."""
    session = await agent.open("bench:long", MODEL)
    for _ in range(min(5, turns // 2)):  # until connections and statements are there
        await _take_turn(await agent.open("bench:warm", MODEL))
    seconds: list[float] = []
    for _ in range(turns):
        started = time.perf_counter()
        await _take_turn(session)
        seconds.append(time.perf_counter() - started)
    first, last = (statistics.median(part) for part in (seconds[:group], seconds[-group:]))
    report.add(f"turn {turns:,} / the first ones", last / first, "of the time", at_most=1.5)
    report.add("the first turns", first * 1000, "ms")
    report.add(f"turn {turns:,}", last * 1000, "ms")
    async with agent.database.connection() as conn:
        messages = (await build_context(conn, session.id)).messages
    short = await _time_bare_calls(client, messages[-2:], group)
    long = await _time_bare_calls(client, messages, group)
    report.add(f"its two model calls bare, of the messages of turn {turns:,}", long * 1000, "ms")
    report.add(f"turn {turns:,} / the first ones, without their model calls", (last - long) / (first - short))


async def _time_bare_calls(client: ModelClient, messages: Any, rounds: int) -> float:
    """Return the seconds of two model calls with these messages, in the median: they are encoded, sent and answered."""

    async def forget(*_: object) -> None:
        pass

    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        for _ in range(2):
            await stream_answer(
                client, {"model": MODEL, "messages": messages, "max_tokens": 100}, StreamedAnswer(), forget
            )
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _turns(opened: list[Session], used: list[float]) -> TimedAction:
    """Take a turn of each session at once; note the processor time of one."""

    async def turn() -> float:
        started, before = time.perf_counter(), _processor_seconds()
        await asyncio.gather(*map(_take_turn, opened))
        used.append((_processor_seconds() - before) / len(opened))
        return time.perf_counter() - started

    return turn


async def _take_turn(session: Session) -> None:
    async for _ in session.send(TOOL):
        pass
    assert session.result is not None
    assert session.result.executed_tool_count == 1


def _floor(client: ModelClient, conn: Connection) -> TimedAction:
    """Make the two model calls of a turn, streamed and read, and commit an INSERT for each of its durable steps."""
    definition = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    tools: Any = [{"type": "function", "function": {"name": TOOL, "description": "Look.", "parameters": definition}}]
    insert = "insert into floor (data) values (%s::jsonb)"
    row = ['{"text": "' + "x" * 200 + '"}']

    async def call(text: str) -> None:
        messages: Any = [{"role": "user", "content": text}]
        completions = client.get_client().chat.completions
        async for _ in await completions.create(model=MODEL, messages=messages, tools=tools, stream=True):
            pass

    async def floor() -> float:
        started = time.perf_counter()
        for text, commits in ((TOOL, 3), ("go on", COMMITS - 3)):
            await call(text)
            for _ in range(commits):
                await conn.execute(insert, row)
        return time.perf_counter() - started

    return floor


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
