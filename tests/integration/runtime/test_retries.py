"""What a turn owes people when a call of the model is cut off, killed, stopped by a cap, or tried again."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

import pytest

from consolidator import tool
from consolidator.database import Database
from consolidator.models.payload import EventType
from consolidator.runtime.turn import generation, sessions
from consolidator.runtime.turn.harness import Delta
from consolidator.testing import ModelServer, ScriptedReply
from consolidator.testing.kill_points import interrupt_at
from tests.reuse import dsn, emptied
from tests.runtime import KEY, RecordingChannel, Replies, describe_log, open_agent, read_log, send_and_collect
from tests.support import SimulatedKill, assert_invariants

__all__ = ["dsn", "emptied"]  # fixtures
WHOLE = "one two three four"
PREFILL: dict[str, Any] = {"prefill": "last_message"}


def die(_: str) -> None:
    raise SimulatedKill


@pytest.fixture(autouse=True)
def two_piece_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of two words."""
    monkeypatch.setattr(generation, "BATCH_PIECES", 2)
    monkeypatch.setattr(generation, "BATCH_SECONDS", 30)


async def test_what_is_said_while_an_answer_is_gone_on_with_is_answered(database: Database) -> None:
    """L16."""
    replies: Replies = [ScriptedReply(text=WHOLE, stall_after=2), WHOLE, "And that."]
    async with ModelServer(answers=replies, prefill=True) as server:
        async with open_agent(database, server, channel=RecordingChannel(), **PREFILL) as agent:
            session = await agent.open(KEY)
            await sessions.send_message(database, session.id, "count")
            with interrupt_at(1, die, "after delivery"), pytest.raises(SimulatedKill):
                await agent.wake(session.id)

        async def say_more(delta: Delta) -> None:
            if delta.seq == 2:
                await sessions.send_message(database, session.id, "and that?")

        async with open_agent(database, server, **PREFILL) as agent:
            agent.harness.senders["test"] = say_more
            await agent.wake(session.id)
            assert not (await (await agent.open(KEY)).info()).pending
            log = await read_log(database, session.id)
    words = describe_log(log)
    [resumed] = [event.data for event in log if event.data.get("decision") == "generation_resumed"]
    [whole, _] = [event.data for event in log if event.type is EventType.ASSISTANT_RESPONSE]
    assert (resumed["message_id"], resumed["prior_seq"], whole["text"]) == (whole["message_id"], 1, WHOLE)
    last = server.requests[1]["messages"][-1]
    assert (last["role"], WHOLE.startswith(last["content"]), last["content"] != "") == ("assistant", True, True)
    assert words[-1] == "model: And that."
    await assert_invariants(database)


async def test_a_call_of_tools_that_is_cut_off_costs_its_reserve(database: Database) -> None:
    cut = ScriptedReply(
        calls=(("look", {"what": "a"}),), finish_reason="tool_calls", disconnect=True, disconnect_after=1
    )
    async with ModelServer(answers=[cut]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "look")
        assert session.result is not None
        assert session.result.finish_reason == "error"
        row = await session.info()
    assert len(server.requests) == 3
    assert row.cost > 0
    assert row.reserved == 0


async def test_a_cap_that_ends_an_answer_to_be_gone_on_with_is_told_once(database: Database) -> None:
    channel = RecordingChannel()
    async with (
        ModelServer(answers=[ScriptedReply(text=WHOLE, stall_after=2)], prefill=True) as server,
        open_agent(database, server, channel=channel, **PREFILL) as agent,
    ):
        session = await agent.open(KEY, max_cost_usd=Decimal("0.01"))
        await sessions.send_message(database, session.id, "count")
        with interrupt_at(1, die, "after delivery"), pytest.raises(SimulatedKill):
            await agent.wake(session.id)
        async with database.connection() as conn:
            await conn.execute("update session set max_cost = 0.000001 where id = %s", [session.id])
        assert (await agent.wake(session.id)).finish_reason == "budget"
        assert (await agent.wake(session.id)).finish_reason == "idle"
        assert not (await session.info()).pending
        words = describe_log(await read_log(database, session.id))
    assert words.count("decision: budget_stop") == 1
    assert "model: one two  [interrupted]" in words
    await assert_invariants(database)


