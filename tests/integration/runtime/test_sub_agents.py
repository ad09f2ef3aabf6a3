"""A sub-agent sees its task and its context alone, answers its parent once, and costs what both caps allow."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from consolidator import tool
from consolidator.database import Database
from consolidator.errors import Forbidden, NotFound, UsageError
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, role_of
from consolidator.models.session import SessionRow
from consolidator.models.viewer import Viewer
from consolidator.runtime.session.agent_defaults import SpawnRequest
from consolidator.runtime.turn import sessions as people
from consolidator.runtime.turn import wake
from consolidator.runtime.turn.sub_agents import list_unfinished
from consolidator.store.sessions import sessions
from consolidator.testing import ModelServer, ScriptedReply
from tests.databases import fetch_dicts
from tests.runtime import KEY, RecordingChannel, describe_log, open_agent, read_log, send_and_collect
from tests.support import PATIENCE, assert_invariants


@tool(side_effect=False)
async def look(what: str) -> str:
    """Look at something."""
    return f"{what} is green"


@tool(needs_approval=True)
async def deploy(where: str) -> str:
    """Deploy."""
    return "deployed"


def reply_by_task(request: dict[str, Any]) -> ScriptedReply:
    """Answer as the last message says: `spawn A, B` calls sub-agents, a task `look X` a tool."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        return ScriptedReply(text="told: " + " | ".join(results))
    words = last["content"].rsplit("\n\n", 1)[-1]
    if words.startswith("spawn "):
        tasks = words.removeprefix("spawn ").split(", ")
        return ScriptedReply.calling(*(("spawn_agent", {"task": task}) for task in tasks))
    if words.startswith("look "):
        return ScriptedReply.calling(("look", {"what": words.removeprefix("look ")}))
    return ScriptedReply(text=f"done: {words}")


async def children_of(database: Database, parent_id: str) -> list[SessionRow]:
    """Return a session's sub-agents, the oldest first."""
    async with database.connection() as conn:
        rows = await fetch_dicts(
            conn, "select id from session where parent_id = %(id)s order by created_at, id", {"id": parent_id}
        )
        return [await sessions.get(conn, row["id"]) for row in rows]


async def wait_for_requests(server: ModelServer, count: int) -> None:
    """Wait until the model was asked so often."""
    async with asyncio.timeout(PATIENCE):
        while len(server.requests) < count:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.01)


def of_type(log: list[Event], event_type: EventType) -> list[Mapping[str, Any]]:
    """Return the payloads of a log's events of a type."""
    return [event.data for event in log if event.type is event_type]


async def test_an_agent_gives_tasks_to_several_sub_agents_and_hears_of_each_once(database: Database) -> None:
    channel = RecordingChannel()
    async with (
        ModelServer(answers=reply_by_task) as server,
        open_agent(database, server, [look, deploy], channel=channel, builtin=["sub_agents"]) as agent,
    ):
        session = await agent.open(KEY, system="Nobody else reads this.")
        answer = await send_and_collect(session, "spawn look left, sing")
        row, log = await session.info(), await read_log(database, session.id)
        children = await children_of(database, session.id)
        child_log = await read_log(database, children[0].id)
    assert answer == "told: told: left is green | done: sing"
    words = describe_log(log)
    assert words.index("SubAgentComplete") < words.index("result: spawn_agent ok")
    assert words.index("SubAgentSpawn") > max(n for n, word in enumerate(words) if word == "call: spawn_agent")
    calls = [call["call_id"] for call in of_type(log, EventType.TOOL_CALL)]
    spawned, completed = of_type(log, EventType.SUBAGENT_SPAWN), of_type(log, EventType.SUBAGENT_COMPLETE)
    assert sorted(spawn["call_id"] for spawn in spawned) == sorted(calls)
    assert sorted(done["call_id"] for done in completed) == sorted(calls)
    assert {done["status"] for done in completed} == {"ok"}
    assert describe_log(child_log)[:2] in (["SessionStart", "user: look left"], ["SessionStart", "user: sing"])
    assert {child.status for child in children} == {"ended"}
    assert [child.root_id for child in children] == [session.id] * 2
    assert row.cost == sum((child.cost for child in children), start=Decimal(0)) + await own_cost(database, session.id)
    assert row.reserved == 0
    assert {delta.session_id for delta in channel.deltas} <= {session.id}
    await assert_invariants(database)


