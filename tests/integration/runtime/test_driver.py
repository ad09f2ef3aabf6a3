"""The driver: due sessions are driven at once, by several replicas, and those that fail do not stop the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from consolidator import Consolidator, tool
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.database.notifications import NotificationListener
from consolidator.runtime.live import driver as driver_module
from consolidator.runtime.live.driver import MAX_RETRY_SECONDS, SessionDriver, retry_seconds
from consolidator.runtime.session.agent_defaults import SpawnRequest
from consolidator.runtime.turn import sessions
from consolidator.runtime.turn import wake as waking
from consolidator.runtime.turn.harness import MODEL_MISSING, TOOLS_MISSING
from consolidator.runtime.turn.sub_agents import create_sub_agent, read_result
from consolidator.testing import ModelServer, ScriptedReply
from consolidator.testing.kill_points import interrupt_at
from tests import nights
from tests.runtime import describe_log, open_agent, read_log
from tests.support import PATIENCE, SimulatedKill

NEVER = 3600.0  # seconds between two polls: only notifications count
SETTLED = "select count(*) from session where id = %s and not pending and lease_owner is null and wake_failures = 0"


@asynccontextmanager
async def open_driver(
    agent: Consolidator, *, poll_seconds: float = NEVER, concurrency: int = 4, listen: bool = True, **more: Any
) -> AsyncIterator[SessionDriver]:
    """Run a driver with an agent's tools and model until the block ends."""
    stop = asyncio.Event()
    listener = NotificationListener(agent.database)
    driver = SessionDriver(
        agent.harness, listener, concurrency=concurrency, poll_seconds=poll_seconds, **{"drain_seconds": 0.05, **more}
    )
    driving = asyncio.create_task(driver.run(stop))
    if listen:
        await listener.__aenter__()
        async with asyncio.timeout(PATIENCE):
            await listener.connected.wait()
    try:
        yield driver
    finally:
        stop.set()
        await driving
        await listener.__aexit__(None, None, None)


async def open_and_send(agent: Consolidator, number: int, text: str = "hello?") -> str:
    """Send a message to a session of its own, and return the session's id."""
    session = await agent.open(f"main:test:{number}")
    await sessions.send_message(agent.database, session.id, text)
    return session.id


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - a driver offers no event to wait for
            await asyncio.sleep(0.01)


async def test_a_message_to_a_session_that_nobody_drives_is_answered_at_once(database: Database) -> None:
    async with (
        ModelServer(answers=["Good day."]) as server,
        open_agent(database, server) as agent,
        nights.open_replica(database) as other,
        open_driver(agent),
        open_agent(other, server) as client,
    ):
        for number in range(3):  # one after another: each is notified of
            session_id = await open_and_send(client, number)
            await nights.wait_until_counted(database, SETTLED, session_id)
            assert describe_log(await read_log(database, session_id))[-1] == "model: Good day."


async def test_without_notifications_sessions_are_found_by_polling(database: Database) -> None:
    async with (
        ModelServer(answers=["Good day."]) as server,
        open_agent(database, server) as agent,
        open_driver(agent, poll_seconds=0.02, listen=False),
    ):
        await nights.wait_until_counted(database, SETTLED, await open_and_send(agent, 1))


async def test_a_lost_connection_is_opened_again_and_what_came_meanwhile_is_looked_for(database: Database) -> None:
    kill = (
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = current_database() and query ~ '^listen'"
    )
    async with (
        ModelServer(answers=["Good day."]) as server,
        open_agent(database, server) as agent,
        open_driver(agent) as driver,
    ):
        assert driver.listener is not None
        async with database.connection() as conn:
            assert (await conn.execute(kill)).rowcount == 1
        await wait_until(lambda: driver.listener is not None and not driver.listener.connected.is_set())
        session_id = await open_and_send(agent, 1)  # its notification is heard by nobody
        await nights.wait_until_counted(database, SETTLED, session_id)


