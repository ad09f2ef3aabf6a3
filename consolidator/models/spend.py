"""What a session's model calls cost: reserved before a call, settled after it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class SpendRow:
    """A call of a model: what it may cost and, once it is settled, did cost."""

    call_id: str
    session_id: str | None
    message_id: str | None
    purpose: str
    model: str
    day: date
    reserved: Decimal
    cost: Decimal | None
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    tier: str | None
    strategy: str | None
    turn: int
    reserved_at: datetime
    settled_at: datetime | None
