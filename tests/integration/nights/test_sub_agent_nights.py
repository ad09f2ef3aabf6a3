"""Sub-agents and the nights: each log is learned from once and by itself; retention and erasure leave none at work."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from consolidator import tool
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.consolidation.backfill import Backfill
from consolidator.jobs.ledger import BackfillFilter
from consolidator.jobs.retention import prune
from consolidator.models.payload import EventType
from consolidator.runtime.turn.sub_agents import list_unfinished
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.settings import Settings
from consolidator.store.log.verification import check_folds
from consolidator.store.sessions import sessions
from consolidator.testing import ModelServer, ScriptedReply
from tests.integration.runtime.test_sub_agents import children_of, of_type, reply_by_task, wait_for_requests
from tests.nights import assert_ledger_balances, query_number, query_rows, run_next_night
from tests.runtime import KEY, open_agent, read_log, send_and_collect
from tests.support import assert_invariants, read_memory

STALLING = ScriptedReply(text="never to be heard of again", stall_after=1)
MONTH = timedelta(days=30)


@tool(side_effect=False)
async def look(what: str) -> str:
    """Look at something."""
    return f"{what} is green"


async def count_calls(database: Database) -> dict[str, int]:
    """Return how many calls each session's digest holds."""
    return {
        row["session_id"]: row["calls"] for row in await query_rows(database, "select session_id, calls from digest")
    }


async def test_a_night_learns_each_log_of_a_family_once_and_by_itself(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    async with (
        ModelServer(answers=reply_by_task) as server,
        open_agent(database, server, [look], builtin=["sub_agents"]) as agent,
    ):
        session = await agent.open(KEY, project="shop")
        await send_and_collect(session, "spawn look left, look right")
        first = await run_next_night(database, clock, settings)
        await send_and_collect(session, "look ahead")
        await send_and_collect(session, "spawn look back")
        second = await run_next_night(database, clock, settings)
    children = await children_of(database, session.id)
    logs = {name: await read_log(database, name) for name in (session.id, *(child.id for child in children))}
    events = sum(len(log) for log in logs.values())
    assert first["seen"] + second["seen"] == first["learned"] + first["nothing"] + second["learned"] + second["nothing"]
    assert first["seen"] + second["seen"] - first["deferred"] == events
    assert await query_number(database, "select count(*) from event where consolidated_at is not null") == events
    assert len(of_type(logs[session.id], EventType.SUBAGENT_COMPLETE)) == 3
    # Each looks in its own log; in the parent's are its own look, and that it gave work to three.
    assert await count_calls(database) == {session.id: 4, **{child.id: 1 for child in children}}
    turns = await query_rows(database, "select session_id, role, count(*) as n from episode group by 1, 2")
    said = {(row["session_id"], row["role"]): row["n"] for row in turns}
    assert said == {
        (session.id, "user"): 3, (session.id, "assistant"): 3, **{(child.id, "assistant"): 1 for child in children}
    }  # fmt: skip
    await assert_invariants(database)
    await assert_ledger_balances(database)
    nightly = await read_memory(database)
    await Backfill(database, settings, session_filter=BackfillFilter(reprocess=True)).run()
    assert await read_memory(database) == nightly
    assert (await run_next_night(database, clock, settings))["seen"] == 0


async def test_a_fact_of_a_family_has_one_witness(database: Database, clock: FrozenClock, settings: Settings) -> None:
    """What a parent passes on to its sub-agents is no further word of anybody."""
    rule = "From now on, always use tabs for indentation."

    def reply(request: dict[str, Any]) -> ScriptedReply:
        last = request["messages"][-1]
        if last["role"] == "user" and "tabs" in last["content"] and len(request.get("tools") or ()) > 1:
            return ScriptedReply.calling(("spawn_agent", {"task": rule}), ("spawn_agent", {"task": rule}))
        return ScriptedReply(text="Very well.")

    async with (
        ModelServer(answers=reply) as server,
        open_agent(database, server, [look], builtin=["sub_agents"]) as agent,
    ):
        session = await agent.open(KEY, project="shop")
        await send_and_collect(session, rule)
        assert len(await children_of(database, session.id)) == 2
    await run_next_night(database, clock, settings)
    facts = await query_rows(database, "select sessions, cardinality(evidence) as quotes from fact")
    assert facts == [{"sessions": 1, "quotes": 1}]


async def leave_at_work(database: Database, **options: Any) -> tuple[str, str]:
    """Let a process die while a sub-agent answers; return the ids of parent and sub-agent."""
    async with ModelServer(answers=[STALLING]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY, **options)
        spawning = asyncio.create_task(session.spawn("sing"))
        await wait_for_requests(server, 1)
        spawning.cancel()
        await asyncio.gather(spawning, return_exceptions=True)
    (child,) = await children_of(database, session.id)
    assert len(await list_unfinished(database, session.id)) == 1
    return session.id, child.id


async def test_a_sub_agent_at_work_ends_with_a_parent_that_expires(database: Database, clock: FrozenClock) -> None:
    parent, child = await leave_at_work(database, ttl=timedelta(hours=1))
    clock.advance(timedelta(days=20))
    assert (await prune(database, older_than=MONTH, dry_run=True)).expired == 2  # it has its parent's time to live
    assert len(await list_unfinished(database, parent)) == 1
    await prune(database, older_than=MONTH)
    assert await list_unfinished(database, parent) == []
    async with database.connection() as conn:
        rows = [await sessions.get(conn, name) for name in (parent, child)]
        assert (await check_folds(conn)).problems == []
    assert [row.status for row in rows] == ["ended", "ended"]
    assert [row.reserved for row in rows] == [0, 0]
    (told,) = of_type(await read_log(database, parent), EventType.SUBAGENT_COMPLETE)
    assert (told["child"], told["reason"]) == (child, "its parent ended")
    await assert_invariants(database)


async def test_what_an_erased_sub_agent_cost_is_its_parents(database: Database, settings: Settings) -> None:
    async with ModelServer(answers=reply_by_task) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        results = [await session.spawn("sing"), await session.spawn("dance")]
        before = await session.info()
    plan = await plan_erasure(database, session=results[0].session_id)
    await erase_sessions(database, settings, plan, reason="asked for")
    async with database.connection() as conn:
        found = await check_folds(conn)
        after = await sessions.get(conn, session.id)
    assert (found.problems, after.cost) == ([], before.cost)
    spent = await query_rows(database, "select distinct session_id from spend order by 1")
    assert [row["session_id"] for row in spent] == sorted([session.id, results[1].session_id])
    await erase_sessions(database, settings, await plan_erasure(database, session=session.id), reason="asked for")
    assert await query_number(database, "select count(*) from spend where session_id is null") == 2


async def test_a_sub_agent_at_work_that_is_erased_ends_first(database: Database, settings: Settings) -> None:
    parent, child = await leave_at_work(database)
    await erase_sessions(database, settings, await plan_erasure(database, session=child), reason="asked for")
    (told,) = of_type(await read_log(database, parent), EventType.SUBAGENT_COMPLETE)
    assert (told["child"], told["reason"]) == (child, "it was erased")
    async with database.connection() as conn:
        assert (await check_folds(conn)).problems == []
        assert (await sessions.get(conn, parent)).reserved == 0
