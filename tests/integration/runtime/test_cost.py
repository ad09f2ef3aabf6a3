"""What models cost, summed by what people ask, and how it is told on the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.llm.prices import calculate_cost
from consolidator.models.run import Cost
from consolidator.runtime.session.budget import Purpose, Usage, plan_reserve, reserve_spend, settle_spend
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.sessions.costs import COST_GROUPINGS, load_costs
from consolidator.service.sessions.reruns import rerun_session
from consolidator.testing import ModelServer
from tests.reuse import dsn, emptied
from tests.runtime import KEY, open_agent, send_and_collect
from tests.support import assert_invariants, log_events, run_here

__all__ = ["dsn", "emptied"]  # fixtures

DEAR, CHEAP = "gpt-4o", "gpt-4o-mini"


async def spend(
    database: Database, session: str, model: str = DEAR, *, usage: Usage | None = None, purpose: Purpose = "step",
    strategy: str = "budget", turn: int = 0,
) -> None:  # fmt: skip
    """Make a call; without `usage` it is still under way."""
    async with database.transaction() as conn:
        now = database.clock.now()
        reserve = plan_reserve(
            session, model=model, input_tokens=100, max_tokens=10, now=now, purpose=purpose, session_model=DEAR
        )
        call = await reserve_spend(conn, {**reserve, "strategy": strategy, "turn": turn})
        if usage is not None:
            await settle_spend(conn, call, usage, now=now)


async def costs_by(database: Database, what: str, **more: object) -> dict[str, Cost]:
    """Return what calls cost, by name; all of them under "all"."""
    costs, total = await load_costs(database, what, **more)  # type: ignore[arg-type]
    return {**{cost.name: cost for cost in costs}, "all": total}


@pytest.fixture
async def billed_sessions(database: Database, clock: FrozenClock) -> Database:
    """Two sessions of two agents on two days."""
    await log_events(database, "one", [], agent="coder")
    await log_events(database, "two", [], agent="clerk")
    await spend(database, "one", usage=Usage(90, 50, 5))
    await spend(database, "one", usage=Usage(80, 0, 5), turn=1)
    await spend(database, "one", CHEAP, usage=Usage(500, 0, 50), purpose="compaction", strategy="compacted", turn=1)
    clock.set(clock.now() + timedelta(days=1))
    await spend(database, "two", "in-house", usage=Usage(10, 0, 1))
    await spend(database, "two")
    return database


async def test_costs_are_summed_by_whatever_people_ask(billed_sessions: Database) -> None:
    expensive = calculate_cost(DEAR, input_tokens=90, cached_tokens=50, output_tokens=5)
    other = calculate_cost(DEAR, input_tokens=80, output_tokens=5)
    cheap = calculate_cost(CHEAP, input_tokens=500, output_tokens=50)
    aside = calculate_cost(DEAR, input_tokens=100, output_tokens=10)
    assert expensive is not None
    assert other is not None
    assert cheap is not None
    first = Cost("one", 3, 670, 50, 60, expensive + other + cheap, Decimal(0), 0, 1 / 3)
    costs = await costs_by(billed_sessions, "session")
    assert costs["one"] == first
    assert (costs["two"].calls, costs["two"].unpriced, costs["two"].set_aside) == (2, 1, aside)
    assert costs["all"].cost == first.cost
    assert costs["all"].cheap_share == 0.25
    assert [(name, cost.calls) for name, cost in (await costs_by(billed_sessions, "turn")).items()] == [
        ("one:1", 1), ("one:2", 2), ("two:1", 2), ("all", 5),
    ]  # fmt: skip
    assert list(await costs_by(billed_sessions, "day")) == ["2026-03-02", "2026-03-03", "all"]
    assert {name: cost.calls for name, cost in (await costs_by(billed_sessions, "agent")).items()} == {
        "coder": 3,
        "clerk": 2,
        "all": 5,
    }
    assert {name: cost.calls for name, cost in (await costs_by(billed_sessions, "strategy")).items()} == {
        "budget": 4, "compacted": 1, "all": 5,
    }  # fmt: skip
    assert set(await costs_by(billed_sessions, "model")) == {DEAR, CHEAP, "in-house", "all"}
    assert (await costs_by(billed_sessions, "purpose"))["compaction"].cost == cheap


async def test_costs_can_be_asked_of_a_part(billed_sessions: Database) -> None:
    assert set(await costs_by(billed_sessions, "session", session_id="one")) == {"one", "all"}
    assert set(await costs_by(billed_sessions, "session", agent="clerk")) == {"two", "all"}
    assert set(await costs_by(billed_sessions, "session", since=datetime(2026, 3, 3, tzinfo=UTC))) == {"two", "all"}
    assert (await costs_by(billed_sessions, "session", agent="nobody"))["all"].calls == 0
    with pytest.raises(UsageError, match="cannot group costs by"):
        await costs_by(billed_sessions, "weather")


async def test_the_nights_calls_are_among_them_and_what_an_erased_session_cost_stays(billed_sessions: Database) -> None:
    async with billed_sessions.transaction() as conn:
        await conn.execute(
            "insert into model_call (id, run_id, purpose, model, key, reserved_tokens, input_tokens, output_tokens, "
            "cost, created_at, settled_at) values ('c', 'r', 'extract', %s, 'k', 10, 9, 1, 0.25, %s, %s)",
            [CHEAP, billed_sessions.clock.now(), billed_sessions.clock.now()],
        )
        await conn.execute("update spend set session_id = null where session_id = 'two'")
    costs = await costs_by(billed_sessions, "session")
    assert costs["(nights)"].cost == Decimal("0.25")
    assert costs["(erased)"].calls == 2
    for what in COST_GROUPINGS:
        total = (await costs_by(billed_sessions, what))["all"]
        assert total.calls == (5 if what == "turn" else 6)


async def test_a_sessions_costs_are_what_its_cap_counts_sub_agents_and_branches_included(
    database: Database, environment: dict[str, str]
) -> None:
    """B23."""
    async with ModelServer(answers=["Fine."] * 20) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY, max_cost_usd=2)
        await send_and_collect(session, "first")
        fork = await session.fork()
        await send_and_collect(fork, "of the fork")
        children = [(await session.spawn("look around")).session_id]
        children += [(await session.propose_steer("rather so")).branch.id]
        children += [(await session.branch("dream", "and if?")).id]
        await agent.wake(children[-1])
        await rerun_session(database, agent.harness.settings, session.id)
        row = await session.info()
        for what in COST_GROUPINGS:
            costs = await costs_by(database, what, session_id=session.id)
            total = costs.pop("all")
            assert total.cost == row.cost == sum(cost.cost for cost in costs.values())
            assert (total.input_tokens, total.output_tokens) == (row.input_tokens, row.output_tokens)
        assert set(await costs_by(database, "session", session_id=session.id)) == {session.id, *children, "all"}
        plan = await plan_erasure(database, session=children[0])
        await erase_sessions(database, agent.harness.settings, plan, reason="asked to")
        assert (await costs_by(database, "model", session_id=session.id))["all"].cost == row.cost
    shown = json.loads(run_here("cost", "--session", session.id, "--json", environment=environment).stdout)
    assert Decimal(shown["total"]["cost"]) == row.cost
    await assert_invariants(database)
