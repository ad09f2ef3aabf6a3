"""What models cost: tokens, the cached ones apart, and money; by turn, session, agent, strategy, day or model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Literal

from consolidator.database import Connection
from consolidator.errors import UsageError
from consolidator.store.log import spend
from consolidator.store.queries import Row

By = Literal["turn", "session", "agent", "strategy", "day", "model", "purpose"]
BY: tuple[By, ...] = ("turn", "session", "agent", "strategy", "day", "model", "purpose")


@dataclass(frozen=True, slots=True)
class Cost:
    """What some calls took; `cheap_share` is of the sessions' calls with a known price, None where there are none."""

    name: str
    calls: int
    input_tokens: int  # the cached ones among them
    cached_tokens: int
    output_tokens: int
    cost: Decimal  # US dollars
    set_aside: Decimal  # for calls that are under way
    unpriced: int  # calls of models whose price nobody knows
    cheap_share: float | None

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {**asdict(self), "cost": str(self.cost), "set_aside": str(self.set_aside)}


async def costs(
    conn: Connection,
    by: str = "session",
    *,
    session: str | None = None,
    agent: str | None = None,
    since: date | None = None,
    limit: int | None = None,
) -> tuple[list[Cost], Cost]:
    """Return what calls cost, the dearest first (turns and days in their order), and the sum of all."""
    if by not in BY:
        raise UsageError(f"{by!r} is nothing that costs are summed by: {', '.join(BY)}")
    values = {"session": session, "agent": agent, "since": since, "turns": by == "turn"}
    found = await spend.costs(conn, {**values, "by": by, "limit": limit})
    total = await spend.costs(conn, {**values, "by": "all", "limit": None})
    nothing = Cost("all", 0, 0, 0, 0, Decimal(0), Decimal(0), 0, None)
    return [_cost(one) for one in found], _cost(total[0]) if total else nothing


def _cost(found: Row) -> Cost:
    share = found["cheap"] / found["priced"] if found["priced"] else None
    names = ("name", "calls", "input_tokens", "cached_tokens", "output_tokens", "cost", "set_aside", "unpriced")
    return Cost(**{name: found[name] for name in names}, cheap_share=share)
