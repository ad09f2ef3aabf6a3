"""Stopping a turn: what is under way ends, nothing said before is answered, and the session goes on."""

from __future__ import annotations

import asyncio

from consolidator import NewEvent, tool
from consolidator.database import Database
from consolidator.models.payload import EventType
from consolidator.runtime.turn import sessions
from consolidator.store.log import events
from consolidator.testing import ModelServer, ScriptedReply
from tests.integration.runtime.test_turns import deploy, look
from tests.runtime import KEY, Replies, describe_log, open_agent, read_log, send_and_collect


async def test_a_stopped_answer_stays_as_far_as_it_was_read_and_the_session_goes_on(database: Database) -> None:
    replies: Replies = [ScriptedReply(text="word " * 400, pace=0.01), "Gladly."]
    async with ModelServer(answers=replies) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        got = ""
        async for piece in session.send("tell me all"):
            if not got:
                await sessions.stop_turn(database, session.id)
            got += piece
        log, row = await read_log(database, session.id), await session.info()
        assert (row.pending, row.settled_to, row.status) == (False, row.head, "open")
        assert len(server.requests) == 1
        assert await sessions.stop_turn(database, session.id) is None  # nothing is under way
        assert await send_and_collect(session, "something else") == "Gladly."
    interrupted = next(event for event in log if event.data.get("finish") == "interrupted")
    assert got == interrupted.data["text"]
    assert len(got) < len("word " * 400)
    assert "stopped the turn" in str(server.requests[-1]["messages"])


async def test_a_stop_ends_calls_and_the_model_is_not_asked_again(database: Database) -> None:
    began = asyncio.Event()

    @tool
    async def wire(amount: int) -> str:
        """Wire money."""
        began.set()
        await asyncio.sleep(60)
        return "wired"

    replies: Replies = [ScriptedReply.calling(("wire", {"amount": 1}), ("look", {"what": "x"})), "Asked again."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [wire, look]) as agent:
        session = await agent.open(KEY)
        sending = asyncio.create_task(send_and_collect(session, "wire it"))
        await began.wait()
        await sessions.send_message(database, session.id, "and then?", mode="follow_up")
        await sessions.stop_turn(database, session.id)
        await sending
        row, words = await session.info(), describe_log(await read_log(database, session.id))
        assert len(server.requests) == 1
    assert [line for line in words if line.startswith("result")] == [
        "result: wire uncertain",
        "result: look error aborted",
    ]
    assert (row.pending, row.settled_to) == (False, row.head)


async def test_a_stop_takes_back_what_waits_for_a_person(database: Database) -> None:
    replies: Replies = [ScriptedReply.calling(("deploy", {"where": "north"})), "Asked again."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [deploy]) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "ship it")
        await sessions.stop_turn(database, session.id)
        await agent.wake(session.id)
        row, words = await session.info(), describe_log(await read_log(database, session.id))
        assert len(server.requests) == 1
    assert "result: deploy error aborted" in words
    assert (row.attention, row.pending, row.settled_to) == ({}, False, row.head)


async def test_a_stop_holds_though_the_process_died_that_was_asked(database: Database) -> None:
    async with ModelServer(answers=["Asked again."]) as server, open_agent(database, server, [look]) as agent:
        session = await agent.open(KEY)
        await sessions.send_message(database, session.id, "look at it")
        call = {"call_id": "c", "tool": "look", "arguments": {"what": "x"}, "message_id": "m", "group": 1}
        async with database.transaction() as conn:
            await events.append(
                conn,
                session.id,
                [
                    NewEvent(EventType.THINKING_START, {"message_id": "m", "upto_seq": 2}),
                    NewEvent(EventType.ASSISTANT_RESPONSE, {"text": "", "message_id": "m"}),
                    NewEvent(EventType.TOOL_CALL, {**call, "known": True}),
                ],
                now=database.clock.now(),
            )
        await sessions.stop_turn(database, session.id)
        await agent.wake(session.id)
        row = await session.info()
    assert (len(server.requests), row.pending, row.settled_to) == (0, False, row.head)


async def test_a_message_that_nobody_drove_yet_is_stopped(database: Database) -> None:
    async with ModelServer(answers=["Asked."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await sessions.send_message(database, session.id, "tell me all")
        await sessions.stop_turn(database, session.id)
        await agent.wake(session.id)
        row = await session.info()
    assert (len(server.requests), row.pending, row.settled_to) == (0, False, row.head)
