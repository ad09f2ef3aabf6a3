"""I12, the cap holds: what is set aside and what is spent of a session never pass its cap, whoever crashes when."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from consolidator.database import Database
from consolidator.errors import NotFound, StaleEpoch, UsageError
from consolidator.llm.prices import calculate_cost
from consolidator.models.payload import EventType
from consolidator.runtime.session.budget import (
    BudgetStop,
    Usage,
    check_cap,
    plan_reserve,
    reserve_spend,
    settle_spend,
)
from consolidator.store.turns import spend
from tests.nights import open_replica, query_rows
from tests.reuse import dsn, emptied
from tests.support import log_events

__all__ = ["dsn", "emptied"]  # fixtures

MODEL = "gpt-4o"
MOST = calculate_cost(MODEL, input_tokens=1000, output_tokens=100) or Decimal(0)


async def open_capped_session(database: Database, cap: Decimal | None, **columns: object) -> None:
    """Open a session with a cap."""
    await log_events(database, "one", [])
    async with database.transaction() as conn:
        await conn.execute("update session set max_cost = %s, lease_epoch = 3", [cap])


async def reserve(
    database: Database, *, message: str | None = None, strategy: str | None = None, **more: object
) -> str:
    """Reserve for a call of 1,000 tokens in and 100 out."""
    values = {"model": MODEL, "input_tokens": 1000, "max_tokens": 100, "now": database.clock.now(), **more}
    async with database.transaction() as conn:
        planned = plan_reserve("one", **values) | {"message": message, "strategy": strategy}  # type: ignore[arg-type]
        return await reserve_spend(conn, planned)


async def settle(database: Database, call: str, usage: Usage | None) -> Decimal | None:
    """Settle a call."""
    async with database.transaction() as conn:
        return await settle_spend(conn, call, usage, now=database.clock.now())


async def load_money(database: Database) -> tuple[Any, Any]:
    """Return what the session has spent and set aside."""
    (row,) = await query_rows(database, "select cost, reserved from session where id = 'one'")
    return row["cost"], row["reserved"]


async def test_a_call_is_set_aside_before_and_settled_after(database: Database) -> None:
    await open_capped_session(database, Decimal(1))
    call = await reserve(database, session_model=MODEL, strategy="budget", message="m1", epoch=3)
    assert await load_money(database) == (0, MOST)
    cost = await settle(database, call, Usage(900, 400, 50))
    assert cost == calculate_cost(MODEL, input_tokens=900, cached_tokens=400, output_tokens=50)
    assert await load_money(database) == (cost, 0)
    (row,) = await query_rows(database, "select input_tokens, cached_tokens, output_tokens from session")
    assert row == {"input_tokens": 900, "cached_tokens": 400, "output_tokens": 50}
    (row,) = await query_rows(database, "select * from spend")
    assert (row["tier"], row["strategy"], row["message_id"], str(row["day"])) == ("main", "budget", "m1", "2026-03-02")


async def test_a_call_that_would_pass_the_cap_is_not_made_and_the_person_is_told(database: Database) -> None:
    """B7."""
    await open_capped_session(database, MOST * 2)
    await reserve(database)
    await reserve(database)
    with pytest.raises(BudgetStop, match="USD is reached") as stopped:
        await reserve(database)
    decision, error_event = stopped.value.events()
    assert (decision.type, decision.data["decision"]) == (EventType.POLICY_DECISION, "budget_stop")
    assert (error_event.type, error_event.data["message"]) == (EventType.ERROR, str(stopped.value))
    assert await load_money(database) == (0, MOST * 2)
    await log_events(database, "one", [decision, error_event])


async def test_what_a_call_did_not_take_can_be_spent_again(database: Database) -> None:
    await open_capped_session(database, MOST)
    call = await reserve(database)
    await settle(database, call, Usage(10, 0, 1))
    await reserve(database, input_tokens=900)
    assert sum(await load_money(database)) <= MOST


async def test_a_crash_settles_at_the_reserve_and_a_late_answer_changes_nothing(database: Database) -> None:
    await open_capped_session(database, MOST * 2)
    first, second = await reserve(database), await reserve(database)
    async with database.transaction() as conn:
        assert await spend.settle_open(conn, "one", database.clock.now()) == 2
        assert await spend.settle_open(conn, "one", database.clock.now()) == 0
    assert await load_money(database) == (MOST * 2, 0)
    assert await settle(database, first, Usage(1, 0, 1)) == MOST
    assert await settle(database, second, None) == MOST
    assert await load_money(database) == (MOST * 2, 0)
    (row,) = await query_rows(database, "select input_tokens, output_tokens from session")
    assert row == {"input_tokens": 2000, "output_tokens": 200}


async def test_a_stream_without_usage_has_cost_its_reserve_and_a_refused_call_nothing(database: Database) -> None:
    await open_capped_session(database, Decimal(1))
    assert await settle(database, await reserve(database), None) == MOST
    assert await settle(database, await reserve(database), Usage()) == 0
    assert await load_money(database) == (MOST, 0)


async def test_a_zombie_sets_nothing_aside(database: Database) -> None:
    await open_capped_session(database, None)
    with pytest.raises(StaleEpoch):
        await reserve(database, epoch=2)
    assert await query_rows(database, "select * from spend") == []
    with pytest.raises(NotFound):
        async with database.transaction() as conn:
            await reserve_spend(conn, plan_reserve("two", model=MODEL, input_tokens=1, now=database.clock.now()))


async def test_a_model_without_a_known_price_refuses_a_cap_and_counts_tokens_without_one(database: Database) -> None:
    await open_capped_session(database, Decimal(100))
    with pytest.raises(BudgetStop, match="the price of in-house is unknown"):
        await reserve(database, model="in-house")
    with pytest.raises(UsageError, match="the price of in-house is unknown"):
        check_cap("in-house", Decimal(1))
    with pytest.raises(UsageError, match="is negative"):
        check_cap(MODEL, Decimal(-1))
    check_cap("in-house", None)
    check_cap(MODEL, Decimal(0))
    await open_capped_session(database, None)
    call = await reserve(database, model="in-house")
    assert await settle(database, call, Usage(10, 0, 5)) is None
    (row,) = await query_rows(database, "select tier, cost, settled_at is not null as settled from spend")
    assert row == {"tier": None, "cost": None, "settled": True}
    assert await load_money(database) == (0, 0)


async def test_other_counters_than_openais_get_a_third_more_set_aside(database: Database) -> None:
    await open_capped_session(database, None)
    await reserve(database, model="claude-sonnet-4-5", input_tokens=900)
    assert (await load_money(database))[1] == calculate_cost("claude-sonnet-4-5", input_tokens=1200, output_tokens=100)


async def test_harnesses_that_reserve_at_once_never_pass_the_cap(database: Database) -> None:
    await open_capped_session(database, MOST * 5)

    async def spends(connected: Database, number: int) -> int:
        try:
            call = await reserve(connected)
        except BudgetStop:
            return 0
        await settle(connected, call, None if number % 2 else Usage(1000, 0, 100))
        return 1

    async with open_replica(database) as other:
        spent = await asyncio.gather(*(spends(database if n % 3 else other, n) for n in range(16)))
    assert sum(spent) == 5
    assert await load_money(database) == (MOST * 5, 0)
