"""A solution: an error by its fingerprint, and the fixes that resolved it over all sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from consolidator.models import PEOPLE_ONLY
from consolidator.models.audience import ALL


@dataclass(frozen=True, slots=True)
class SolutionRow:
    """A published solution."""

    id: str
    agent: str
    project: str | None
    fingerprint: str
    tool: str
    headline: str
    confirmed: bool
    sessions: int
    occurrences: int
    search: str
    body: dict[str, Any]
    learned_at: datetime
    updated_at: datetime
    retired_at: datetime | None
    run_id: str | None
    cause: str
    audience: str = ALL
    withheld: list[str] = field(init=False, default_factory=list, metadata={PEOPLE_ONLY: True})  # fixes, in words

    def __post_init__(self) -> None:
        """Take what is told to no agent out of the body, which agents get."""
        body = dict(self.body)
        object.__setattr__(self, "withheld", body.pop("withheld", []))
        object.__setattr__(self, "body", body)
