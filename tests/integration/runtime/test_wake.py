"""What waking promises: nothing held while others work, only what is missing sent, one cost however long the log."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from consolidator import CallContext, Consolidator, tool
from consolidator.context import build
from consolidator.database import Database
from consolidator.errors import DatabaseUnavailable, StaleEpoch
from consolidator.models.payload import EventType
from consolidator.runtime.session import lease
from consolidator.runtime.turn import delivery, generation, sessions
from consolidator.runtime.turn import wake as waking
from consolidator.runtime.turn.harness import Delta
from consolidator.store.log import events
from consolidator.testing import ModelServer, ScriptedReply
from consolidator.testing.kill_points import interrupt_at
from tests.integration.database.test_server_restart import kill
from tests.integration.runtime.test_context_cost import count_touched_blocks
from tests.killing import is_write
from tests.nights import query_number
from tests.reuse import dsn, emptied
from tests.runtime import KEY, SECRET, RecordingChannel, Replies, describe_log, open_agent, read_log, send_and_collect
from tests.support import PATIENCE, SimulatedKill, assert_invariants, assistant_response, log_events, user_message

__all__ = ["dsn", "emptied"]  # fixtures
WHOLE = "one two three four five six seven"


def count_busy_connections(database: Database) -> int:
    """Count the connections that are in use."""
    return database.pool.used + database.step_pool.used


async def test_no_connection_is_held_while_a_model_a_tool_or_a_channel_works(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "POLL_SECONDS", 3600)  # a heartbeat takes one for a moment, whenever it beats
    busy_counts: list[tuple[str, int]] = []

    @tool
    async def work() -> str:
        """Work."""
        busy_counts.append(("tool", count_busy_connections(database)))
        return "done"

    async def channel(_: Delta) -> None:
        busy_counts.append(("channel", count_busy_connections(database)))

    def create_reply(request: dict[str, Any]) -> ScriptedReply:
        busy_counts.append(("model", count_busy_connections(database)))
        return (
            ScriptedReply(text="Done.")
            if request["messages"][-1]["role"] == "tool"
            else ScriptedReply.calling(("work", {}))
        )

    async with ModelServer(answers=create_reply) as server, open_agent(database, server, [work]) as agent:
        agent.harness.senders["test"] = channel
        session = await agent.open(KEY)
        await sessions.send_message(database, session.id, "go")
        await agent.wake(session.id)
    assert busy_counts == [("model", 0), ("tool", 0), ("model", 0), ("channel", 0)]


async def test_a_session_is_driven_and_spoken_to_with_a_single_connection(dsn: str, database: Database) -> None:
    """K3."""
    single = Database(dsn, database.clock, pool_size=1)
    async with single.connection() as conn:
        assert isinstance(conn, psycopg.AsyncConnection)
    assert psycopg.__version__.startswith("3.")

    @tool(idempotent=True)
    async def listen(call: CallContext) -> str:
        """Hear something in the middle of the turn."""
        async with asyncio.timeout(PATIENCE):
            await sessions.send_message(single, call.session_id, "and this", mode="follow_up")
        return "heard"

    try:
        replies: Replies = [ScriptedReply.calling(("listen", {})), "First.", "Second."]
        async with ModelServer(answers=replies) as server, open_agent(single, server, [listen]) as agent:
            assert await send_and_collect(await agent.open(KEY), "this") == "First.Second."
    finally:
        await single.close()


async def test_only_the_part_that_a_channel_did_not_acknowledge_is_sent_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "BATCH_PIECES", 2)
    monkeypatch.setattr(generation, "BATCH_SECONDS", 30)
    took: list[str] = []

    async def channel(delta: Delta) -> None:
        if len(took) == 2:
            took.append("-")
            raise ConnectionError("gone for a moment")
        took.append(delta.text)

    async with ModelServer(answers=[WHOLE]) as server, open_agent(database, server) as agent:
        agent.harness.senders["test"] = channel
        session = await agent.open(KEY)
        await sessions.send_message(database, session.id, "count")
        await agent.wake(session.id)
        assert took == ["one two ", "three four ", "-"]
        await agent.wake(session.id)
        await agent.wake(session.id)
    assert took == ["one two ", "three four ", "-", "five six ", "seven"]


async def test_a_channel_that_hangs_is_left_alone_until_the_next_wake(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "SEND_TIMEOUT", 0.01)
    channel = RecordingChannel()

    async def hanging(_: Delta) -> None:
        await asyncio.Event().wait()

    async with ModelServer(answers=[WHOLE]) as server, open_agent(database, server) as agent:
        agent.harness.senders["test"] = hanging
        session = await agent.open(KEY)
        await sessions.send_message(database, session.id, "count")
        async with asyncio.timeout(PATIENCE):
            assert (await agent.wake(session.id)).finish_reason == "stop"
        agent.harness.senders["test"] = channel
        monkeypatch.undo()
        await agent.wake(session.id)
    assert channel.text == WHOLE


async def test_a_reader_may_take_their_time(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "SEND_TIMEOUT", 0)
    async with ModelServer(answers=[WHOLE]) as server, open_agent(database, server) as agent:
        assert await send_and_collect(await agent.open(KEY), "count") == WHOLE
        owed = await query_number(database, "select count(*) from delivery")
    assert owed > 0


async def test_half_an_answer_that_a_steer_ends_after_a_crash_reaches_the_channel_first(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "BATCH_PIECES", 2)
    monkeypatch.setattr(generation, "BATCH_SECONDS", 30)
    channel = RecordingChannel()

    def die(_: str) -> None:
        raise SimulatedKill

    replies: Replies = [ScriptedReply(text=WHOLE, stall_after=4), "Short, then."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, channel=channel) as agent:
        session = await agent.open(KEY)
        await sessions.send_message(database, session.id, "count")
        with interrupt_at(2, die, "after commit chunk"), pytest.raises(SimulatedKill):
            await agent.wake(session.id)
        assert channel.text == "one two "
        await session.steer("shorter")
        await agent.wake(session.id)
        words = describe_log(await read_log(database, session.id))
    assert "model: one two three four  [interrupted]" in words
    assert channel.text == "one two three four Short, then."


async def test_calls_that_run_at_once_have_their_results_in_the_calls_order(database: Database) -> None:
    slow, running = asyncio.Event(), []

    @tool(idempotent=True)
    async def look(what: str) -> str:
        """Look."""
        running.append(what)
        if what == "first":
            await slow.wait()
        slow.set()
        return what

    calls = ScriptedReply.calling(*(("look", {"what": what}) for what in ("first", "second", "third")))
    async with ModelServer(answers=[calls, "Done."]) as server, open_agent(database, server, [look]) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "go")
        results = [event for event in await read_log(database, session.id) if event.type == EventType.TOOL_RESULT]
    assert running == ["first", "second", "third"]
    assert [event.data["content"] for event in results] == running


async def test_a_long_result_is_a_blob_in_the_log_and_cut_for_the_model(database: Database) -> None:
    """L7."""
    whole = "line of a log\n" * 20_000

    @tool(idempotent=True, max_result_bytes=1000)
    async def read() -> str:
        """Read."""
        return whole

    async with (
        ModelServer(answers=[ScriptedReply.calling(("read", {})), "Long."]) as server,
        open_agent(database, server, [read]) as agent,
    ):
        session = await agent.open(KEY)
        await send_and_collect(session, "read it")
        [result] = [event for event in await read_log(database, session.id) if event.type == EventType.TOOL_RESULT]
        async with database.connection() as conn:
            query = "select data ? 'data_ref' from event where session_id = %s and seq = %s"
            row = await (await conn.execute(query, [session.id, result.seq])).fetchone()
    assert row == (True,)
    assert result.data["content"] == whole
    shown = server.requests[-1]["messages"][-1]["content"]
    assert len(shown) < 1200
    assert "left out" in shown


async def test_a_session_that_fails_to_wake_does_not_keep_the_others(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with ModelServer(answers=["Good day."]) as server, open_agent(database, server) as agent:
        names = [(await agent.open(f"main:test:{n}")).id for n in range(3)]
        for name in names:
            await sessions.send_message(database, name, "hello")
        wake = waking.wake_session

        async def wake_with_failure(harness: Any, name: str) -> Any:
            if name == names[0]:
                raise RuntimeError(f"nobody thought of {SECRET}")
            return await wake(harness, name)

        monkeypatch.setattr(waking, "wake_session", wake_with_failure)
        woken = {woken_session.session_id: woken_session for woken_session in await agent.wake_all()}
    assert woken[names[0]].skip_reason == "RuntimeError: nobody thought of [redacted:github-token]"
    assert "nobody thought of" in caplog.text
    assert SECRET not in caplog.text
    assert all((result := woken[name].result) and result.finish_reason == "stop" for name in names[1:])


async def test_who_is_cancelled_while_a_steer_ends_their_work_is_cancelled(database: Database) -> None:
    """The cancellation of the work, which the steer asked for, must not be taken for our own."""
    ending, never = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        try:
            await never.wait()
        except asyncio.CancelledError:
            ending.set()
            await never.wait()

    async def drive(name: str) -> None:
        acquired = await lease.acquire_lease(database, name, seconds=3600)
        assert acquired is not None
        async with acquired:
            acquired.steer()
            await acquired.run_unless_steered(stubborn())

    await log_events(database, "s", [user_message("hello")])
    driving = asyncio.create_task(drive("s"))
    await ending.wait()
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    async with database.connection() as conn:
        row = await (await conn.execute("select lease_owner from session")).fetchone()
    assert row == (None,)


async def long_session(agent: Consolidator, key: str, turns: int) -> str:
    """Open a session with a past, which its steps have folded as it grew, and a question that nobody answered."""
    database, session = agent.database, await agent.open(key, strategy="window", last=50)
    prepared = [events.prepare(event) for event in (user_message("Again?"), assistant_response("Yes."))]
    async with database.transaction() as conn:
        await events.load_each(conn, {session.id: prepared * turns}, now=database.clock.now())
        await conn.execute("update session set settled_to = head, delivered_to = head where id = %s", [session.id])
    async with database.connection() as conn:
        while await build.advance_history(conn, session.id):
            continue
        await conn.execute("vacuum analyze event")
    await sessions.send_message(database, session.id, "And again?")
    return session.id


async def cost_of_waking(agent: Consolidator, session: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """Wake a session; return how many statements that took, and what its queries read: rows and pages."""
    queries: list[tuple[Any, Any]] = []
    execute = psycopg.AsyncCursor.execute

    async def noting(self: Any, query: Any, values: Any = None, **more: Any) -> Any:
        if not query.startswith("set "):  # of a new connection
            queries.append((query, values))
        return await execute(self, query, values, **more)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.AsyncCursor, "execute", noting)
        assert (await agent.wake(session)).finish_reason == "stop"
    reads = [
        (query, values) for query, values in queries if not is_write(query) and b"for update" not in query.encode()
    ]
    costs = [
        await count_touched_blocks(agent.database, query, values or {}) for query, values in reads if "select" in query
    ]
    return len(queries), sum(rows for rows, _ in costs), sum(pages for _, pages in costs)


async def test_waking_costs_the_same_however_long_the_log(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "POLL_SECONDS", 3600)  # a heartbeat asks, too, whenever it beats
    async with ModelServer(answers=["Yes."]) as server, open_agent(database, server) as agent:
        short = await long_session(agent, "main:test:short", 100)
        long = await long_session(agent, "main:test:long", 10_000)
        few = await cost_of_waking(agent, short, monkeypatch)
        many = await cost_of_waking(agent, long, monkeypatch)
    assert many[0] == few[0]
    assert many[1] <= few[1] + 10
    assert many[2] <= few[2] + 40


@pytest.mark.embedded
async def test_a_turn_in_which_postgresql_is_killed_and_restarted_goes_on(embedded: Database) -> None:
    done: list[str] = []

    @tool
    async def send_mail(call: CallContext) -> str:
        """Send a mail."""
        done.append(call.call_id)
        return "sent"

    def create_reply(request: dict[str, Any]) -> ScriptedReply:
        return (
            ScriptedReply(text=WHOLE)
            if request["messages"][-1]["role"] == "tool"
            else ScriptedReply.calling(("send_mail", {}))
        )

    channel = RecordingChannel()
    async with (
        ModelServer(answers=create_reply) as server,
        open_agent(embedded, server, [send_mail], channel=channel) as agent,
    ):
        session = await agent.open(KEY)
        await sessions.send_message(embedded, session.id, "go")
        for name in ("before commit response", "after tool", "after commit chunk"):
            with interrupt_at(1, lambda _: kill(embedded), name), suppress(DatabaseUnavailable, StaleEpoch):
                await agent.wake(session.id)
            async with embedded.connection() as conn:  # what drove it could not give it back
                await conn.execute("update session set lease_owner = null where id = %s", [session.id])
        await agent.wake(session.id)
        words, row = describe_log(await read_log(embedded, session.id)), await session.info()
    assert words[-1] == f"model: {WHOLE}"
    assert channel.text == WHOLE
    assert len(done) == len(set(done)) == sum(line.startswith("call: ") for line in words)
    assert (row.pending, row.settled_to) == (False, row.head)
    await assert_invariants(embedded)
