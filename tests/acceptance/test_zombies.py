"""Zombies: a process that slept while its lease ran out, and was overtaken, changes nothing when it comes back."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from ulid import ULID

from consolidator import CallContext, Consolidator, tool
from consolidator.clock import Clock, FrozenClock
from consolidator.database import Database
from consolidator.errors import StaleEpoch
from consolidator.runtime.session import lease
from consolidator.runtime.session.boundaries import set_hook
from consolidator.runtime.session.lease import uptime
from consolidator.runtime.turn import generation, sessions
from consolidator.testing import ModelServer, kill_points
from tests.acceptance import matrix
from tests.acceptance.matrix import Matrix
from tests.acceptance.matrix_agent import ForkServer
from tests.runtime import RecordingChannel, open_agent
from tests.support import FULL, PATIENCE, assert_invariants

EVERYTHING = (
    "select to_jsonb(e)::text from event e where session_id = %(id)s "
    "union all select to_jsonb(c)::text from generation_chunk c where session_id = %(id)s "
    "union all select to_jsonb(d)::text from delivery d where session_id = %(id)s "
    "union all select to_jsonb(s)::text from session s where id = %(id)s "
    "union all select to_jsonb(p)::text from spend p where session_id = %(id)s"
)


class World:
    """What two harnesses do outside the database; `mine` is the first one's channel, `theirs` the overtaking one's."""

    def __init__(self) -> None:
        self.effects: list[tuple[str, str]] = []
        self.mine = RecordingChannel()
        self.theirs = RecordingChannel()

    def tools(self) -> list[Any]:
        @tool(idempotent=True)
        async def look(what: str, call: CallContext) -> str:
            """Look."""
            self.effects.append(("look", call.call_id))
            return "seen"

        @tool
        async def send_mail(to: str, call: CallContext) -> str:
            """Send a mail."""
            self.effects.append(("send_mail", call.call_id))
            return "sent"

        return [look, send_mail]

    def count_effects(self) -> int:
        """Return how many effects and deltas the outside saw."""
        return len(self.effects) + len(self.mine.deltas) + len(self.theirs.deltas)


@dataclass
class OtherHarness:
    """A harness in its own thread, which works while the test stands still; and the world of both."""

    world: World
    url: str
    loop: asyncio.AbstractEventLoop
    database: Database
    agent: Consolidator

    def finish(self, session_id: str) -> tuple[Counter[str], int]:
        """Wake a session until nothing is open; return its rows, and how many effects the outside saw."""

        async def work() -> tuple[Counter[str], int]:
            assert (await self.agent.wake(session_id)).finish_reason in ("stop", "idle")
            return await load_all_rows(self.database, session_id), self.world.count_effects()

        return asyncio.run_coroutine_threadsafe(work(), self.loop).result(60)


@pytest.fixture
def other(dsn: str, clock: FrozenClock) -> Iterator[OtherHarness]:
    """Another harness, one hour later, and the model server of both."""
    ready: Future[OtherHarness] = Future()
    done = threading.Event()

    async def serve() -> None:
        world = World()
        async with (
            ModelServer(answers=matrix.create_reply) as server,
            open_database(dsn, FrozenClock(clock.now() + timedelta(hours=1))) as database,
            open_agent(database, server, world.tools(), channel=world.theirs) as agent,
        ):
            ready.set_result(OtherHarness(world, server.url, asyncio.get_running_loop(), database, agent))
            await asyncio.to_thread(done.wait)

    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(asyncio.run, serve())
        try:
            yield ready.result(PATIENCE)
        finally:
            done.set()
            serving.result(PATIENCE)


@asynccontextmanager
async def open_database(dsn: str, clock: Clock) -> AsyncIterator[Database]:
    """Open a database and close it."""
    database = Database(dsn, clock, pool_size=6)
    try:
        yield database
    finally:
        await database.close()


async def load_all_rows(database: Database, session_id: str) -> Counter[str]:
    """Return all rows of a session, as JSON."""
    async with database.connection() as conn:
        return Counter(row[0] for row in await (await conn.execute(EVERYTHING, {"id": session_id})).fetchall())


async def test_a_harness_that_is_overtaken_at_any_boundary_changes_nothing(
    database: Database,
    other: OtherHarness,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    monkeypatch.setattr(generation, "BATCH_PIECES", 3)
    monkeypatch.setattr(generation, "BATCH_SECONDS", 30)  # so that each run passes the same boundaries
    world = other.world
    async with open_agent(database, other.url, world.tools(), channel=world.mine) as agent:
        session = await _open_with_message(agent)
        with kill_points.record_boundaries() as passed:
            await agent.wake(session)
        assert len(passed) > 30
        last = {name: number for number, name in enumerate(passed, 1)}
        record_property(
            "summary", f"zombies: overtaken at {len(passed) - 1 if FULL else len(last)} of {len(passed)} boundaries"
        )
        for number, name in enumerate(passed, 1):
            if number == 1 or (last[name] != number and not FULL):  # at the first boundary it holds no lease yet
                continue
            running = passed[: number - 1].count("before tool") - passed[: number - 1].count("after tool")
            try:
                await _assert_overtaken(agent, other, number, running)
            except AssertionError as error:
                error.add_note(f"overtaken at boundary {number}, {name}")
                raise
    await assert_invariants(database)


async def _open_with_message(agent: Consolidator) -> str:
    """Send a message in a new session, and return its id."""
    session = await agent.open(f"main:test:{ULID()}")
    await sessions.send_message(agent.database, session.id, "use tools")
    return session.id


async def _assert_overtaken(agent: Consolidator, other: OtherHarness, number: int, running: int) -> None:
    """Let another harness overtake the first one at its n-th boundary, while `running` tools run in it."""
    session, world = await _open_with_message(agent), other.world
    then: list[tuple[Counter[str], int]] = []
    with pytest.MonkeyPatch.context() as patch:

        def overtake(_: str) -> None:
            set_hook(None)
            then.append(other.finish(session))
            patch.setattr(lease, "uptime", lambda: uptime() + 3600)

        with kill_points.interrupt_at(number, overtake), suppress(StaleEpoch):
            await agent.wake(session)
    [(before, seen)] = then
    now = await load_all_rows(agent.database, session)
    assert not before - now
    _assert_only_deliveries(world, [json.loads(line) for line in (now - before).elements()])
    assert seen <= world.count_effects() <= seen + running, "it did more than end the tools that ran in it already"
    mails = [call for name, call in world.effects if name == "send_mail"]
    assert len(mails) == len(set(mails))
    seen = world.count_effects()
    assert (await agent.wake(session)).finish_reason == "idle"
    assert world.count_effects() == seen, "what was done was done again"


def _assert_only_deliveries(world: World, more: list[dict[str, Any]]) -> None:
    """Assert that the only new rows are deliveries that were truly made."""
    sent = {(delta.message_id, delta.seq) for delta in world.mine.deltas}
    assert all("sent_at" in row for row in more), more
    assert {(row["message_id"], row["upto_seq"]) for row in more} <= sent


async def test_a_process_that_was_stopped_comes_back_to_nothing(
    database: Database, other: OtherHarness, environment: dict[str, str], tmp_path: Path
) -> None:
    async with start_two_processes(environment) as forkers:
        await _assert_stopped(*(Matrix(forker, database, other.url, tmp_path) for forker in forkers))


@asynccontextmanager
async def start_two_processes(environment: dict[str, str]) -> AsyncIterator[list[ForkServer]]:
    """Start two fork servers."""
    forkers = [ForkServer(environment) for _ in range(2)]
    try:
        yield forkers
    finally:
        for forker in forkers:
            await asyncio.to_thread(forker.close)


async def _assert_stopped(sleeper: Matrix, other: Matrix) -> None:
    """Suspend a harness in the middle of a turn, let another one finish the turn, then continue the first one."""
    database = sleeper.database
    request = {**sleeper.new_run("tools"), "lease": 6, "stop": 36}
    sleeping = asyncio.create_task(asyncio.to_thread(sleeper.run_child, request))
    asleep = Path(request["world"]) / "asleep"
    async with asyncio.timeout(PATIENCE):
        while not asleep.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
        report = None
        while report in (None, {"finish": "busy"}):
            await asyncio.sleep(0.1)
            report = await asyncio.to_thread(other.run_child, {**request, "stop": 0, "do": [["wake"]]})
    assert report is not None
    assert report["finish"] == "stop"
    outcome = await matrix.inspect_run(database, request)
    assert outcome is not None
    session = outcome.row.id
    before = await load_all_rows(database, session)
    os.kill(int(asleep.read_text()), signal.SIGCONT)
    zombie = await sleeping
    assert zombie is not None
    assert zombie["finish"] == "stale"
    assert await load_all_rows(database, session) == before
    outcome = await matrix.inspect_run(database, request)
    assert outcome is not None
    matrix.assert_consistent(outcome, kills=1)
