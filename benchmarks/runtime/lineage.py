"""A fork and a checkpoint of a long session, against the same of a short one: neither reads or copies its log."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable

from benchmarks.harness.report import Report, TimedAction, median_ratio, run_interleaved
from benchmarks.harness.server import BenchmarkServer
from consolidator.context.build import advance_history
from consolidator.database import Database
from consolidator.models.event import NewEvent, with_principals
from consolidator.models.payload import EventType
from consolidator.runtime.lineage.checkpoints import create_checkpoint, restore_checkpoint
from consolidator.runtime.lineage.children import ChildRequest, create_child
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.sessions import sessions
from consolidator.store.turns import lease

TITLE = "fork, checkpoint and restore, of a long session against a short one"
LENGTHS = {"tiny": (100, 1_000), "small": (100, 100_000), "full": (100, 100_000)}  # events
ROUNDS = {"tiny": 3, "small": 60, "full": 300}
_BATCH = 5000
_PATCH_EVERY = 50  # turns


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Fork, set a checkpoint and restore it, at the head and in the middle; both sessions are folded, as turns do."""
    report = Report("lineage", TITLE, scale)
    short, long = LENGTHS[scale]
    settings = Settings()
    async with server.open_database() as database:
        for name, length in (("short", short), ("long", long)):
            await write_session(database, name, length)
        async with database.connection() as conn:
            await conn.execute("vacuum analyze")

        def fork(name: str, at: int | None = None) -> Callable[[], Awaitable[object]]:
            return lambda: create_child(database, settings, name, ChildRequest(kind="fork", at=at))

        async def restore(name: str) -> None:
            await restore_checkpoint(database, settings, checkpoints[name])

        checkpoints = {name: (await create_checkpoint(database, name)).id for name in ("short", "long")}
        cases: dict[str, tuple[Callable[[], Awaitable[object]], Callable[[], Awaitable[object]]]] = {
            "fork": (fork("short"), fork("long")),
            "fork in the middle": (fork("short", short // 10 * 5), fork("long", long // 10 * 5)),
            "checkpoint": (
                lambda: create_checkpoint(database, "short"),
                lambda: create_checkpoint(database, "long"),
            ),
            "restore": (lambda: restore("short"), lambda: restore("long")),
        }
        for name, (of_short, of_long) in cases.items():
            await run_interleaved(3, timed(of_short), timed(of_long))
            shorts, longs = await run_interleaved(ROUNDS[scale], timed(of_short), timed(of_long))
            milliseconds = statistics.median(longs) * 1000
            report.add(f"{name} of {long:,} events", milliseconds, "ms", at_most=10)
            report.add(f"its ratio to {short} events", median_ratio(longs, shorts), "times")
        copied = await count_events(database)
        report.add("events copied by all of that", copied - short - long, "events", at_most=0)
    return report


async def write_session(database: Database, name: str, length: int) -> None:
    """Log a session of so many events, as the runtime leaves it: nothing is open, and its summary reaches its end."""
    async with database.connection() as conn:
        await sessions.open_session(conn, {"id": name, "agent": "coder"}, now=database.clock.now())
    for first in range(0, length, _BATCH):
        new = [turn_event(number) for number in range(first, min(first + _BATCH, length))]
        async with database.transaction(flushed=False) as conn:
            prepared = [events.prepare(event) for event in with_principals(new)]
            await events.load_each(conn, {name: prepared}, now=database.clock.now())
            for event in new:
                if event.data.get("state_patch"):
                    await lease.patch_state(conn, name, event.data["state_patch"])
    async with database.connection() as conn:
        await conn.execute("update session set settled_to = head, delivered_to = head where id = %s", [name])
        while await advance_history(conn, name):
            continue


def turn_event(number: int) -> NewEvent:
    """Return the next event of a log of turns: a message, a call, its result, an answer, a decision."""
    match number % 5:
        case 0:
            return NewEvent(EventType.USER_MESSAGE, {"text": f"message {number}: look at the next one, please"})
        case 1:
            return NewEvent(
                EventType.TOOL_CALL, {"call_id": f"call {number}", "tool": "look", "arguments": {"number": number}}
            )
        case 2:
            patch = {f"key {number % 7}": number} if number // 5 % _PATCH_EVERY == 0 else None
            result = {"call_id": f"call {number - 1}", "tool": "look", "content": "what was to be seen there " * 20}
            return NewEvent(EventType.TOOL_RESULT, {**result, **({"state_patch": patch} if patch else {})})
        case 3:
            return NewEvent(EventType.ASSISTANT_RESPONSE, {"text": f"answer {number}", "upto_seq": number})
        case _:
            return NewEvent(EventType.POLICY_DECISION, {"decision": "delivered"})


async def count_events(database: Database) -> int:
    """Return how many events the log has, but for the one with which each child begins."""
    async with database.connection() as conn:
        cursor = await conn.execute("select count(*) from event where event_type <> 'SessionStart'")
        row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


def timed(work: Callable[[], Awaitable[object]]) -> TimedAction:
    """Return an action that does some work once and returns its seconds."""

    async def run() -> float:
        started = time.perf_counter()
        await work()
        return time.perf_counter() - started

    return run
