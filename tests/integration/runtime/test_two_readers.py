"""Two who speak to one session in one process: each hears an answer, whoever drives it and whoever goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from consolidator import Session
from consolidator.database import Database
from consolidator.errors import SessionBusy, StaleEpoch
from consolidator.models.session import SessionRow
from consolidator.runtime.agent import VOID_NOTICE
from consolidator.runtime.session.lease import acquire_lease
from consolidator.runtime.turn import generation, sessions
from consolidator.runtime.turn import wake as waking
from consolidator.runtime.turn.harness import StepResult
from consolidator.runtime.turn.wake import wake_session
from consolidator.store.turns import lease as leases
from consolidator.testing import ModelServer, ScriptedReply
from consolidator.testing.kill_points import interrupt_at
from tests.nights import wait_until_counted
from tests.reuse import dsn, emptied
from tests.runtime import KEY, open_agent, send_and_collect
from tests.support import PATIENCE

__all__ = ["dsn", "emptied"]  # fixtures
SAID = "select count(*) = 2 from event where event_type = 'UserMessage'"


def create_reply(request: dict[str, Any]) -> ScriptedReply:
    """Answer the last message, in enough words for several chunks."""
    return ScriptedReply(text=f"Well: {request['messages'][-1]['content']}, and so on.")


@dataclass
class Window:
    """The moment between the first reader's release and its end, in which the second one acquires the session."""

    first: Session
    second: Session
    gave_back: asyncio.Event = field(default_factory=asyncio.Event)
    taken_up: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def wake(self, harness: Any, name: str, **options: Any) -> StepResult:
        """Block the first reader, which has released the session, until the second one has acquired it."""
        is_first = not self.gave_back.is_set()
        result = await wake_session(harness, name, **options)
        if is_first:
            self.gave_back.set()
            await self.taken_up.wait()
        return result

    async def recall(self, _: SessionRow, message: str) -> None:
        """Block the second reader, which is about to call the model."""
        if message == "second":
            self.taken_up.set()
            await self.go_on.wait()


@asynccontextmanager
async def window(database: Database) -> AsyncIterator[Window]:
    """Open a session twice, for two readers."""
    async with (
        asyncio.timeout(PATIENCE),
        ModelServer(answers=create_reply) as server,
        open_agent(database, server) as agent,
    ):
        moment = Window(await agent.open(KEY), await agent.open(KEY))
        agent.harness.recall = moment.recall
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(waking, "wake_session", moment.wake)
            yield moment


async def test_who_is_left_alone_hears_what_they_drive_themselves(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "BATCH_PIECES", 2)
    monkeypatch.setattr(generation, "BATCH_SECONDS", 30)
    async with (
        asyncio.timeout(PATIENCE),
        ModelServer(answers=create_reply) as server,
        open_agent(database, server) as agent,
    ):
        leaving = (await agent.open(KEY)).send("first")
        assert isinstance(leaving, AsyncGenerator)
        assert await anext(leaving) == "Well: first, "
        staying = asyncio.create_task(send_and_collect(await agent.open(KEY), "second"))
        await wait_until_counted(database, SAID)
        await leaving.aclose()
        assert (await staying).endswith("second, and so on.")


async def test_who_finds_the_other_ones_ears_closed_is_told_from_the_log(database: Database) -> None:
    async with window(database) as moment:
        first = asyncio.create_task(send_and_collect(moment.first, "first"))
        await moment.gave_back.wait()
        second = asyncio.create_task(send_and_collect(moment.second, "second"))
        assert await first == "Well: first, and so on."
        moment.go_on.set()
        assert await second == "Well: second, and so on."


async def test_who_speaks_into_the_other_ones_ears_is_not_held_when_these_go_away(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "BATCH_PIECES", 2)
    monkeypatch.setattr(generation, "BATCH_SECONDS", 30)
    async with window(database) as moment:
        leaving = moment.first.send("first")
        assert isinstance(leaving, AsyncGenerator)
        assert "".join([await anext(leaving) for _ in range(3)]) == "Well: first, and so on."
        more = asyncio.ensure_future(anext(leaving))
        await moment.gave_back.wait()
        first_taken_up, moment.taken_up = moment.taken_up, asyncio.Event()  # the first one stays as it is
        second = asyncio.create_task(send_and_collect(moment.second, "second"))
        await moment.taken_up.wait()
        moment.go_on.set()
        assert await more == "Well: second, "
        await leaving.aclose()
        assert not first_taken_up.is_set()
        assert await second == "Well: second, and so on."


async def test_what_was_heard_while_another_drove_is_not_told_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def overtaken(harness: Any, name: str, **options: Any) -> None:
        await wake_session(harness, name, **options)  # as another task of this process, which finds our ears
        raise SessionBusy(name)

    monkeypatch.setattr(waking, "wake_session", overtaken)
    async with ModelServer(answers=create_reply) as server, open_agent(database, server) as agent:
        assert await send_and_collect(await agent.open(KEY), "hello") == "Well: hello, and so on."


async def test_what_was_heard_of_an_answer_that_another_replaced_is_taken_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "BATCH_PIECES", 2)
    monkeypatch.setattr(generation, "BATCH_SECONDS", 30)

    def stop(_: str) -> None:
        raise StaleEpoch

    async def overtaken(harness: Any, name: str, **options: Any) -> None:
        with interrupt_at(1, stop, "after delivery"), suppress(StaleEpoch):
            await wake_session(harness, name, **options)
        listener = harness.listeners.pop(name)
        await wake_session(harness, name)  # as another process, which has no ears of ours
        harness.listeners[name] = listener
        raise SessionBusy(name)

    monkeypatch.setattr(waking, "wake_session", overtaken)
    async with ModelServer(answers=create_reply) as server, open_agent(database, server) as agent:
        assert (
            await send_and_collect(await agent.open(KEY), "hello")
            == f"Well: hello, {VOID_NOTICE}Well: hello, and so on."
        )


async def test_who_speaks_to_a_session_that_ends_before_it_is_heard_is_not_kept_waiting(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(harness: Any, name: str, **options: Any) -> Any:
        await sessions.end_session(database, name, reason="somebody else was done with it")
        async with database.connection() as conn:
            await leases.release(conn, name, 1)  # as whoever held it first
        return await wake_session(harness, name, **options)

    monkeypatch.setattr(waking, "wake_session", late)
    async with (
        asyncio.timeout(PATIENCE),
        ModelServer(answers=create_reply) as server,
        open_agent(database, server) as agent,
    ):
        session = await agent.open(KEY)
        assert await acquire_lease(database, session.id, seconds=PATIENCE) is not None
        assert await send_and_collect(session, "hello") == ""
        assert server.requests == []
