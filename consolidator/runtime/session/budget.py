"""A session's money: reserved before each call of a model, settled after it, and never more than its cap.

What a branch or a sub-agent spends counts in its parent, too, against both caps.

A call whose process died costs its whole reserve. A cap in money needs a model whose price is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from ulid import ULID

from consolidator.database import Connection
from consolidator.errors import ConsolidatorError, HeadConflict, NotFound, OverBudget, StaleEpoch, UsageError
from consolidator.llm.prices import calculate_cost, price_tier
from consolidator.models.event import NewEvent
from consolidator.runtime.session.turn_limits import stop_events
from consolidator.store.turns import spend

Purpose = Literal["step", "compaction", "tool"]
DEFAULT_ANSWER_TOKENS = 4096  # requested and reserved for an answer, unless the session's configuration says otherwise
# Tokens are counted with OpenAI's newest tokenizer. Other vendors were seen to count up to a third more.
_EXACTLY_COUNTED = ("gpt-", "o1", "o3", "o4", "chatgpt", "text-embedding")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a call took."""

    input_tokens: int = 0  # cached ones included
    cached_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return the sum."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
        )


class BudgetStop(OverBudget):
    """The call would exceed the session's cap, or the model's price is unknown and the cap cannot be enforced."""

    def __init__(
        self, model: str, cap: Decimal, spent: Decimal, reserve_usd: Decimal | None, parent_id: str | None = None
    ) -> None:
        self.model, self.cap, self.spent, self.reserve_usd = model, cap, spent, reserve_usd
        owner = "the session's cap" if parent_id is None else f"the cap of the parent session {parent_id}"
        super().__init__(
            f"the price of {model} is unknown, so a cap of {cap:f} USD cannot be enforced"
            if reserve_usd is None
            else f"{owner} of {cap:f} USD is reached: {spent:.4f} are spent or reserved, "
            f"and the next call may cost {reserve_usd:.4f}"
        )

    def events(self) -> list[NewEvent]:
        """Return the events to log: the decision, and what the person is told."""
        reserve = {} if self.reserve_usd is None else {"wanted": str(self.reserve_usd)}
        return stop_events(self, {"cap": str(self.cap), "spent": str(self.spent), "model": self.model, **reserve})


def check_cap(model: str | None, cap: Decimal | None) -> None:
    """Raise UsageError for a cap that cannot be enforced."""
    if cap is None:
        return
    if cap < 0:
        raise UsageError(f"a cap of {cap:f} USD is negative")
    if model is None or calculate_cost(model, input_tokens=1, output_tokens=1) is None:
        raise UsageError(f"the price of {model or 'no model'} is unknown, so a cap in money cannot be enforced with it")


def plan_reserve(
    session_id: str,
    *,
    model: str,
    input_tokens: int,
    now: datetime,
    max_tokens: int = DEFAULT_ANSWER_TOKENS,
    purpose: Purpose = "step",
    session_model: str | None = None,
    epoch: int | None = None,
) -> dict[str, Any]:
    """Return what to reserve for a call, and under which id: what it may cost at most, as values of a statement.

    `session_model` is the session's own, against which a cheaper one is recognised. Callers add message and strategy.
    """
    estimated_tokens = input_tokens if model.startswith(_EXACTLY_COUNTED) else input_tokens * 4 // 3
    return {
        "call": str(ULID()),
        "session": session_id,
        "message": None,
        "purpose": purpose,
        "model": model,
        "amount": calculate_cost(model, input_tokens=estimated_tokens, output_tokens=max_tokens),
        "input": input_tokens,
        "output": max_tokens,
        "tier": price_tier(model, session_model),
        "strategy": None,
        "turn": None,  # the session's current one
        "epoch": epoch,
        "now": now,
    }


async def reserve_spend(conn: Connection, reserve: Mapping[str, Any]) -> str:
    """Reserve what a call may cost at most, and return the call's id.

    Raises BudgetStop if the call would exceed the cap, StaleEpoch if another harness holds the session, and NotFound.
    """
    if not await spend.reserve(conn, reserve):
        raise await explain_refusal(conn, reserve)
    return str(reserve["call"])


async def explain_refusal(conn: Connection, reserve: Mapping[str, Any]) -> ConsolidatorError:
    """Return why nothing was reserved, or no call begun."""
    session_id, epoch, amount = reserve["session"], reserve["epoch"], reserve["amount"]
    budgets = await spend.list_budgets(conn, session_id)
    if not budgets:
        return NotFound(f"no session {session_id!r}")
    if epoch is not None and budgets[0].lease_epoch != epoch:
        return StaleEpoch(f"session {session_id}: epoch {epoch} is over, it is {budgets[0].lease_epoch}")
    capped = [budget for budget in budgets if budget.max_cost is not None]
    over = [budget for budget in capped if _is_over(budget, amount)] or capped  # another call has ended in the meantime
    if not over:
        return HeadConflict(f"session {session_id} changes too fast: the call could not begin")
    refused = over[0]
    assert refused.max_cost is not None
    return BudgetStop(
        reserve["model"], refused.max_cost, refused.cost + refused.reserved, amount,
        parent_id=None if refused.id == session_id else refused.id,
    )  # fmt: skip


def _is_over(session: spend.SessionBudget, amount: Decimal | None) -> bool:
    return amount is None or session.max_cost is None or session.cost + session.reserved + amount > session.max_cost


def usage_cost(model: str, usage: Usage) -> Decimal | None:
    """Return what a call cost; None if the price is unknown."""
    return calculate_cost(
        model,
        input_tokens=usage.input_tokens,
        cached_tokens=min(usage.cached_tokens, usage.input_tokens),
        output_tokens=usage.output_tokens,
    )


async def settle_spend(conn: Connection, call_id: str, usage: Usage | None, *, now: datetime) -> Decimal | None:
    """Replace a call's reserve by what it took, once, and return its cost; None if the price is unknown.

    Without `usage` (the server did not report it, or the stream was cut off) the call costs its reserve. A call that
    the server refused has the usage `Usage()`.
    """
    call = await spend.get_call(conn, call_id)
    if call is None:
        raise NotFound(f"no call {call_id!r}")
    if call.settled_at is not None:
        return call.cost
    if usage is None:
        usage = Usage(call.input_tokens, 0, call.output_tokens)
        cost = None if call.tier is None else call.reserved
    else:
        cost = usage_cost(call.model, usage)
    values = {"session": call.session_id, "call": call_id, "cost": cost, "now": now, "input": usage.input_tokens}
    await spend.settle(conn, {**values, "cached": usage.cached_tokens, "output": usage.output_tokens})
    return cost
