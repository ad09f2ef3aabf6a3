"""Following sessions live: from a commit to each follower, and what following costs the writers."""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import time
from contextlib import aclosing
from datetime import UTC, datetime

from benchmarks.harness.report import Report, TimedAction, median_ratio, run_interleaved
from benchmarks.harness.server import BenchmarkServer
from benchmarks.harness.synthetic_sessions import generate_tool_result
from consolidator.clock import Clock
from consolidator.database import Database, partitions
from consolidator.database.partitions import Connection
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime.live.hub import FollowHub, open_hub
from consolidator.runtime.live.items import Cursor
from consolidator.store.log import events
from consolidator.store.sessions import sessions
from consolidator.store.turns import generation

TITLE = "from a commit to each follower, and what following costs the writers"
SESSIONS = {"tiny": 2, "small": 20, "full": 20}
FOLLOWERS = {"tiny": 6, "small": 200, "full": 200}
ANSWERS = {"tiny": 1, "small": 4, "full": 20}  # of each session
PIECES = 20  # of an answer
PIECE_SECONDS = 0.1  # between two pieces of a session
ROUNDS = {"tiny": 3, "small": 60, "full": 300}
APPENDS = 20


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Follow sessions that another process writes; then append to sessions with and without followers."""
    report = Report("followers", TITLE, scale)
    async with server.open_database() as database:
        found = await measure_latencies(database, SESSIONS[scale], FOLLOWERS[scale], ANSWERS[scale])
    latencies = [received for received, _ in found]
    commits = statistics.quantiles([commit for _, commit in found if commit], n=100)
    centiles = statistics.quantiles(latencies, n=100)
    report.add("from before the commit to a follower, median", centiles[49] * 1000, "ms")
    report.add("from before the commit to a follower, p95", centiles[94] * 1000, "ms", at_most=50)
    report.add("from before the commit to a follower, p99", centiles[98] * 1000, "ms")
    report.add("the commit of a piece alone, median", commits[49] * 1000, "ms")
    report.add("the commit of a piece alone, p95", commits[94] * 1000, "ms")
    report.add("received", len(latencies), "items")
    async with server.open_database() as database:
        await measure_appends(report, database, ROUNDS[scale])
    return report


async def measure_latencies(
    database: Database, session_count: int, follower_count: int, answers: int
) -> list[tuple[float, float]]:
    """Return the seconds that each item took to each of its followers, and what the commit took before it."""
    names = [f"s{number}" for number in range(session_count)]
    async with database.connection() as conn:
        now = database.clock.now()
        await partitions.ensure_ahead(conn, now)
        for name in names:
            await sessions.open_session(conn, {"id": name, "agent": "coder"}, now=now)
    writer = multiprocessing.get_context("spawn").Process(target=run_writers, args=(database.dsn, names, answers))
    async with open_hub(database) as hub:
        await hub.listener.connected.wait()
        following = [
            asyncio.create_task(follow_to_end(hub, names[number % session_count])) for number in range(follower_count)
        ]
        await asyncio.sleep(1)
        writer.start()
        found = await asyncio.gather(*following)
    await asyncio.to_thread(writer.join)
    return [seconds for latencies in found for seconds in latencies]


async def follow_to_end(hub: FollowHub, name: str) -> list[tuple[float, float]]:
    """Follow a session to its end; return how late each item was, and what the writer's commit before it took.

    Its text says both: when its writer began to commit it, and how long the piece before it took to commit.
    """
    latencies = []
    async with aclosing(hub.follow(name, Cursor())) as items:
        async for item in items:
            received = time.time()
            if item.piece is not None:
                commit, sent = map(float, item.piece.delta.split())
                latencies.append((received - sent, commit))
            elif item.event is not None and "sent" in item.event.data:
                latencies.append((received - float(item.event.data["sent"]), 0.0))
    return latencies


def run_writers(dsn: str, names: list[str], answers: int) -> None:
    """Write all sessions, in a process of its own."""
    asyncio.run(write_all(dsn, names, answers))


async def write_all(dsn: str, names: list[str], answers: int) -> None:
    """Write all sessions at once."""
    database = Database(dsn, Clock(), pool_size=2 * len(names))
    try:
        await asyncio.gather(*(write(database, name, answers, number) for number, name in enumerate(names)))
    finally:
        await database.close()


async def write(database: Database, name: str, answers: int, number: int) -> None:
    """Write answers in pieces, as a model streams them, then end the session."""
    await asyncio.sleep(number * PIECE_SECONDS / 20)
    for answer in range(answers):
        message_id = f"{name}-{answer}"
        started = await append(database, name, EventType.THINKING_START, message_id=message_id)
        took = 0.0
        for piece in range(PIECES):
            await asyncio.sleep(PIECE_SECONDS)
            async with database.connection() as conn:
                sent = time.time()
                await generation.append_chunks(
                    conn, name, message_id, [f"{took} {sent} "],
                    after=piece, started=started, epoch=0, now=database.clock.now(),
                )  # fmt: skip
                took = time.time() - sent
        await append(database, name, EventType.ASSISTANT_RESPONSE, message_id=message_id, text="words", chunks=PIECES)
    await append(database, name, EventType.SESSION_END)


async def append(database: Database, name: str, kind: EventType, **data: object) -> int:
    """Append an event that says when it was sent; return its seq."""
    async with database.connection() as conn:
        new = NewEvent(kind, {**data, "sent": time.time()})
        return (await events.append(conn, name, [new], now=database.clock.now())).last_seq


async def measure_appends(report: Report, database: Database, rounds: int) -> None:
    """Append to a session that nobody follows while others are followed or not, and to one that is followed."""
    async with database.connection() as conn, database.connection() as followed_conn, open_hub(database) as hub:
        now = database.clock.now()
        await partitions.ensure_ahead(conn, now)
        for name in ("alone", "followed"):
            await sessions.open_session(conn, {"id": name, "agent": "coder"}, now=now)
        following = asyncio.create_task(follow_to_end(hub, "followed"))
        await hub.listener.connected.wait()
        alone, followed = appender(conn, "alone"), appender(followed_conn, "followed")
        await run_interleaved(2, alone, followed)
        seconds_alone, seconds_followed = await run_interleaved(rounds, alone, followed)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    report.add("append to a session that nobody follows", APPENDS / statistics.median(seconds_alone), "events/s")
    report.add("append to one that is followed", APPENDS / statistics.median(seconds_followed), "events/s")
    report.add("their ratio", median_ratio(seconds_alone, seconds_followed), "of its rate")


def appender(conn: Connection, name: str) -> TimedAction:
    """Return an action that appends some events, one after another."""

    async def append_events() -> float:
        event = generate_tool_result(0)
        started = time.perf_counter()
        for _ in range(APPENDS):
            await events.append(conn, name, [event], now=datetime.now(UTC))
        return time.perf_counter() - started

    return append_events