@pytest.mark.parametrize(
    "boundary_name",
    ["after send", "before delivery", "after delivery", "before commit decision", "after commit decision"],
)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "without its channel"])
async def test_whoever_was_shown_an_answer_that_is_replaced_is_told(
    database: Database, boundary_name: str, elsewhere: bool
) -> None:
    channel = RecordingChannel()
    replies: Replies = [ScriptedReply(text=WHOLE, stall_after=2), "Another."]
    async with ModelServer(answers=replies) as server:
        async with open_agent(database, server, channel=channel) as agent:
            session = await agent.open(KEY)
            await sessions.send_message(database, session.id, "count")
            with (
                interrupt_at(1, die, "after send" if "decision" in boundary_name else boundary_name),
                pytest.raises(SimulatedKill),
            ):
                await agent.wake(session.id)
        async with open_agent(database, server, channel=None if elsewhere else channel) as agent:
            if "decision" in boundary_name:
                with interrupt_at(1, die, boundary_name), pytest.raises(SimulatedKill):
                    await agent.wake(session.id)
            await agent.wake(session.id)
        async with open_agent(database, server, channel=channel) as agent:
            await agent.wake(session.id)
    assert [delta.text for delta in channel.deltas if delta.kind == "text"] == ["one two ", "Another."]
    assert channel.text == "Another."


async def test_whoever_was_shown_an_answer_that_was_given_up_elsewhere_is_told(database: Database) -> None:
    channel = RecordingChannel()
    async with ModelServer(
        answers=[ScriptedReply(text=WHOLE, stall_after=2), *[ScriptedReply.disconnecting(WHOLE, 3)] * 3]
    ) as server:
        async with open_agent(database, server, channel=channel) as agent:
            session = await agent.open(KEY)
            await sessions.send_message(database, session.id, "count")
            with interrupt_at(1, die, "after delivery"), pytest.raises(SimulatedKill):
                await agent.wake(session.id)
        async with open_agent(database, server) as agent:
            assert (await agent.wake(session.id)).finish_reason == "error"
        server.answers = ["At last."]
        async with open_agent(database, server, channel=channel) as agent:
            await agent.wake(session.id)
    assert channel.text.startswith("the model's server")
    assert channel.text.endswith("At last.")


async def test_a_follow_up_that_comes_while_the_next_call_is_prepared_waits_for_the_turn_to_end(
    database: Database,
) -> None:
    @tool(idempotent=True)
    async def look() -> str:
        """Look."""
        return "seen"

    replies: Replies = [ScriptedReply.calling(("look", {})), "Seen.", "And that."]
    request_count = 0

    async def recall(_: Any, __: str) -> str | None:
        nonlocal request_count
        request_count += 1
        if request_count == 2:
            await sessions.send_message(database, session.id, "and then that", mode="follow_up")
        return None

    async with ModelServer(answers=replies) as server, open_agent(database, server, [look]) as agent:
        agent.harness.recall = recall
        session = await agent.open(KEY)
        await sessions.send_message(database, session.id, "look at this")
        await agent.wake(session.id)
    assert [str(request["messages"]).count("and then that") for request in server.requests] == [0, 0, 1]


@pytest.mark.parametrize(("mode", "heard_by"), [("message", [0, 0, 1]), ("follow_up", [0, 0, 0, 1])])
async def test_a_call_that_is_tried_again_hears_what_was_said_while_it_waited_unless_that_waits_for_the_turn_to_end(
    database: Database, mode: Literal["message", "follow_up"], heard_by: list[int]
) -> None:
    @tool(idempotent=True)
    async def look() -> str:
        """Look."""
        return "seen"

    async def busy(_: float) -> None:
        await sessions.send_message(database, session.id, "and then that", mode=mode)

    replies: Replies = [ScriptedReply.calling(("look", {})), ScriptedReply.failed(503), "Seen.", "And that."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [look]) as agent:
        agent.harness.sleep = busy
        session = await agent.open(KEY)
        await sessions.send_message(database, session.id, "look at this")
        await agent.wake(session.id)
        assert not (await session.info()).pending
    assert [str(request["messages"]).count("and then that") for request in server.requests] == heard_by


async def test_an_outage_is_told_once_however_often_a_session_is_woken(database: Database) -> None:
    channel = RecordingChannel()
    async with (
        ModelServer(answers=[ScriptedReply.failed(503)]) as server,
        open_agent(database, server, channel=channel) as agent,
    ):
        session = await agent.open(KEY)
        await sessions.send_message(database, session.id, "hello")
        for _ in range(3):
            assert (await agent.wake(session.id)).finish_reason == "error"
        assert len(channel.deltas) == 1
        await sessions.send_message(database, session.id, "still there?")
        assert (await agent.wake(session.id)).finish_reason == "error"
        assert len(channel.deltas) == 2
        server.answers = ["Here I am."]
        assert (await agent.wake(session.id)).finish_reason == "stop"
    assert channel.text.endswith("Here I am.")
