"""What model calls cost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from consolidator.database import Database
from consolidator.llm.prices import calculate_cost
from consolidator.runtime.session import cost
from consolidator.runtime.session.cost import Cost


async def load_costs(
    database: Database,
    by: str = "session",
    *,
    session_id: str | None = None,
    agent: str | None = None,
    since: datetime | None = None,
    limit: int | None = None,
) -> tuple[list[Cost], Cost]:
    """Return what model calls cost, summed by one of COST_GROUPINGS, and the sum of all."""
    async with database.connection() as conn:
        day = since.date() if since else None
        return await cost.load_costs(conn, by, session=session_id, agent=agent, since=day, limit=limit)


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
