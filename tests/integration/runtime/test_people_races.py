"""What people do to a session while others work on it: nothing acknowledged is lost, no word undoes another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from consolidator import tool
from consolidator.database import Connection, Database
from consolidator.errors import UsageError
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime.session import creation, lease
from consolidator.runtime.session.creation import SessionRequest
from consolidator.runtime.turn import sessions, step
from consolidator.settings import Settings
from consolidator.store import queries as queries_module
from consolidator.store.log import events
from consolidator.store.sessions import sessions as rows
from consolidator.store.turns import lease as marks
from consolidator.testing import ModelServer, ScriptedReply
from tests.integration.locks import wait_for_lock
from tests.reuse import dsn, emptied
from tests.runtime import KEY, describe_log, open_agent, read_log, send_and_collect

__all__ = ["dsn", "emptied"]  # fixtures


async def open_session(database: Database, key: str = KEY, **config: Any) -> str:
    """Open a session and return its id."""
    settings = Settings(home=Path("/nonexistent"))
    return (await creation.open_session(database, settings, key, SessionRequest(**config))).id


@asynccontextmanager
async def run_during(database: Database, *works: Any) -> AsyncIterator[Connection]:
    """Yield a transaction that commits when works, begun after the block, wait for its locks; then end them."""
    async with database.transaction() as conn:
        yield conn
        tasks = [asyncio.create_task(work) for work in works]
        await wait_for_lock(database, len(tasks))
    await asyncio.gather(*tasks)


async def test_a_message_that_comes_while_the_session_is_given_back_is_heard_of(database: Database) -> None:
    name = await open_session(database)
    await sessions.send_message(database, name, "first")
    acquired = await lease.acquire_lease(database, name, seconds=60)
    assert acquired is not None
    head = acquired.session.head
    async with run_during(database, sessions.send_message(database, name, "second", mode="follow_up")) as conn:
        await marks.release_settled(conn, name, acquired.epoch, settled=head, delivered=head, pending=False, head=head)
    async with database.connection() as conn:
        assert await marks.list_pending(conn) == [name]
    assert [line.split(": ")[-1] for line in describe_log(await read_log(database, name))][1:] == ["first", "second"]


async def test_a_message_that_comes_while_the_session_is_ended_is_refused(database: Database) -> None:
    name = await open_session(database)
    with pytest.raises(UsageError, match="has ended"):
        async with run_during(database, sessions.send_message(database, name, "too late")) as conn:
            await events.append(conn, name, [NewEvent(EventType.SESSION_END, {})], now=database.clock.now())
    assert describe_log(await read_log(database, name)) == ["SessionStart", "SessionEnd"]


async def test_two_openings_at_once_each_set_what_they_were_given(database: Database) -> None:
    name = await open_session(database)
    async with run_during(database, open_session(database, last=7), open_session(database, budget=5000)) as conn:
        await rows.lock(conn, [name])
    async with database.connection() as conn:
        config = (await rows.get(conn, name)).config
    assert config == {"last": 7, "budget": 5000}


async def test_of_two_that_are_made_current_at_once_the_key_names_the_last(database: Database) -> None:
    names = []
    for _ in range(3):
        names.append(await open_session(database))
        await sessions.release_key(database, names[-1])
    first, second, third = names
    await sessions.resume_session(database, third)
    async with run_during(
        database, sessions.resume_session(database, first), sessions.resume_session(database, second)
    ) as conn:
        await rows.lock(conn, [third])
    async with database.connection() as conn:
        session = await rows.get_current(conn, KEY)
        assert session is not None
        assert session.id in (first, second)


async def test_a_steer_that_comes_while_a_step_reads_the_session_is_answered_and_holds_nothing_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row was read after the view: a steer between them held a follow-up back, and was not shown itself."""
    loads = 0

    async def fetch_apart(conn: Connection, queries: Any) -> list[Any]:
        nonlocal loads
        first = await queries_module.fetch_together(conn, queries[:1])
        loads += len(server.requests) == 2  # the turn has ended, and a follow-up waits
        if loads == 2:  # of the step that asks the model
            loads += 1
            await sessions.send_message(database, session.id, "no, wait", mode="steer")
        return [*first, *await queries_module.fetch_together(conn, queries[1:])]

    @tool
    async def look(what: str) -> str:
        """Look at something."""
        await sessions.send_message(database, session.id, "and then", mode="follow_up")
        return what

    answers: list[Any] = [ScriptedReply.calling(("look", {"what": "a"})), "Done.", "Well.", "Then."]
    async with ModelServer(answers=answers) as server, open_agent(database, server, [look]) as agent:
        session = await agent.open(KEY)
        monkeypatch.setattr(step, "fetch_together", fetch_apart)
        await send_and_collect(session, "look")
    shown = [[message["content"] for message in request["messages"]] for request in server.requests]
    assert [messages[-1] for messages in shown] == ["look", "a", "and then", "no, wait"]
