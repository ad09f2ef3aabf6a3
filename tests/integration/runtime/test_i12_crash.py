"""I12 through the whole runtime: wherever a process dies, what it set aside counts as spent, and the cap holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.llm.prices import calculate_cost
from consolidator.models.event import NewEvent
from consolidator.runtime.agent import Consolidator, Session
from consolidator.runtime.tools.tool import tool
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.testing import ModelServer, ScriptedReply
from consolidator.testing.kill_points import interrupt_at, record_boundaries
from tests.nights import query_number, query_rows
from tests.reuse import dsn, emptied
from tests.support import SimulatedKill, assistant_response, later, user_message

__all__ = ["dsn", "emptied"]  # fixtures
MODEL, CAP = "gpt-4o", Decimal("0.05")
SUMMARY = {"summary": "They add numbers.", "next_steps": []}
TALK: list[NewEvent] = [
    event for n in range(12) for event in (user_message(f"Add {n}! " * 30), assistant_response(f"{n} it is. " * 30))
]


@tool(idempotent=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def create_reply(request: dict[str, Any]) -> ScriptedReply:
    """Sum up where asked to; else call the tool once, then answer."""
    if not request.get("stream"):
        return ScriptedReply.json(SUMMARY)
    if request["messages"][-1]["role"] == "tool":
        return ScriptedReply(text="It is three. " * 5)
    return ScriptedReply.calling(("add", {"a": 1, "b": 2}))


@asynccontextmanager
async def open_agent(database: Database, settings: Settings, server: ModelServer) -> AsyncIterator[Consolidator]:
    """A process that drives sessions."""
    mine = settings.model_copy(update={"openai_base_url": server.url, "model": MODEL})
    async with Consolidator(tools=[add], settings=mine, database=database) as agent:
        yield agent


async def long_session(agent: Consolidator, name: str) -> Session:
    """Open a session that the next message makes too long for its contexts."""
    session = await agent.open(
        f"coder:cli:{name}", model=MODEL, max_cost_usd=CAP, strategy="compacted", budget=2000, answer_tokens=100
    )
    async with agent.database.transaction() as conn:
        await events.append(conn, session.id, TALK, now=agent.database.clock.now())
        await conn.execute("update session set settled_to = head where id = %s", [session.id])
    return session


async def send_and_collect(session: Session) -> str:
    """Say something and return the answer."""
    return "".join([delta async for delta in session.send("Add one and two.")])


def sum_bill(server: ModelServer) -> Decimal:
    """Return at least what the server could charge: the questions it was asked."""
    sizes = (sum(len(str(m.get("content") or "")) for m in request["messages"]) // 8 for request in server.requests)
    return sum((calculate_cost(MODEL, input_tokens=size) or Decimal(0) for size in sizes), Decimal(0))


async def test_wherever_a_process_dies_its_money_is_settled_and_the_cap_holds(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    async with ModelServer(create_reply) as server, open_agent(database, settings, server) as agent:
        session = await long_session(agent, "whole")
        with record_boundaries() as passed:
            assert "three" in await send_and_collect(session)
        assert len(server.requests) == 3
        assert "after compaction" in passed
        firsts = {name: number for number, name in reversed(list(enumerate(passed, 1)))}
        lasts = {name: number for number, name in enumerate(passed, 1)}
        for number in sorted({*firsts.values(), *lasts.values()}):
            await die_at(number, passed[number - 1], clock, settings, server, agent)


async def die_at(
    number: int, name: str, clock: FrozenClock, settings: Settings, server: ModelServer, agent: Consolidator
) -> None:
    """Die at a boundary, wake the session elsewhere, and look at the money."""

    def die(_: str) -> None:
        raise SimulatedKill

    case, database = f"{number}: {name}", agent.database
    server.requests.clear()
    session = await long_session(agent, f"n{number}")
    with interrupt_at(number, die), pytest.raises(SimulatedKill):
        await send_and_collect(session)
    clock.set(later(clock.now(), minutes=10))  # its lease runs out
    async with open_agent(database, settings, server) as other:
        await other.wake(session.id)
    (row,) = await query_rows(
        database, "select cost, reserved, pending, compactions from session where id = %s", session.id
    )
    spends = await query_rows(database, "select cost, settled_at from spend where session_id = %s", session.id)
    assert row["reserved"] == 0, case
    assert not row["pending"], case
    assert all(call["settled_at"] is not None for call in spends), case
    assert row["cost"] == sum(call["cost"] for call in spends), case
    assert sum_bill(server) <= row["cost"] <= CAP, case
    assert row["compactions"] == (name != "before commit message"), case


async def test_a_session_that_reaches_its_cap_ends_its_turn_and_says_so(database: Database, settings: Settings) -> None:
    async with (
        ModelServer([ScriptedReply(text="Noted. " * 20)]) as server,
        open_agent(database, settings, server) as agent,
    ):
        session = await agent.open("coder:cli:ada", model=MODEL, max_cost_usd="0.004", answer_tokens=100)
        turns = []
        while session.result is None or session.result.finish_reason == "stop":
            turns.append(await send_and_collect(session))
        assert session.result.finish_reason == "budget"
        assert "cap of 0.004 USD is reached" in turns[-1]
        assert len(server.requests) == len(turns) - 1 >= 2
        (row,) = await query_rows(database, "select cost, reserved from session")
        assert 0 < row["cost"] <= Decimal("0.004")
        assert row["reserved"] == 0
        stops = "select count(*) from event where event_type = 'PolicyDecision' and data->>'decision' = 'budget_stop'"
        assert await query_number(database, stops) == 1
        await agent.wake(session.id)
        assert len(server.requests) == len(turns) - 1
        again = await agent.open("coder:cli:ada", max_cost_usd=1)
        assert "Noted." in await send_and_collect(again)
