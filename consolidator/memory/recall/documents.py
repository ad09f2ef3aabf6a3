"""What recall finds: turns of a session, and facts with the events that prove them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

EventRef = tuple[str, int]  # session and seq


@dataclass(frozen=True, slots=True)
class RecalledTurn:
    """A turn that a channel found."""

    number: int  # of the document in the index
    event: EventRef
    role: str  # user | assistant
    speaker: str | None
    text: str
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class RecalledFact:
    """A fact that a channel found, with the events that prove it."""

    number: int  # of the document in the index
    id: str
    sentence: str
    trust: str
    valid_from: datetime
    events: tuple[EventRef, ...]
    times_recalled: int = 0
    valid_to: datetime | None = None
