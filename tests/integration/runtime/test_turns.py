"""Turns of a session: what is said, called, allowed, steered; and every way in which a model can fail."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from consolidator import CallContext, NewEvent, Outcome, tool
from consolidator.database import Database
from consolidator.errors import NotFound, UsageError
from consolidator.llm.tokens import count_tokens
from consolidator.models.payload import EventType
from consolidator.runtime.turn import sessions
from consolidator.store.log import events
from consolidator.testing import ModelServer, ScriptedReply
from tests.nights import query_rows
from tests.runtime import KEY, SECRET, RecordingChannel, Replies, describe_log, open_agent, read_log, send_and_collect
from tests.support import assert_invariants


@tool(idempotent=True)
async def look(what: str) -> str:
    """Look at something."""
    return f"a view of {what}"


@tool
async def send_mail(to: str) -> Outcome:
    """Send a mail."""
    return Outcome(f"sent to {to}", patch={"mails": 1})


@tool(needs_approval=True)
async def deploy(where: str) -> str:
    """Deploy."""
    return f"deployed to {where}"


async def test_a_turn_is_answered_and_settled(database: Database) -> None:
    async with ModelServer(answers=["Good day."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        assert await send_and_collect(session, "hello") == "Good day."
        assert session.result is not None
        assert session.result.finish_reason == "stop"
        row = await session.info()
        words = describe_log(await read_log(database, session.id))
    assert words == ["SessionStart", "user: hello", "ThinkingStart", "model: Good day."]
    assert (row.settled_to, row.delivered_to, row.turns, row.pending) == (4, 4, 1, False)


async def test_what_is_said_next_is_answered_with_all_that_was_said_before(database: Database) -> None:
    async with ModelServer(answers=["One.", "Two."]) as server, open_agent(database, server) as agent:
        await send_and_collect(await agent.open(KEY), "first")
        await send_and_collect(await agent.open(KEY), "second")
    messages = [(message["role"], message["content"]) for message in server.requests[-1]["messages"]]
    assert messages == [("user", "first"), ("assistant", "One."), ("user", "second")]


async def test_calls_are_run_and_their_results_go_back_in_the_calls_order(database: Database) -> None:
    calls = ScriptedReply.calling(("look", {"what": "a"}), ("send_mail", {"to": "ines"}), text="I look. ")
    async with (
        ModelServer(answers=[calls, "Done."]) as server,
        open_agent(database, server, [look, send_mail]) as agent,
    ):
        session = await agent.open(KEY)
        assert await send_and_collect(session, "go") == "I look. Done."
        log = await read_log(database, session.id)
        state = (await session.info()).state
    assert describe_log(log)[3:] == [
        "model: I look. ", "call: look", "call: send_mail", "result: look ok", "result: send_mail ok", "ThinkingStart",
        "model: Done.",
    ]  # fmt: skip
    results = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "tool"]
    assert results == ["a view of a", "sent to ines"]
    assert state == {"mails": 1}


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("look", '{"what": ', "not run"),
        ("look", {}, "what"),
        ("look", {"what": "x", "more": 1}, "more"),
        ("fly", {}, "no tool named"),
        ("", {}, "no tool named"),
    ],
)
async def test_a_call_that_is_written_badly_has_an_outcome_that_the_model_reads(
    database: Database, name: str, arguments: Any, error: str
) -> None:
    async with (
        ModelServer(answers=[ScriptedReply.calling((name, arguments)), "I see."]) as server,
        open_agent(database, server, [look]) as agent,
    ):
        session = await agent.open(KEY)
        assert await send_and_collect(session, "go") == "I see."
        log = await read_log(database, session.id)
    assert [event.data["status"] for event in log if event.type == EventType.TOOL_RESULT] == ["error"]
    assert error in server.requests[-1]["messages"][-1]["content"]


async def test_a_call_waits_for_a_person_and_goes_on_after_their_word(database: Database) -> None:
    replies: Replies = [ScriptedReply.calling(("deploy", {"where": "north"})), "It is out."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [deploy]) as agent:
        session = await agent.open(KEY)
        assert await send_and_collect(session, "ship it") == ""
        assert session.result is not None
        assert session.result.finish_reason == "approval"
        waiting = (await session.info()).attention
        [(call, request)] = waiting.items()
        assert (request["kind"], request["tool"], request["arguments"]) == ("approval", "deploy", '{"where": "north"}')
        assert await sessions.decide_approval(database, call, allow=True) == session.id
        assert (await agent.wake(session.id)).finish_reason == "stop"
        words = describe_log(await read_log(database, session.id))
        with pytest.raises(NotFound, match="waits"):
            await sessions.decide_approval(database, call, allow=False)
    assert words[4:] == [
        "call: deploy", "ApprovalRequested", "ApprovalGranted", "decision: call_started", "result: deploy ok",
        "ThinkingStart", "model: It is out.",
    ]  # fmt: skip


async def test_a_denied_call_never_runs_and_the_model_is_told_why(database: Database) -> None:
    replies: Replies = [ScriptedReply.calling(("deploy", {"where": "north"}), ("look", {"what": "x"})), "As you wish."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [deploy, look]) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "ship it")
        [call] = (await session.info()).attention
        await sessions.decide_approval(database, call, allow=False, reason="not on a Friday")
        await agent.wake(session.id)
        words = describe_log(await read_log(database, session.id))
    assert "result: deploy error rejected" in words
    assert words.index("result: deploy error rejected") < words.index("result: look ok")
    assert any("not on a Friday" in str(message.get("content")) for message in server.requests[-1]["messages"])


async def test_a_steer_takes_back_what_waits_for_a_person(database: Database) -> None:
    replies: Replies = [ScriptedReply.calling(("deploy", {"where": "north"})), "Then not."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [deploy]) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "ship it")
        await session.steer("no, leave it")
        assert (await agent.wake(session.id)).finish_reason == "stop"
        row, words = await session.info(), describe_log(await read_log(database, session.id))
    assert "result: deploy error aborted" in words
    assert row.attention == {}


async def test_a_steer_stops_an_answer_and_keeps_what_was_read(database: Database) -> None:
    replies: Replies = [ScriptedReply(text="word " * 400, pace=0.01), "Short, then."]
    async with ModelServer(answers=replies) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        got = ""
        async for piece in session.send("tell me all"):
            if not got:
                await session.steer("shorter!")
            got += piece
        log = await read_log(database, session.id)
    interrupted = next(event for event in log if event.data.get("finish") == "interrupted")
    assert got == interrupted.data["text"] + "Short, then."
    assert len(interrupted.data["text"]) < len("word " * 400)


@pytest.mark.parametrize("usage", [{}, None])
async def test_i12_a_steered_answer_costs_what_was_streamed_of_it(database: Database, usage: Any) -> None:
    replies: Replies = [ScriptedReply(text="word " * 400, pace=0.01, usage=usage), ScriptedReply("Short.", usage=usage)]
    async with ModelServer(answers=replies) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        received = 0
        async for _ in session.send("tell me all"):
            received += 1
            if received == 1:
                await session.steer("shorter!")
        log, row = await read_log(database, session.id), await session.info()
        spent = await query_rows(database, "select input_tokens, output_tokens, cost from spend order by reserved_at")
    ended = [event.data for event in log if event.data.get("finish")]
    assert [data["finish"] for data in ended] == ["interrupted", "stop"]
    for data, call in zip(ended, spent, strict=True):
        assert (data["usage"]["input"], data["usage"]["output"]) == (call["input_tokens"], call["output_tokens"])
    assert count_tokens(ended[0]["text"]) <= ended[0]["usage"]["output"] < 400
    assert row.cost == sum(call["cost"] for call in spent)
    assert row.reserved == 0


async def test_i12_a_call_that_is_stopped_before_its_first_word_costs_its_context(database: Database) -> None:
    replies: Replies = [ScriptedReply("late", delay=60), "Short."]
    async with ModelServer(answers=replies) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        sending = asyncio.create_task(send_and_collect(session, "tell me all"))
        while not server.requests:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.01)
        await session.steer("shorter!")
        assert await sending == "Short."
        log = await read_log(database, session.id)
        spent = await query_rows(database, "select input_tokens, output_tokens from spend order by reserved_at")
    stopped = next(event for event in log if event.data.get("decision") == "turn_interrupted")
    assert stopped.data["usage"] == {"input": spent[0]["input_tokens"], "cached": 0, "output": 0}
    assert (spent[0]["input_tokens"] > 0, spent[0]["output_tokens"]) == (True, 0)


async def test_a_steer_cancels_a_tool_and_says_what_is_known_of_it(database: Database) -> None:
    """B32."""
    began = asyncio.Event()

    @tool
    async def wire(amount: int) -> str:
        """Wire money."""
        began.set()
        await asyncio.sleep(60)
        return "wired"

    replies: Replies = [ScriptedReply.calling(("wire", {"amount": 1}), ("look", {"what": "x"})), "I stopped."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [wire, look]) as agent:
        session = await agent.open(KEY)
        sending = asyncio.create_task(send_and_collect(session, "wire it"))
        await began.wait()
        await session.steer("stop!")
        assert await sending == "I stopped."
        row, words = await session.info(), describe_log(await read_log(database, session.id))
    assert [line for line in words if line.startswith("result")] == [
        "result: wire uncertain",
        "result: look error aborted",
    ]
    assert [request["kind"] for request in row.attention.values()] == ["uncertain"]


async def test_a_person_settles_an_uncertain_call_and_the_model_reads_it(database: Database) -> None:
    began = asyncio.Event()

    @tool
    async def wire(amount: int) -> str:
        """Wire money."""
        began.set()
        await asyncio.sleep(60)
        return "wired"

    replies: Replies = [ScriptedReply.calling(("wire", {"amount": 1})), "I stopped.", "Good."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [wire]) as agent:
        session = await agent.open(KEY)
        sending = asyncio.create_task(send_and_collect(session, "wire it"))
        await began.wait()
        await session.steer("stop!")
        await sending
        [call] = (await session.info()).attention
        await sessions.resolve_call(database, call, "failed")
        await send_and_collect(session, "well?")
        assert (await session.info()).attention == {}
        with pytest.raises(NotFound):
            await sessions.resolve_call(database, call, "ok")
    assert "failed" in str(server.requests[-1]["messages"][-1]["content"])


@pytest.mark.parametrize("tool_known", [True, False])
async def test_a_call_that_may_have_run_is_uncertain_also_where_its_tool_is_gone(
    database: Database, tool_known: bool
) -> None:
    async with ModelServer(answers=["I see."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await sessions.send_message(database, session.id, "wire it")
        call = {"call_id": "c", "tool": "wire", "arguments": {"amount": 1}, "message_id": "m", "group": 1}
        left = [
            NewEvent(EventType.THINKING_START, {"message_id": "m", "upto_seq": 2}),
            NewEvent(EventType.ASSISTANT_RESPONSE, {"text": "", "message_id": "m"}),
            NewEvent(EventType.TOOL_CALL, {**call, "known": tool_known}),
        ]  # as a process leaves it that dies in the call
        async with database.connection() as conn:
            await events.append(conn, session.id, left, now=database.clock.now())
        assert "".join([piece async for piece in session.resume()]) == "I see."
        attention = (await session.info()).attention
        [result] = [event.data for event in await read_log(database, session.id) if event.type is EventType.TOOL_RESULT]
    assert (list(attention), result["status"]) == ((["c"], "uncertain") if tool_known else ([], "error"))


async def test_a_follow_up_waits_for_the_end_of_the_turn(database: Database) -> None:
    @tool(idempotent=True)
    async def slow(call: CallContext) -> str:
        """Take a while."""
        await sessions.send_message(database, call.session_id, "and then this", mode="follow_up")
        return "done"

    replies: Replies = [ScriptedReply.calling(("slow", {})), "First.", "Second."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [slow]) as agent:
        session = await agent.open(KEY)
        assert await send_and_collect(session, "this") == "First.Second."
    assert "and then this" not in str(server.requests[1]["messages"])
    messages = [(message["role"], message["content"]) for message in server.requests[2]["messages"][-2:]]
    assert messages == [("assistant", "First."), ("user", "and then this")]


@pytest.mark.parametrize("modes", [("follow_up", "steer"), ("steer", "follow_up"), ("follow_up", "steer", "steer")])
@pytest.mark.parametrize("during", ["an answer", "a call", "an approval", "nothing"])
async def test_a_follow_up_beside_a_steer_comes_after_it_in_a_turn_of_its_own(
    database: Database, during: str, modes: tuple[sessions.MessageMode, ...]
) -> None:
    """B33."""

    async def say(name: str) -> None:
        for mode in modes:
            text = "and then this" if mode == "follow_up" else "no, rather so"
            await sessions.send_message(database, name, text, mode=mode)

    @tool(idempotent=True)
    async def linger(call: CallContext) -> str:
        """Take a while."""
        await say(call.session_id)
        await asyncio.sleep(60)
        return "done"

    firsts: dict[str, ScriptedReply | str] = {
        "an answer": ScriptedReply(text="word " * 400, pace=0.01),
        "a call": ScriptedReply.calling(("linger", {})),
        "an approval": ScriptedReply.calling(("deploy", {"where": "north"})),
        "nothing": "First.",
    }
    replies: Replies = [firsts[during], ScriptedReply.calling(("look", {"what": "it"})), "So.", "And this."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [linger, deploy, look]) as agent:
        session = await agent.open(KEY)
        async for _ in session.send("do this"):
            if during == "an answer" and len(server.requests) == 1 and (await session.info()).head < 4:
                await say(session.id)
        if during in ("an approval", "nothing"):
            await say(session.id)
            await agent.wake(session.id)
    shown = [str(request["messages"]) for request in server.requests]
    assert ["and then this" in messages for messages in shown] == [False, False, False, True]
    assert all("no, rather so" in messages for messages in shown[1:])
    said = [message["content"] for message in server.requests[-1]["messages"] if message["role"] != "tool"]
    assert said[-2:] == ["So.", "and then this"]
    await assert_invariants(database)


async def test_a_message_in_the_middle_of_a_turn_is_heard_at_its_next_step(database: Database) -> None:
    @tool(idempotent=True)
    async def slow(call: CallContext) -> str:
        """Take a while."""
        await sessions.send_message(database, call.session_id, "mind the gap")
        return "done"

    replies: Replies = [ScriptedReply.calling(("slow", {})), "Both done."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [slow]) as agent:
        assert await send_and_collect(await agent.open(KEY), "this") == "Both done."
    assert len(server.requests) == 2
    assert "mind the gap" in str(server.requests[1]["messages"])


async def test_a_server_that_is_busy_is_asked_again(database: Database) -> None:
    replies: Replies = [ScriptedReply.failed(503), ScriptedReply.failed(429, retry_after=0.01), "Here I am."]
    async with ModelServer(answers=replies) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        assert await send_and_collect(session, "hello") == "Here I am."
        row, words = await session.info(), describe_log(await read_log(database, session.id))
    assert words.count("decision: generation_replaced") == 2
    assert row.reserved == 0


async def test_a_server_that_stays_away_ends_the_turn_and_the_next_wake_asks_again(database: Database) -> None:
    replies: Replies = [ScriptedReply.failed(503)] * 3 + ["At last."]
    async with ModelServer(answers=replies) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        assert "503" in await send_and_collect(session, "hello")
        assert session.result is not None
        assert session.result.finish_reason == "error"
        assert (await session.info()).pending
        assert (await agent.wake(session.id)).finish_reason == "stop"
        words = describe_log(await read_log(database, session.id))
    assert words[-3:] == ["error", "ThinkingStart", "model: At last."]


async def test_an_error_that_will_not_pass_ends_the_turn_for_good(database: Database) -> None:
    async with (
        ModelServer(answers=[ScriptedReply.failed(401, message="no such key")]) as server,
        open_agent(database, server) as agent,
    ):
        session = await agent.open(KEY)
        assert "401" in await send_and_collect(session, "hello")
        assert len(server.requests) == 1
        assert not (await session.info()).pending
        assert (await agent.wake(session.id)).finish_reason == "idle"


@pytest.mark.parametrize("prefill", ["none", "last_message", "prefix", "continue_final_message"])
async def test_a_stream_cut_in_the_middle_is_gone_on_with_or_begun_again(database: Database, prefill: Any) -> None:
    whole = "One two three four five six."
    replies: Replies = [ScriptedReply.disconnecting(whole, 3), whole]
    channel = RecordingChannel()
    async with (
        ModelServer(answers=replies, prefill=prefill != "none") as server,
        open_agent(database, server, channel=channel, prefill=prefill) as agent,
    ):
        session = await agent.open(KEY)
        await sessions.send_message(database, session.id, "count")
        await agent.wake(session.id)
        words = describe_log(await read_log(database, session.id))
    assert channel.text == whole
    assert words[-1] == f"model: {whole}"
    assert ("decision: generation_resumed" in words) == (prefill != "none")
    assert any(delta.kind == "void" for delta in channel.deltas) == (prefill == "none")


async def test_a_stream_that_is_always_cut_ends_in_an_error(database: Database) -> None:
    async with (
        ModelServer(answers=[ScriptedReply.disconnecting("One two three.", 1)]) as server,
        open_agent(database, server) as agent,
    ):
        session = await agent.open(KEY)
        text = await send_and_collect(session, "count")
        assert session.result is not None
        assert session.result.finish_reason == "error"
        row = await session.info()
    assert "void" in text
    assert len(server.requests) == 3
    assert row.reserved == 0


async def test_a_refusal_is_an_answer(database: Database) -> None:
    async with (
        ModelServer(answers=[ScriptedReply(text="I cannot help with that.")]) as server,
        open_agent(database, server) as agent,
    ):
        assert await send_and_collect(await agent.open(KEY), "do harm") == "I cannot help with that."


async def test_options_that_a_server_does_not_know_are_left_out(database: Database) -> None:
    """K4."""

    def create_reply(request: dict[str, Any]) -> ScriptedReply:
        for name in ("max_completion_tokens", "stream_options"):
            if name in request:
                return ScriptedReply.unknown_option(name)
        return ScriptedReply(text="Old, but here.")

    async with ModelServer(answers=create_reply) as server, open_agent(database, server) as agent:
        assert await send_and_collect(await agent.open(KEY), "hello") == "Old, but here."
        assert isinstance(agent.harness.client.get_client(), openai.AsyncOpenAI)
    assert server.requests[-1]["max_tokens"] == 4096


async def test_the_cap_stops_a_session_cleanly_and_the_person_is_told(database: Database) -> None:
    async with ModelServer(answers=["Good day."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY, max_cost_usd="0.0000001")
        assert "cap" in await send_and_collect(session, "hello")
        assert session.result is not None
        assert session.result.finish_reason == "budget"
        assert server.requests == []
        assert describe_log(await read_log(database, session.id))[-2:] == ["decision: budget_stop", "error"]
        assert (await agent.wake(session.id)).finish_reason == "idle"
        await agent.open(KEY, max_cost_usd=1)
        assert await send_and_collect(session, "again") == "Good day."


async def test_a_cap_needs_a_model_whose_price_is_known_and_a_strategy_a_name(database: Database) -> None:
    async with ModelServer() as server, open_agent(database, server) as agent:
        with pytest.raises(UsageError, match="price"):
            await agent.open(KEY, model="home-grown", max_cost_usd=1)
        with pytest.raises(UsageError, match="window, budget, compacted, full"):
            await agent.open(KEY, strategy="everything")


async def test_a_tool_finds_the_result_that_another_process_has_logged_meanwhile(database: Database) -> None:
    """L20."""
    seen: list[Any] = []

    @tool(idempotent=True)
    async def pay(amount: int, call: CallContext) -> str:
        """Pay."""
        seen.append(await call.previous_result())
        result = {"call_id": call.call_id, "tool": "pay", "status": "ok", "content": f"paid {amount}"}
        async with database.connection() as conn:  # as a harness does that took the session over
            await events.append(
                conn, call.session_id, [NewEvent(EventType.TOOL_RESULT, result)], now=database.clock.now()
            )
        seen.append(await call.previous_result())
        return "not again"

    replies: Replies = [ScriptedReply.calling(("pay", {"amount": 5})), "Done."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [pay]) as agent:
        await send_and_collect(await agent.open(KEY), "pay")
    assert seen == [None, Outcome("paid 5")]


async def test_a_simulated_session_runs_no_side_effect(database: Database) -> None:
    replies: Replies = [ScriptedReply.calling(("send_mail", {"to": "ines"})), "Would be sent."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [send_mail]) as agent:
        session = await agent.open(KEY)
        async with database.connection() as conn:
            await conn.execute("update session set simulated = true")
        assert await send_and_collect(session, "go") == "Would be sent."
    assert "Dry run" in server.requests[-1]["messages"][-1]["content"]


async def test_a_channel_that_fails_does_not_keep_the_model_from_answering(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    channel = RecordingChannel(is_broken=True)
    async with ModelServer(answers=["Good day."]) as server, open_agent(database, server, channel=channel) as agent:
        session = await agent.open(KEY)
        await sessions.send_message(database, session.id, "hello")
        assert (await agent.wake(session.id)).finish_reason == "stop"
        channel.is_broken = False
        await agent.wake(session.id)
        await agent.wake(session.id)
    assert channel.text == "Good day."
    assert "nobody listens" in caplog.text
    assert SECRET not in caplog.text


async def test_an_ended_session_takes_no_message_and_its_key_names_a_new_one(database: Database) -> None:
    async with ModelServer(answers=["Good day."]) as server, open_agent(database, server) as agent:
        first = await agent.open(KEY)
        await send_and_collect(first, "hello")
        await first.end()
        with pytest.raises(UsageError, match="ended"):
            await send_and_collect(first, "still there?")
        second = await agent.open(KEY)
        assert second.id != first.id
        assert len(await read_log(database, first.id)) == 5


async def test_a_step_does_one_thing_and_is_a_pointer_to_it(database: Database) -> None:
    """L8, P2."""
    replies: Replies = [ScriptedReply.calling(("look", {"what": "a"})), "Done."]
    results = []
    async with ModelServer(answers=replies) as server:
        async with open_agent(database, server, [look]) as agent:
            session_id = (await agent.open(KEY)).id
        await sessions.send_message(database, session_id, "go")
        for _ in range(3):  # each is made by a harness that knows nothing of the one before
            async with open_agent(database, server, [look]) as agent:
                results.append(await agent.step(session_id))
        [_, shown] = server.requests
    assert [(result.finish_reason, result.executed_tool_count) for result in results] == [
        ("tool_calls", 1), ("stop", 0), ("idle", 0),
    ]  # fmt: skip
    assert [message["role"] for message in shown["messages"]][-3:] == ["user", "assistant", "tool"]
    head = (await read_log(database, session_id))[-1].seq
    assert results[0].to_seq < results[1].to_seq == results[2].to_seq == head


@pytest.mark.parametrize(("window", "is_whole"), [(2500, False), (None, True)])
async def test_a_restored_session_is_cut_to_its_models_window(
    database: Database, window: int | None, is_whole: bool
) -> None:
    """C11."""
    async with ModelServer(answers=lambda _: "Yes.") as server:
        async with open_agent(database, server) as agent:
            session = await agent.open(KEY, strategy="full", answer_tokens=1000, context_window=window)
            for n in range(8):
                await send_and_collect(session, f"Say {n}. " * 70)
        async with open_agent(database, server) as agent:
            await send_and_collect(await agent.open(KEY), "And now?")
        shown = str(server.requests[-1]["messages"])
    assert ("Say 0." in shown) == is_whole
    assert "Say 7." in shown
    assert (count_tokens(shown) <= 1500) == (not is_whole)


@pytest.mark.parametrize("key", ["", " : ", "x" * 301, "main:cli:\0", "main:\ud800:ada"])
async def test_what_is_no_key_is_refused_in_words(database: Database, key: str) -> None:
    async with ModelServer([]) as server, open_agent(database, server) as agent:
        with pytest.raises(UsageError, match="not a valid session key"):
            await agent.open(key)


@pytest.mark.parametrize("cap", ["x", "", float("nan"), float("inf"), -1])
async def test_a_cap_that_is_no_amount_is_refused_in_words(database: Database, cap: float | str) -> None:
    async with ModelServer([]) as server, open_agent(database, server) as agent:
        with pytest.raises(UsageError, match=r"not an amount in USD|is negative"):
            await agent.open(KEY, max_cost_usd=cap)


@pytest.mark.parametrize("sizes", [{"budget": -1}, {"last": 0}, {"answer_tokens": -5}, {"budget": "many"}])
async def test_a_size_below_one_is_refused_before_it_is_kept(database: Database, sizes: dict[str, Any]) -> None:
    async with ModelServer([ScriptedReply(text="hello")]) as server, open_agent(database, server) as agent:
        with pytest.raises(UsageError, match=next(iter(sizes))):
            await agent.open(KEY, **sizes)
        assert await send_and_collect(await agent.open(KEY), "hi") == "hello"


async def test_a_system_prompt_may_hold_anything(database: Database) -> None:
    async with ModelServer([ScriptedReply(text="hello")] * 2) as server, open_agent(database, server) as agent:
        for _ in range(2):  # the second time it is what it was
            session = await agent.open(KEY, system="be \0 \ud800 kind")
            assert await send_and_collect(session, "hi") == "hello"
        assert all("kind" in request["messages"][0]["content"] for request in server.requests)
    assert [e.type for e in await read_log(database, session.id)].count(EventType.POLICY_DECISION) == 0


async def test_a_message_that_says_nothing_is_refused_and_costs_nothing(database: Database) -> None:
    async with ModelServer([]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        for blank in ("", " \n"):
            with pytest.raises(UsageError, match="is blank"):
                await send_and_collect(session, blank)
        assert server.requests == []
    assert [event.type for event in await read_log(database, session.id)] == [EventType.SESSION_START]
