"""What model calls cost: tokens (cached ones also apart) and money, by turn, session, agent, strategy, day or model."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.llm.prices import calculate_cost
from consolidator.models.run import Cost
from consolidator.store.turns import spend

CostGrouping = Literal["turn", "session", "agent", "strategy", "day", "model", "purpose"]
COST_GROUPINGS: tuple[CostGrouping, ...] = ("turn", "session", "agent", "strategy", "day", "model", "purpose")


async def load_costs(
    database: Database,
    by: str = "session",
    *,
    session_id: str | None = None,
    agent: str | None = None,
    since: datetime | None = None,
) -> tuple[list[Cost], Cost]:
    """Return the cost of each group, the most expensive first (turns and days in their order), and the total.

    Raises UsageError for an unknown grouping.
    """
    if by not in COST_GROUPINGS:
        raise UsageError(f"cannot group costs by {by!r}; choose one of: {', '.join(COST_GROUPINGS)}")
    day = since.date() if since else None
    filters = {"session": session_id, "agent": agent, "since": day, "turns": by == "turn"}
    async with database.connection() as conn:
        groups = await spend.sum_costs(conn, {**filters, "by": by})
        totals = await spend.sum_costs(conn, {**filters, "by": "all"})
    zero = Cost("all", 0, 0, 0, 0, Decimal(0), Decimal(0), 0, None)
    return groups, totals[0] if totals else zero


def price_answer(model: Any, usage: Any) -> Decimal | None:
    """Return the price in US dollars of an answer with these tokens, as its event has them.

    None where the model has no known price, or nobody counted; the event may be another harness's, of any shape.
    """
    if not isinstance(model, str) or not isinstance(usage, Mapping):
        return None
    read, cached, written = (
        number if type(number := usage.get(name)) is int and 0 <= number < 2**53 else 0
        for name in ("input", "cached", "output")
    )
    if not read + cached + written:
        return None
    return calculate_cost(model, input_tokens=max(read, cached), cached_tokens=cached, output_tokens=written)
