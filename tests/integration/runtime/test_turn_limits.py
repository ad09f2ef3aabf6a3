"""A turn ends: after its steps, or where a model repeats itself. It is counted from the log, whoever drives it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from consolidator import Outcome, tool
from consolidator.database import Database
from consolidator.formats.common.json_parsing import exceeds_max_depth
from consolidator.runtime.session import turn_limits
from consolidator.runtime.session.turn_limits import call_key
from consolidator.runtime.turn import sessions
from consolidator.service.sessions.agents import change_agent
from consolidator.testing import ModelServer, ScriptedReply
from tests.runtime import KEY, Replies, describe_log, open_agent, read_log, send_and_collect

CALLS = {"count": 0}


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS["count"] = 0


@tool(side_effect=False)
def look(at: str = "x") -> str:
    """Look at something."""
    CALLS["count"] += 1
    return "the same as ever"


@tool(side_effect=False)
def count_up() -> int:
    """Count."""
    CALLS["count"] += 1
    return CALLS["count"]


@tool(side_effect=False, polls=True)
def poll() -> str:
    """Ask whether it is done."""
    CALLS["count"] += 1
    return "done" if CALLS["count"] >= 40 else "pending"


@tool(needs_approval=True)
def deploy() -> str:
    """Deploy."""
    return "deployed"


def always(*calls: tuple[str, Any]) -> Any:
    """An endless model."""
    return lambda body: ScriptedReply.calling(*calls)


async def test_a_model_that_repeats_one_call_is_told_once_and_then_the_turn_ends(database: Database) -> None:
    async with ModelServer(always(("look", {"at": "x"}))) as server, open_agent(database, server, [look]) as agent:
        session = await agent.open(KEY)
        said = await send_and_collect(session, "look")
        assert session.result is not None
        assert session.result.finish_reason == "budget"
        assert "look was called 30 times in this turn" in said
        assert CALLS["count"] == 30
        log = await read_log(database, session.id)
        assert sum(bool(event.data.get("note")) for event in log) == 1
        assert describe_log(log)[-2:] == ["decision: budget_stop", "error"]
        assert log[-2].data["limit"] == "repeats"
        shown = json.dumps(server.requests[-1]["messages"])
        assert shown.count("[harness: This call was made 10 times") == 1
        assert not (await session.info()).pending


async def test_a_turn_has_a_limit_of_steps_and_the_next_message_begins_anew(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_limits, "MAX_STEPS", 12)
    async with (
        ModelServer(always(("count_up", {}))) as server,
        open_agent(database, server, [count_up]) as agent,
    ):
        session = await agent.open(KEY)
        assert "the limit of 12 steps of one turn is reached" in await send_and_collect(session, "count")
        assert CALLS["count"] == 12
        assert "the limit of 12 steps" in await send_and_collect(session, "go on")
        assert CALLS["count"] == 24
        assert "the limit of 12 steps" in json.dumps(server.requests[-1]["messages"]), "the model learns of it, too"


async def test_a_session_may_have_a_limit_of_its_own(database: Database) -> None:
    async with ModelServer(always(("count_up", {}))) as server, open_agent(database, server, [count_up]) as agent:
        session = await agent.open(KEY, max_steps=3)
        await send_and_collect(session, "count")
        assert CALLS["count"] == 3
        session = await agent.open(KEY, max_steps=5)
        await send_and_collect(session, "count")
        assert CALLS["count"] == 8


async def test_steps_are_counted_from_the_log_by_whoever_goes_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_limits, "MAX_STEPS", 7)
    async with ModelServer(always(("count_up", {}))) as server:
        for number in range(20):  # each step by another process
            async with open_agent(database, server, [count_up]) as agent:
                session = await agent.open(KEY)
                if not number:
                    await sessions.send_message(database, session.id, "count")
                result = await agent.step(session.id)
                if result.finish_reason == "budget":
                    break
    assert number == 7
    assert CALLS["count"] == 7


async def test_steps_before_an_approval_count_after_it(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_limits, "MAX_STEPS", 6)

    def answer(body: dict[str, Any]) -> ScriptedReply:
        return ScriptedReply.calling(("deploy", {})) if CALLS["count"] == 3 else ScriptedReply.calling(("count_up", {}))

    async with (
        ModelServer(answer) as server,
        open_agent(database, server, [count_up, deploy]) as agent,
    ):
        session = await agent.open(KEY)
        await send_and_collect(session, "count, then deploy")
        (call_id,) = (await session.info()).attention
        await sessions.decide_approval(database, call_id, allow=True)
        CALLS["count"] += 1
        await agent.wake(session.id)
        log = await read_log(database, session.id)
    assert sum(event.type == "AssistantResponse" for event in log) == 6
    assert log[-2].data["limit"] == "steps"


async def test_a_tool_that_polls_may_give_the_same_result_within_the_steps(database: Database) -> None:
    def answer(body: dict[str, Any]) -> ScriptedReply | str:
        last = body["messages"][-1]
        return (
            "it is done"
            if last["role"] == "tool" and last["content"] == "done"
            else ScriptedReply.calling(("poll", {}))
        )

    async with ModelServer(answer) as server, open_agent(database, server, [poll]) as agent:
        session = await agent.open(KEY)
        assert await send_and_collect(session, "wait for it") == "it is done"
    assert CALLS["count"] == 40


async def test_a_tool_that_does_not_say_that_it_polls_may_do_so_for_a_while(database: Database) -> None:
    def answer(body: dict[str, Any]) -> ScriptedReply | str:
        return "it is done" if CALLS["count"] == 25 else ScriptedReply.calling(("look", {}))

    async with ModelServer(answer) as server, open_agent(database, server, [look]) as agent:
        session = await agent.open(KEY)
        assert await send_and_collect(session, "wait for it") == "it is done"


@pytest.mark.parametrize(
    "calls",
    [
        [("look", {"at": "x"}), ("look", {"at": "y"})],
        [("look", {"at": "x"}), ("count_up", {})],
        [("no_such_tool", {})],
        [("look", "no json")],
        [("look", {"unknown": 1})],
        [("look", {"at": "x"})] * 40,
        [("look", '{"at":   "x"}')],
        [("look", {})],
    ],
)
async def test_repeats_are_found_beside_other_calls_and_among_failures(
    database: Database, calls: list[tuple[str, Any]]
) -> None:
    async with ModelServer(always(*calls)) as server, open_agent(database, server, [look, count_up]) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "look")
        log = await read_log(database, session.id)
    assert log[-2].data.get("limit") == "repeats"
    assert len(server.requests) <= 31
    assert len(server.requests) >= 2, "the model was told before"


async def test_a_follow_up_is_answered_after_a_turn_that_was_stopped(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_limits, "MAX_STEPS", 5)

    def answer(body: dict[str, Any]) -> ScriptedReply | str:
        texts = [message["content"] for message in body["messages"] if message["role"] == "user"]
        return "the other thing is done" if "then the other" in texts[-1] else ScriptedReply.calling(("count_up", {}))

    async with ModelServer(answer) as server, open_agent(database, server, [count_up]) as agent:
        session = await agent.open(KEY)
        await sessions.send_message(database, session.id, "count")
        await agent.step(session.id)
        await session.follow_up("then the other")
        said = "".join([piece async for piece in session.resume()])
        assert "the limit of 5 steps" in said
        assert said.endswith("the other thing is done")
        assert not (await session.info()).pending


@pytest.mark.parametrize("count", [65, 200, 5000])
async def test_calls_beyond_those_of_one_answer_are_refused_in_one_result(database: Database, count: int) -> None:
    replies: Replies = [ScriptedReply.calling(*[("look", {"at": str(number)}) for number in range(count)]), "enough"]
    async with ModelServer(replies) as server, open_agent(database, server, [look]) as agent:
        session = await agent.open(KEY, answer_tokens=100_000)
        assert await send_and_collect(session, "look at everything") == "enough"
        log = await read_log(database, session.id)
    assert CALLS["count"] == 64
    calls = [event.data["call_id"] for event in log if event.type == "ToolCall"]
    results = [event for event in log if event.type == "ToolResult"]
    assert [event.data["call_id"] for event in results] == calls
    assert len(results) == 65
    assert results[-1].data["status"] == "error"
    assert f"{count - 64} more calls of this answer were not run" in results[-1].data["content"]
    last = server.requests[-1]["messages"]
    asked = {call["id"] for message in last for call in message.get("tool_calls") or ()}
    assert asked == {message["tool_call_id"] for message in last if message["role"] == "tool"}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("look", '{"at": ' + "[" * 500 + "]" * 500 + "}"),
        ("look", '{"at": ' + "[" * 50_000 + "]" * 50_000 + "}"),
        ("look", '{"a":' * 300 + "1" + "}" * 300),
        ("n" * 100_000, "{}"),
        ("look", '{"at": "' + "x" * 200_000 + '"}'),
        ("look", "x" * 200_000),
        ("\0" * 300, "{}"),
        ("look", '{"at": ' + "9" * 10_000 + "}"),
    ],
)
async def test_odd_calls_end_in_results_of_bounded_size(database: Database, name: str, arguments: str) -> None:
    async with (
        ModelServer([ScriptedReply.calling((name, arguments)), "well"]) as server,
        open_agent(database, server, [look]) as agent,
    ):
        session = await agent.open(KEY)
        assert await send_and_collect(session, "look") == "well"
        log = await read_log(database, session.id)
    (call,) = [event for event in log if event.type == "ToolCall"]
    assert len(call.data["tool"]) <= 64
    assert len(server.requests[-1]["messages"][-2]["tool_calls"][0]["function"]["name"]) <= 64
    (result,) = [event for event in log if event.type == "ToolResult"]
    assert len(json.dumps(result.data)) < 5000


class Unprintable(Exception):
    """An error whose text is an error."""

    def __str__(self) -> str:
        raise ValueError("no text")


def deep_list() -> list[Any]:
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    return nested


def cyclic_list() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def endless() -> Any:
    number = 0
    while True:
        number += 1
        yield number


def raise_unprintable() -> None:
    raise Unprintable


@pytest.mark.parametrize(
    "produce",
    [
        deep_list,
        cyclic_list,
        endless,
        raise_unprintable,
        lambda: "x" * 20_000_000,
        lambda: ["x" * 1000] * 20_000,
        lambda: b"\xff" * 20_000_000,
        lambda: Outcome("fine", patch={"notes": "x" * 2_000_000}),
        lambda: {"value": float("nan")},
        lambda: "\ud800" * 100_000,
    ],
)
async def test_whatever_a_tool_returns_is_logged_and_shown_within_bounds(database: Database, produce: Any) -> None:
    @tool(side_effect=False)
    def odd() -> Any:
        """Return something odd."""
        return produce()

    async with (
        ModelServer([ScriptedReply.calling(("odd", {})), "well"]) as server,
        open_agent(database, server, [odd]) as agent,
    ):
        session = await agent.open(KEY)
        assert await send_and_collect(session, "go") == "well"
        log = await read_log(database, session.id)
    assert len(json.dumps(server.requests[-1])) < 200_000
    (result,) = [event for event in log if event.type == "ToolResult"]
    assert len(json.dumps(result.data["content"])) < 40_000_000


def test_equal_calls_have_equal_keys() -> None:
    assert call_key("a", {"x": 1, "y": 2}, "ok", "z") == call_key("a", {"y": 2, "x": 1}, "ok", "z")
    different = [("b", {}, "ok", ""), ("a", {"x": 1}, "ok", ""), ("a", {}, "error", ""), ("a", {}, "ok", "z")]
    assert len({call_key(*call) for call in [("a", {}, "ok", ""), *different]}) == 5


def test_depth_is_counted_without_recursion() -> None:
    assert not exceeds_max_depth(1, 1)
    assert [exceeds_max_depth({"a": [1, {"b": 2}]}, most) for most in (2, 3)] == [True, False]
    assert exceeds_max_depth(deep_list())


async def test_an_agent_may_have_a_limit_for_all_its_sessions(database: Database) -> None:
    name = "hasty"
    await change_agent(database, name, {"max_steps": 2})
    async with ModelServer(always(("count_up", {}))) as server, open_agent(database, server, [count_up]) as agent:
        session = await agent.open(f"{name}:test:ines")
        assert "the limit of 2 steps of one turn is reached" in await send_and_collect(session, "count")
        assert CALLS["count"] == 2
        await change_agent(database, name, {"max_steps": 50})
        await send_and_collect(await agent.open(f"{name}:test:ines"), "go on")
        assert CALLS["count"] == 4, "a session keeps what it began with"
        session = await agent.open(f"{name}:test:olav", max_steps=1)
        await send_and_collect(session, "count")
        assert CALLS["count"] == 5, "what the caller names comes first"
        child = await session.fork()
        await send_and_collect(child, "count")
        assert CALLS["count"] == 6, "a child has its parent's"
