"""Turns of the runtime with a model that answers at once: steps a second, the cost of a streamed token, waking."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.harness import synthetic_sessions
from benchmarks.harness.instant_model import LONG_PROMPT, TOKENS, TOOL
from benchmarks.harness.report import Report, TimedAction, median_ratio, run_interleaved
from benchmarks.harness.server import BenchmarkServer
from consolidator import Consolidator, NewEvent, tool
from consolidator.clock import Clock
from consolidator.context.build import advance_history
from consolidator.database import Database
from consolidator.llm.client import ModelClient
from consolidator.models.payload import EventType
from consolidator.runtime.agent import Session
from consolidator.runtime.turn import sessions
from consolidator.store.log import events

ROUNDS = {"tiny": 2, "small": 30, "full": 150}
CONCURRENT_SESSIONS = 8
MODEL = "stand-in"


@tool(idempotent=True, name=TOOL)
def look(path: str) -> str:
    """Look at a path."""
    return f"{path} is there"


@asynccontextmanager
async def start_instant_model() -> AsyncIterator[str]:
    """Start a model server in a process of its own and yield its base URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.harness.instant_model",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.stdin.close()
        await process.wait()


async def measure_agent(server: BenchmarkServer, scale: str, report: Report, lengths: Sequence[int]) -> None:
    """Measure waking sessions of several lengths, and turns beside bare calls of the same model."""
    async with _open_agent(server) as (agent, client):
        await _measure_wakes(agent, ROUNDS[scale], report, lengths)
        await _measure_turns(agent, client, ROUNDS[scale], report)


async def _measure_turns(agent: Consolidator, client: ModelClient, rounds: int, report: Report) -> None:
    agent_sessions = [await _open_session(agent, f"bench:turns:{number}") for number in range(CONCURRENT_SESSIONS)]
    actions = {
        "turn": _turn(agent_sessions[:1], "go on"),
        "turn with a tool": _turn(agent_sessions[:1], TOOL),
        "turns": _turn(agent_sessions, "go on"),
        "long": _turn(agent_sessions[:1], LONG_PROMPT),
        "bare": _bare_call(client, "go on"),
        "bare long": _bare_call(client, LONG_PROMPT),
    }
    await run_interleaved(min(2, rounds - 1), *actions.values())
    seconds = dict(zip(actions, await run_interleaved(rounds, *actions.values()), strict=True))
    median = {name: statistics.median(durations) for name, durations in seconds.items()}
    report.add("steps, one session", 1 / median["turn"], "/s")
    report.add("steps with a tool's call, one session", 2 / median["turn with a tool"], "/s")
    report.add(f"steps, {CONCURRENT_SESSIONS} sessions at once", CONCURRENT_SESSIONS / median["turns"], "/s")
    report.add(
        "a step beside the bare call of the model", median_ratio(seconds["turn"], seconds["bare"]), "of its time"
    )
    rounds_seconds = zip(seconds["long"], seconds["bare long"], seconds["turn"], seconds["bare"], strict=True)
    overhead = statistics.median((long - bare_long) - (turn - bare) for long, bare_long, turn, bare in rounds_seconds)
    report.add("a streamed token through the log, beside a bare one", max(overhead, 0) / TOKENS * 1e6 + 1e-9, "us more")
    report.add("a streamed token, bare", (median["bare long"] - median["bare"]) / TOKENS * 1e6, "us")


async def _measure_wakes(agent: Consolidator, rounds: int, report: Report, lengths: Sequence[int]) -> None:
    """Wake sessions of several lengths whose process was killed just after it asked the model."""
    actions = [_wake_after_kill(agent, await _write_session(agent, length)) for length in lengths]
    await run_interleaved(min(2, rounds - 1), *actions)
    seconds = await run_interleaved(rounds, *actions)
    for length, durations in zip(lengths, seconds, strict=True):
        report.add(f"waking a session of {length:,} events", statistics.median(durations) * 1000, "ms")
    name = f"waking: {lengths[-1]:,} / {lengths[0]:,} events"
    report.add(name, median_ratio(seconds[-1], seconds[0]), "of the time", at_most=1.5)


@asynccontextmanager
async def _open_agent(server: BenchmarkServer) -> AsyncIterator[tuple[Consolidator, ModelClient]]:
    async with start_instant_model() as url, server.open_database(Clock()) as database:
        settings = server.default_settings().model_copy(update={"model": MODEL, "openai_base_url": url})
        async with Consolidator([look], settings=settings, database=database) as agent:
            yield agent, agent.harness.client


async def _open_session(agent: Consolidator, key: str) -> Session:
    return await agent.open(key, MODEL, strategy="window", last=50)


def _turn(opened: Sequence[Session], text: str) -> TimedAction:
    """Send a message to several sessions at once, and read all answers."""

    async def send(session: Session) -> None:
        async for _ in session.send(text):
            pass

    async def turn() -> float:
        started = time.perf_counter()
        await asyncio.gather(*(send(session) for session in opened))
        return time.perf_counter() - started

    return turn


def _bare_call(client: ModelClient, text: str) -> TimedAction:
    """Stream an answer without the runtime."""
    messages: Any = [{"role": "user", "content": text}]

    async def call() -> float:
        started = time.perf_counter()
        stream = await client.get_client().chat.completions.create(model=MODEL, messages=messages, stream=True)
        async for _ in stream:
            pass
        return time.perf_counter() - started

    return call


async def _write_session(agent: Consolidator, length: int) -> Session:
    """Return a session of `length` events in which nothing is open."""
    session = await _open_session(agent, f"bench:wakes:{length}")
    database = agent.database
    rows = synthetic_sessions.prepare_session(7, length - 2)
    async with database.transaction() as conn:
        await events.load_each(conn, {session.id: rows}, now=database.clock.now())
    await agent.wake(session.id)
    async with database.connection() as conn:
        while await advance_history(conn, session.id):  # as its turns would have done, one after another
            continue
    return session


def _wake_after_kill(agent: Consolidator, session: Session) -> TimedAction:
    """Leave a session as a killed process leaves it, and wake it."""

    async def wake() -> float:
        message_seq = await sessions.send_message(agent.database, session.id, "go on")
        await _start_thinking(agent.database, session.id, message_seq)
        started = time.perf_counter()
        result = await agent.wake(session.id)
        seconds = time.perf_counter() - started
        assert result.finish_reason == "stop", result
        return seconds

    return wake


async def _start_thinking(database: Database, session_id: str, message_seq: int) -> None:
    """Log that the model was asked to answer a message."""
    data = {"message_id": f"killed-{message_seq}", "model": MODEL, "upto_seq": message_seq}
    async with database.connection() as conn:
        event = NewEvent(EventType.THINKING_START, data)
        await events.append(conn, session_id, [event], now=database.clock.now())
