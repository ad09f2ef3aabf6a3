"""What model calls of sessions cost: reserved before, settled after, summed for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from consolidator.database import Connection
from consolidator.models.run import SpendRow
from consolidator.store.queries import FirstRow, execute, fetch_all, fetch_value, load

_SQL = load("turns/spend")


@dataclass(frozen=True, slots=True)
class SessionBudget:
    """What a reserve is checked against."""

    id: str  # of the session
    cost: Decimal  # USD of settled calls
    reserved: Decimal  # USD of calls that are not settled
    max_cost: Decimal | None
    lease_epoch: int


@dataclass(frozen=True, slots=True)
class CostSum:
    """What some calls cost together."""

    name: str  # of the turn, session, agent, strategy, day, model or purpose that they have in common
    calls: int
    input_tokens: int  # the cached ones among them
    cached_tokens: int
    output_tokens: int
    cost: Decimal  # USD of settled calls
    set_aside: Decimal  # USD of calls that are not settled
    unpriced: int  # settled calls with no known price
    cheap: int  # calls of a session that asked a cheaper model than its own
    priced: int  # calls of a session with a known price


async def reserve(conn: Connection, values: Mapping[str, Any]) -> bool:
    """Reserve money for a call; False if it would pass the cap, or the session is another's or does not exist."""
    return await execute(conn, _SQL["reserve"], values) > 0


async def list_budgets(conn: Connection, session_id: str) -> list[SessionBudget]:
    """Return what a refused reserve was checked against: the session's own budget, then its parent's if that pays."""
    return await fetch_all(conn, SessionBudget, _SQL["list_budgets"], {"session": session_id, "call": None})


async def settle(conn: Connection, values: Mapping[str, Any]) -> bool:
    """Replace a call's reserve by what it took; False if it was settled before."""
    return await execute(conn, _SQL["settle"], {**values, "session": None}) > 0


async def settle_open(conn: Connection, session_id: str, now: datetime) -> int:
    """Settle every open call of a session at its reserve; return how many there were."""
    return int(await fetch_value(conn, _SQL["settle_open"], {"session": session_id, "call": None, "now": now}))


async def sum_costs(conn: Connection, values: Mapping[str, Any]) -> list[CostSum]:
    """Return what calls cost, summed by what `values` name."""
    return await fetch_all(conn, CostSum, _SQL["sum_costs"], values)


get_call = FirstRow[SpendRow, str](SpendRow, _SQL["get_call"])
