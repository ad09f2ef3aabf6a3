"""A solution: an error by its fingerprint, and the fixes that resolved it over all sessions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.models.audience import ALL
from consolidator.models.table import table_of


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


SolutionTable = table_of("solution", SolutionRow)