async def test_a_session_that_fails_waits_longer_each_time_while_others_go_on(
    database: Database, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[str] = []
    poisoned: set[str] = set()
    wake = waking.wake_session

    async def wake_with_failure(harness: Any, session_id: str, **options: Any) -> Any:
        if session_id in poisoned:
            attempts.append(session_id)
            raise RuntimeError("nobody thought of that")
        return await wake(harness, session_id, **options)

    monkeypatch.setattr(driver_module, "wake_session", wake_with_failure)
    failing = "select wake_failures from session where id = %s and wake_after > %s"
    async with (
        ModelServer(answers=["Good day."]) as server,
        open_agent(database, server) as agent,
        open_driver(agent, poll_seconds=0.02, concurrency=1) as driver,
    ):
        for number in range(4):
            poisoned.add((await agent.open(f"main:test:poison{number}")).id)
        for session_id in poisoned:
            await sessions.send_message(database, session_id, "hello?")
        for number in range(3):
            await nights.wait_until_counted(database, SETTLED, await open_and_send(agent, number))
        bad = min(poisoned)
        for count in range(1, 4):
            await wait_until(lambda count=count: attempts.count(bad) == count)  # type: ignore[misc]
            await nights.wait_until_counted(database, failing, bad, clock.now())
            assert await nights.query_number(database, failing, bad, clock.now()) == count
            assert driver.concurrency == 1
            clock.set(clock.now() + timedelta(seconds=2.0**count))
        poisoned.clear()
        clock.set(clock.now() + timedelta(seconds=MAX_RETRY_SECONDS))
        await nights.wait_until_counted(database, SETTLED, bad)


def test_waiting_doubles_up_to_a_cap_and_differs() -> None:
    spans = [[retry_seconds(failures) for _ in range(50)] for failures in (1, 2, 5, 40, 1000)]
    longest = [1.0, 2.0, 16.0, MAX_RETRY_SECONDS, MAX_RETRY_SECONDS]
    for span, most in zip(spans, longest, strict=True):
        assert all(most / 2 <= seconds <= most for seconds in span)
        assert len(set(span)) > 1


async def test_an_unavailable_model_is_asked_again_and_a_new_message_does_not_wait_for_that(
    database: Database, clock: FrozenClock
) -> None:
    is_down = True

    def answer(_: dict[str, Any]) -> ScriptedReply:
        return ScriptedReply.failed(503) if is_down else ScriptedReply(text="Here I am.")

    async with (
        ModelServer(answers=answer) as server,
        open_agent(database, server) as agent,
        open_driver(agent),
    ):
        session_id = await open_and_send(agent, 1)
        failed = "select count(*) from session, event where event_type = 'Error' and wake_failures = 1 and pending"
        await nights.wait_until_counted(database, f"{failed} and lease_owner is null")
        asked = len(server.requests)
        is_down = False
        await sessions.send_message(database, session_id, "and now?")
        await nights.wait_until_counted(database, SETTLED, session_id)
    assert asked == 3  # within one wake
    assert describe_log(await read_log(database, session_id))[-1] == "model: Here I am."


@tool(idempotent=True)
def look(what: str) -> str:
    """Look at something."""
    return what


async def test_a_session_whose_tools_are_missing_is_left_alone_told_once_and_reported(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    async with ModelServer(answers=["Good day."]) as server:
        async with open_agent(database, server, [look]) as handy:
            needy = await open_and_send(handy, 1)
        async with (
            open_agent(database, server) as agent,
            open_driver(agent, poll_seconds=0.02) as driver,
        ):
            await nights.wait_until_counted(database, SETTLED, await open_and_send(agent, 2))
            await wait_until(lambda: bool(driver.report()["without_tools"]))
            driver._reported_at = -NEVER
            await asyncio.sleep(0.1)
            assert driver.report()["without_tools"] == [{"session": needy, "missing": ["look"]}]
    assert caplog.text.count(f"session {needy} is left alone: it uses tools that are missing here: look") == 1
    noted = "select wake_failures, wake_after, error from session where id = %s"
    told = f"{TOOLS_MISSING}look; start the service with them (--tools)"
    assert await nights.query_rows(database, noted, needy) == [{"wake_failures": 0, "wake_after": None, "error": told}]


async def test_the_error_of_missing_tools_ends_when_the_session_is_driven_with_them(database: Database) -> None:
    errors: list[str | None] = []

    @tool(needs_approval=True)
    def publish() -> str:
        """Publish."""
        return "published"

    calls = [ScriptedReply.calling(("publish", {})), ScriptedReply(text="Done.")]
    async with ModelServer(answers=calls) as server:
        async with open_agent(database, server, [publish]) as handy:
            needy = await open_and_send(handy, 1)
        async with open_agent(database, server) as agent, open_driver(agent):
            await nights.wait_until_counted(database, "select count(*) from session where error is not null")
        async with open_agent(database, server, [publish]) as handy, open_driver(handy):
            await nights.wait_until_counted(database, f"{SETTLED} and attention <> '{{}}'", needy)
            errors.append((await (await handy.session(needy)).info()).error)
    assert errors == [None]  # though its turn has not ended: it waits for a person


async def test_a_session_without_a_model_says_so_until_a_driver_has_one(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    errors = "select error from session where error is not null"
    async with ModelServer(answers=["Good day."]) as server:
        async with open_agent(database, server) as agent:
            needy = await open_and_send(agent, 1)
            settings = agent.harness.settings.model_copy(update={"model": None})
            stop = asyncio.Event()
            driving = asyncio.create_task(SessionDriver(replace(agent.harness, settings=settings)).run(stop))
            await nights.wait_until_counted(database, "select count(*) from session where error is not null")
            stop.set()
            await driving
            assert await nights.query_rows(database, errors) == [{"error": MODEL_MISSING}]
            async with open_driver(agent):
                await nights.wait_until_counted(database, SETTLED, needy)
        assert await nights.query_rows(database, errors) == []
    assert caplog.text.count(f"session {needy} is left alone: it waits for a model") == 1


async def test_who_drives_nothing_notes_no_missing_tools_and_neither_is_noted_what_is_held(database: Database) -> None:
    async with ModelServer(answers=["Good day."]) as server, open_agent(database, server) as agent:
        async with open_agent(database, server, [look]) as handy:
            await open_and_send(handy, 1)
            held = await open_and_send(handy, 2)
        async with database.connection() as conn:
            await conn.execute(
                "update session set lease_owner = 'm/1/1', lease_until = %s where id = %s",
                (database.clock.now() + timedelta(minutes=1), held),
            )
        async with open_driver(agent, concurrency=0) as driver:
            await wait_until(lambda: len(driver.report()["without_tools"]) == 2)
        errors = "select count(*) from session where error is not null"
        assert await nights.query_number(database, errors) == 0
        async with open_driver(agent):
            await nights.wait_until_counted(database, errors)
        assert await nights.query_number(database, errors + " and id = %s", held) == 0


@pytest.mark.parametrize("ends", ["done", "ended"])
async def test_a_sub_agent_whose_process_died_before_it_told_its_parent_is_finished(
    database: Database, ends: str
) -> None:
    """Nothing is pending then, in the sub-agent nor in its parent: no notification and no wake would come."""

    def die(_: str) -> None:
        raise SimulatedKill

    async with ModelServer(answers=["All is well."]) as server, open_agent(database, server) as agent:
        parent = await agent.open("main:test:parent")
        request = SpawnRequest(task="Look around.")
        child = await create_sub_agent(agent.harness, parent.id, request, call_id="c1", by="program")
        ending: Any = (
            agent.wake(child.id) if ends == "done" else sessions.end_session(database, child.id, reason="not needed")
        )
        with interrupt_at(1, die, "before commit sub-agent"), pytest.raises(SimulatedKill):
            await ending
        async with open_driver(agent):
            await nights.wait_until_counted(
                database, "select count(*) from event where event_type = 'SubAgentComplete'"
            )
        complete = (await read_log(database, parent.id))[-1]
        result = await read_result(database, child.id)
    expected = ("ok", None, "All is well.") if ends == "done" else ("error", "not needed", "")
    assert (result.status, result.reason, result.text) == expected
    assert (complete.data["status"], complete.data.get("reason")) == expected[:2]
    assert await nights.query_number(database, "select count(*) from session where config ? 'unfinished'") == 0


async def test_replicas_share_sessions_and_each_is_answered_once(database: Database) -> None:
    async with (
        ModelServer(answers=[ScriptedReply(text="Good day to you.", pace=0.01)]) as server,
        open_agent(database, server) as first,
        nights.open_replica(database) as other,
        open_agent(other, server) as second,
        open_driver(first, concurrency=3, poll_seconds=0.05),
        open_driver(second, concurrency=3, poll_seconds=0.05),
    ):
        names = [await open_and_send(first, number) for number in range(12)]
        for name in names:
            await nights.wait_until_counted(database, SETTLED, name)
        assert len(server.requests) == 12
        for name in names:
            assert describe_log(await read_log(database, name))[1:] == [
                "user: hello?", "ThinkingStart", "model: Good day to you.",
            ]  # fmt: skip


async def test_a_driver_that_stops_hands_its_steps_to_another(database: Database) -> None:
    stalled = ScriptedReply(text="This answer does not end.", stall_after=2)
    replies = [stalled, ScriptedReply(text="This one does.")]
    async with (
        ModelServer(answers=replies) as server,
        open_agent(database, server) as first,
        nights.open_replica(database) as other,
        open_agent(other, server) as second,
    ):
        async with open_driver(first):
            session_id = await open_and_send(first, 1)
            await nights.wait_until_counted(database, "select count(*) from generation_chunk")
        row = await nights.query_rows(database, "select pending, lease_owner, wake_failures, wake_after from session")
        assert row == [{"pending": True, "lease_owner": None, "wake_failures": 0, "wake_after": None}]
        async with open_driver(second):
            await nights.wait_until_counted(database, SETTLED, session_id)
    assert describe_log(await read_log(database, session_id))[-3:] == [
        "decision: generation_replaced", "ThinkingStart", "model: This one does.",
    ]  # fmt: skip


async def test_a_step_that_ends_in_time_is_finished_and_the_next_one_is_anothers(database: Database) -> None:
    called, may_end = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        """Work for a while, with an effect that must not be repeated."""
        called.set()
        await may_end.wait()
        return "worked"

    replies = [ScriptedReply.calling(("work", {})), ScriptedReply(text="It is done.")]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [work]) as agent:
        async with open_driver(agent, drain_seconds=PATIENCE):
            session_id = await open_and_send(agent, 1)
            async with asyncio.timeout(PATIENCE):
                await called.wait()
            asyncio.get_running_loop().call_later(0.05, may_end.set)
        log = describe_log(await read_log(database, session_id))
        assert log[-1] == "result: work ok"
        async with open_driver(agent):
            await nights.wait_until_counted(database, SETTLED, session_id)
    assert describe_log(await read_log(database, session_id))[-1] == "model: It is done."


async def test_the_look_for_due_sessions_reads_the_index_of_pending_ones(database: Database) -> None:
    from psycopg.types.json import Jsonb

    from consolidator.store.turns import lease

    async with database.owner_connection() as conn:
        await conn.execute(
            "insert into session (id, agent, root_id, created_at, last_event_at, last_occurred_at, pending) "
            "select 's' || n, 'a', 's' || n, now(), now(), now(), n % 500 = 0 from generate_series(1, 5000) n"
        )
        await conn.execute("analyze session")
        values = {
            "now": database.clock.now(), "machine": "m/", "tools": Jsonb([]), "has_model": True, "excluded": [],
            "limit": 4,
        }  # fmt: skip
        plan = await (await conn.execute("explain " + lease._SQL["list_due"], values)).fetchall()
    assert any("session_pending" in line for (line,) in plan), plan