async def test_a_parent_gets_the_last_answer_or_all_that_was_done(database: Database) -> None:
    """B20."""
    async with ModelServer(answers=reply_by_task) as server, open_agent(database, server, [look]) as agent:
        session = await agent.open(KEY)
        summary = await session.spawn("look left", mode="summary")
        full = await session.spawn("look left", mode="full")
    assert summary.text == "told: left is green"
    assert full.text is not None
    assert full.text.endswith(summary.text)
    assert ("look" in full.text, full.text.count("left is green")) == (True, 2)


async def own_cost(database: Database, session_id: str) -> Decimal:
    """Return what a session's own calls cost."""
    async with database.connection() as conn:
        query = "select coalesce(sum(cost), 0) as cost from spend where session_id = %(id)s"
        cost: Decimal = (await fetch_dicts(conn, query, {"id": session_id}))[0]["cost"]
        return cost


async def test_a_sub_agent_sees_its_task_and_context_alone(database: Database) -> None:
    """B22."""
    async with (
        ModelServer(answers=reply_by_task) as server,
        open_agent(database, server, [look, deploy], builtin=["sub_agents", "scratchpad"]) as agent,
    ):
        session = await agent.open(KEY, system="The parent's secret prompt.")
        await send_and_collect(session, "the parent's secret message")
        await session.set_scratchpad("the parent's secret note")
        result = await session.spawn("sing", context="The song is old.", max_tokens=77)
        shown = server.requests[-1]
        child = (await children_of(database, session.id))[0]
        child_log, log = await read_log(database, child.id), await read_log(database, session.id)
    assert (result.status, result.text, result.session_id) == ("ok", "done: sing", child.id)
    assert "secret" not in str(shown)
    assert "The song is old." in str(shown["messages"])
    assert 77 in (shown.get("max_tokens"), shown.get("max_completion_tokens"))
    assert {entry["function"]["name"] for entry in shown["tools"]} == {"look", "update_scratchpad"}
    start, task = child_log[0], child_log[1]
    assert (start.data["parent"], start.data["call_id"]) == (session.id, result.call_id)
    assert not task.is_persons_word
    assert role_of(task.principal) is Role.HARNESS
    assert "decision: model_routed" in describe_log(child_log)
    assert describe_log(log)[-2:] == ["SubAgentSpawn", "SubAgentComplete"]
    assert of_type(log, EventType.SUBAGENT_COMPLETE)[0]["usage"]["input"] == result.input_tokens > 0


async def test_a_call_has_one_sub_agent_however_often_it_is_made(database: Database) -> None:
    async with ModelServer(answers=reply_by_task) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        results = await asyncio.gather(*(session.spawn("sing", call_id="spawn_1") for _ in range(3)))
        again = await session.spawn("sing", call_id="spawn_1")
        log = describe_log(await read_log(database, session.id))
    assert {result.session_id for result in [*results, again]} == {results[0].session_id}
    assert len(server.requests) == 1
    assert (log.count("SubAgentSpawn"), log.count("SubAgentComplete")) == (1, 1)


async def test_sub_agents_spend_no_more_than_their_cap_and_their_parents(database: Database) -> None:
    async with ModelServer(answers=reply_by_task) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY, max_cost_usd="1")
        own = await session.spawn("sing", max_cost_usd="0.00000001")
        await agent.open(KEY, max_cost_usd="0.00000002")
        parents = await session.spawn("sing", max_cost_usd="1")
        row = await session.info()
    assert (own.status, parents.status) == ("error", "error")
    assert "the session's cap of 0.00000001" in str(own.reason)
    assert f"the cap of the parent session {session.id}" in str(parents.reason)
    assert server.requests == []
    assert (row.cost, row.reserved) == (Decimal(0), Decimal(0))


