"""Turns of the runtime with a model that answers at once: steps a second, what a streamed token costs, waking."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks import made
from benchmarks.instant import LONG, TOKENS, TOOL
from benchmarks.report import Report, Timed, by_turns, ratio
from benchmarks.server import Server
from consolidator import Consolidator, NewEvent, tool
from consolidator.clock import Clock
from consolidator.context.build import advance
from consolidator.database import Database
from consolidator.llm.client import ModelClient
from consolidator.models.payload import EventType
from consolidator.runtime import sessions
from consolidator.runtime.agent import Session
from consolidator.store.log import events

ROUNDS = {"tiny": 2, "small": 30, "full": 150}
AT_ONCE = 8
MODEL = "stand-in"


@tool(idempotent=True, name=TOOL)
def look(path: str) -> str:
    """Look at a path."""
    return f"{path} is there"


@asynccontextmanager
async def instant_model() -> AsyncIterator[str]:
    """Start a model's server in a process of its own and yield its base URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.instant", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.stdin.close()
        await process.wait()


async def measure_agent(server: Server, scale: str, report: Report, lengths: Sequence[int]) -> None:
    """Measure waking sessions of several lengths, and turns against bare calls of the same model."""
    async with _agent(server) as (agent, client):
        await _wakes(agent, ROUNDS[scale], report, lengths)
        await _turns(agent, client, ROUNDS[scale], report)


async def _turns(agent: Consolidator, client: ModelClient, rounds: int, report: Report) -> None:
    named = [await _opened(agent, f"bench:turns:{number}") for number in range(AT_ONCE)]
    things = {
        "turn": _turn(named[:1], "go on"),
        "turn with a tool": _turn(named[:1], TOOL),
        "turns": _turn(named, "go on"),
        "long": _turn(named[:1], LONG),
        "bare": _bare(client, "go on"),
        "bare long": _bare(client, LONG),
    }
    await by_turns(min(2, rounds - 1), *things.values())
    seconds = dict(zip(things, await by_turns(rounds, *things.values()), strict=True))
    median = {name: statistics.median(found) for name, found in seconds.items()}
    report.add("steps, one session", 1 / median["turn"], "/s")
    report.add("steps with a tool's call, one session", 2 / median["turn with a tool"], "/s")
    report.add(f"steps, {AT_ONCE} sessions at once", AT_ONCE / median["turns"], "/s")
    report.add("a step beside the bare call of the model", ratio(seconds["turn"], seconds["bare"]), "of its time")
    over = statistics.median((a - b) - (c - d) for a, b, c, d in zip(*_four(seconds), strict=True))
    report.add("a streamed token through the log, beside a bare one", max(over, 0) / TOKENS * 1e6 + 1e-9, "us more")
    report.add("a streamed token, bare", (median["bare long"] - median["bare"]) / TOKENS * 1e6, "us")


def _four(seconds: dict[str, list[float]]) -> tuple[Sequence[float], ...]:
    return seconds["long"], seconds["bare long"], seconds["turn"], seconds["bare"]


async def _wakes(agent: Consolidator, rounds: int, report: Report, lengths: Sequence[int]) -> None:
    """Wake sessions of several lengths that were killed when the model had just been asked, by turns."""
    things = [_killed(agent, await _grown(agent, length)) for length in lengths]
    await by_turns(min(2, rounds - 1), *things)
    seconds = await by_turns(rounds, *things)
    for length, found in zip(lengths, seconds, strict=True):
        report.add(f"waking a session of {length:,} events", statistics.median(found) * 1000, "ms")
    name = f"waking: {lengths[-1]:,} / {lengths[0]:,} events"
    report.add(name, ratio(seconds[-1], seconds[0]), "of the time", at_most=1.5)


@asynccontextmanager
async def _agent(server: Server) -> AsyncIterator[tuple[Consolidator, ModelClient]]:
    async with instant_model() as url, server.database(Clock()) as database:
        chosen = {"model": MODEL, "openai_base_url": url}
        settings = server.settings().model_copy(update=chosen)
        async with Consolidator([look], settings=settings, database=database) as agent:
            yield agent, agent.harness.client


async def _opened(agent: Consolidator, key: str) -> Session:
    return await agent.open(key, MODEL, strategy="window", last=50)


def _turn(named: Sequence[Session], text: str) -> Timed:
    """Say something in each of several sessions at once, and hear all answers."""

    async def one(session: Session) -> None:
        async for _ in session.send(text):
            pass

    async def turn() -> float:
        started = time.perf_counter()
        await asyncio.gather(*(one(session) for session in named))
        return time.perf_counter() - started

    return turn


def _bare(client: ModelClient, text: str) -> Timed:
    """Stream an answer without the runtime."""
    asked: Any = [{"role": "user", "content": text}]

    async def call() -> float:
        started = time.perf_counter()
        stream = await client.opened().chat.completions.create(model=MODEL, messages=asked, stream=True)
        async for _ in stream:
            pass
        return time.perf_counter() - started

    return call


async def _grown(agent: Consolidator, length: int) -> Session:
    """Return a session of so many events in which nothing is open."""
    session = await _opened(agent, f"bench:wakes:{length}")
    database = agent.database
    told = made.prepared(7, length - 2)
    async with database.transaction() as conn:
        await events.load_bulk(conn, session.id, told, now=database.clock.now())
    await agent.wake(session.id)
    async with database.connection() as conn:
        while await advance(conn, session.id):  # as its turns would have done, one after another
            continue
    return session


def _killed(agent: Consolidator, session: Session) -> Timed:
    """Leave a session as a process that was killed leaves it, and wake it."""

    async def wake() -> float:
        said = await sessions.say(agent.database, session.id, "go on")
        await _asked(agent.database, session.id, said)
        started = time.perf_counter()
        result = await agent.wake(session.id)
        took = time.perf_counter() - started
        assert result.finish_reason == "stop", result
        return took

    return wake


async def _asked(database: Database, session: str, said: int) -> None:
    told = {"message_id": f"killed-{said}", "model": MODEL, "upto_seq": said}
    async with database.connection() as conn:
        thinking = NewEvent(EventType.THINKING_START, told)
        await events.append(conn, session, [thinking], now=database.clock.now())
