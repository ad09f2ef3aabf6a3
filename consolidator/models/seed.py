"""Seeds: what a session's model saw at the start, in order, before anything was logged. The nights do not read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from consolidator.models import ESCAPED

SeedRole = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Seed:
    """One entry of what a session starts with: the rendered system prompt, or a message of an earlier thread."""

    role: SeedRole
    content: str
    is_new: bool = False  # no earlier session of its thread began with it
    occurred_at: datetime | None = None
    details: dict[str, Any] | None = None  # `speaker` (who said it), and whatever else the caller wants kept


@dataclass(frozen=True, slots=True)
class SeedRow:
    """A stored seed."""

    session_id: str
    ordinal: int
    role: str
    content: str = field(metadata=ESCAPED)
    is_new: bool
    occurred_at: datetime | None
    details: dict[str, Any]
