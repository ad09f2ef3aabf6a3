"""A session's money: set aside before each call of a model, settled after it, and never more than its cap.

A call whose process died has cost its reserve. A cap in money needs a model whose price is known.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from ulid import ULID

from consolidator.database import Connection
from consolidator.errors import NotFound, OverBudget, StaleEpoch, UsageError
from consolidator.llm.prices import price, tier
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime.harness import Usage
from consolidator.store.log import spend

Purpose = Literal["step", "compaction", "tool"]
ANSWER = 4096  # tokens of an answer that are asked for, and set aside, where nobody says otherwise
# Tokens are counted as OpenAI's newest models count them; others were seen to count up to a third more.
_OURS = ("gpt-", "o1", "o3", "o4", "chatgpt", "text-embedding")


class BudgetStop(OverBudget):
    """The call would pass the session's cap, or the cap cannot be held since nobody knows the model's price."""

    def __init__(self, model: str, cap: Decimal, spent: Decimal, wanted: Decimal | None) -> None:
        self.model, self.cap, self.spent, self.wanted = model, cap, spent, wanted
        super().__init__(
            f"nobody knows the price of {model}, so a cap of {cap:f} USD cannot be held"
            if wanted is None
            else f"the session's cap of {cap:f} USD is reached: {spent:.4f} are spent or set aside, "
            f"and the next call may cost {wanted:.4f}"
        )

    def events(self) -> list[NewEvent]:
        """Return what goes into the log: the decision, and what the person is told."""
        told: dict[str, Any] = {"cap": str(self.cap), "spent": str(self.spent), "model": self.model}
        if self.wanted is not None:
            told["wanted"] = str(self.wanted)
        return [
            NewEvent(EventType.POLICY_DECISION, {"decision": "budget_stop", **told}),
            NewEvent(EventType.ERROR, {"message": str(self), "kind": "budget"}),
        ]


def check_cap(model: str | None, cap: Decimal | None) -> None:
    """Raise UsageError for a cap that cannot be held."""
    if cap is None:
        return
    if cap < 0:
        raise UsageError(f"a cap of {cap:f} USD is less than nothing")
    if model is None or price(model, input_tokens=1, output_tokens=1) is None:
        raise UsageError(f"nobody knows the price of {model or 'no model'}, so a cap in money cannot be held with it")


async def reserve_spend(
    conn: Connection,
    session_id: str,
    *,
    model: str,
    input_tokens: int,
    now: datetime,
    max_tokens: int = ANSWER,
    purpose: Purpose = "step",
    own_model: str | None = None,
    message_id: str | None = None,
    strategy: str | None = None,
    turn: int | None = None,
    epoch: int | None = None,
) -> str:
    """Set aside what a call may cost at most, and return the call's id.

    `own_model` is the session's, by which a cheaper one is told; `turn` is the session's own where it is left out.
    Raises BudgetStop where the cap would be passed, StaleEpoch where another holds the session, and NotFound.
    """
    asked = input_tokens if model.startswith(_OURS) else input_tokens * 4 // 3
    amount = price(model, input_tokens=asked, output_tokens=max_tokens)
    call = str(ULID())
    values = {
        "call": call, "session": session_id, "message": message_id, "purpose": purpose, "model": model,
        "amount": amount, "input": input_tokens, "output": max_tokens, "tier": tier(model, own_model),
        "strategy": strategy, "turn": turn, "epoch": epoch, "now": now,
    }  # fmt: skip
    if await spend.reserve(conn, values):
        return call
    found = await spend.refusal(conn, session_id)
    if found is None:
        raise NotFound(f"no session {session_id!r}")
    if epoch is not None and found["lease_epoch"] != epoch:
        raise StaleEpoch(f"session {session_id}: epoch {epoch} is over, it is {found['lease_epoch']}")
    raise BudgetStop(model, found["max_cost"], found["cost"] + found["reserved"], amount)


async def settle_spend(conn: Connection, call_id: str, usage: Usage | None, *, now: datetime) -> Decimal | None:
    """Put what a call took in the place of its reserve; once. Return its cost, None where the price is not known.

    Without `usage` (the server did not tell, or the stream was cut) it has cost its reserve; a call that the server
    refused has the usage `Usage()`.
    """
    found = await spend.call(conn, call_id)
    if found is None:
        raise NotFound(f"no call {call_id!r}")
    if found["settled_at"] is not None:
        return _money(found["cost"])
    if usage is None:
        usage = Usage(found["input_tokens"], 0, found["output_tokens"])
        cost = None if found["tier"] is None else found["reserved"]
    else:
        cost = price(
            found["model"],
            input_tokens=usage.input_tokens,
            cached_tokens=min(usage.cached_tokens, usage.input_tokens),
            output_tokens=usage.output_tokens,
        )
    values = {"call": call_id, "cost": cost, "now": now, "input": usage.input_tokens}
    await spend.settle_spend(conn, {**values, "cached": usage.cached_tokens, "output": usage.output_tokens})
    return _money(cost)


async def settle_open(conn: Connection, session_id: str, *, now: datetime) -> int:
    """Settle at their reserve the calls that a gone process left open; return how many. For who has just the lease."""
    return await spend.settle_open(conn, session_id, now)


def _money(value: Any) -> Decimal | None:
    return None if value is None else Decimal(value)
