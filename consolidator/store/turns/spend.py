"""What model calls of sessions cost: reserved before, settled after, summed for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from consolidator.models.run import Cost
from consolidator.store.queries import Attempt, FirstRow, Rows, Value, load

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
class ReservedCall:
    """A call of a model: what it may cost and, once it is settled, did cost."""

    session_id: str | None  # none: the session was erased
    model: str
    reserved: Decimal
    cost: Decimal | None
    input_tokens: int
    output_tokens: int
    tier: str | None
    settled_at: datetime | None


get_call = FirstRow[ReservedCall, str](ReservedCall, _SQL["get_call"])
reserve = Attempt[Mapping[str, Any]](_SQL["reserve"], "*")
list_budgets = Rows[SessionBudget, str](SessionBudget, _SQL["list_budgets"], "session")
settle = Attempt[Mapping[str, Any]](_SQL["settle"], "*")
settle_open = Value[int, str, datetime](_SQL["settle_open"], "session now")
sum_costs = Rows[Cost, Mapping[str, Any]](Cost, _SQL["sum_costs"], "*")