async def test_what_no_sub_agent_may_be_is_refused(database: Database) -> None:
    """B21."""
    async with ModelServer(answers=reply_by_task) as server, open_agent(database, server, [deploy]) as agent:
        session = await agent.open(KEY)
        with pytest.raises(UsageError, match="cannot have 'deploy'"):
            await session.spawn("sing", tools=["deploy"])
        with pytest.raises(UsageError, match="blank"):
            await session.spawn("  ")
        result = await session.spawn("sing")
        with pytest.raises(UsageError, match="has no children"):
            await (await agent.session(result.session_id)).spawn("sing")
        await session.end()
        with pytest.raises(UsageError, match="has ended"):
            await session.spawn("sing")


async def test_a_credential_that_may_only_read_spawns_nothing(database: Database) -> None:
    async with ModelServer(answers=reply_by_task) as server, open_agent(database, server) as agent:
        session, request = await agent.open(KEY), SpawnRequest(task="sing")
        reader = Viewer("reader", frozenset({"read"}))
        with pytest.raises(Forbidden):
            await wake.spawn_sub_agent(agent.harness, session.id, "spawn_1", request, viewer=reader)
        stranger = Viewer("stranger", frozenset({"read", "write"}), agent="other")
        with pytest.raises(NotFound):
            await wake.spawn_sub_agent(agent.harness, session.id, "spawn_1", request, viewer=stranger)
        result = await wake.spawn_sub_agent(agent.harness, session.id, "spawn_1", request)
        assert await list_unfinished(database, session.id) == []
    assert result.text == "done: sing"


async def test_a_sub_agent_ends_with_its_parent(database: Database) -> None:
    stalling = ScriptedReply(text="never to be heard of again", stall_after=1)
    async with ModelServer(answers=[stalling]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        spawning = asyncio.create_task(session.spawn("sing"))
        await wait_for_requests(server, 1)
        await session.end()
        result = await spawning
        child = (await children_of(database, session.id))[0]
        log = describe_log(await read_log(database, session.id))
        row = await session.info()
    assert (result.status, result.reason, child.status) == ("error", "its parent ended", "ended")
    assert log[-3:] == ["SubAgentSpawn", "SubAgentComplete", "SessionEnd"]
    assert (child.reserved, row.reserved) == (Decimal(0), Decimal(0))
    assert child.cost == row.cost > 0  # what was reserved


async def test_a_steer_stops_the_sub_agents_of_the_turn(database: Database) -> None:

    def reply(request: dict[str, Any]) -> ScriptedReply:
        if request["messages"][-1]["content"] == "sing":
            return ScriptedReply(text="never to be heard of again", stall_after=1)
        if request["messages"][-1]["content"].endswith("stop"):
            return ScriptedReply(text="stopped")
        return reply_by_task(request)

    async with (
        ModelServer(answers=reply) as server,
        open_agent(database, server, builtin=["sub_agents"]) as agent,
    ):
        session = await agent.open(KEY)
        turn = asyncio.create_task(send_and_collect(session, "spawn sing"))
        await wait_for_requests(server, 2)
        await people.send_message(database, session.id, "stop", mode="steer")
        assert (await turn).endswith("stopped")
        child = (await children_of(database, session.id))[0]
        log = await read_log(database, session.id)
    assert (child.status, child.error, child.reserved) == ("ended", "its parent stopped it", Decimal(0))
    assert of_type(log, EventType.SUBAGENT_COMPLETE)[0]["reason"] == "its parent stopped it"
    assert "result: spawn_agent error aborted" in describe_log(log)
