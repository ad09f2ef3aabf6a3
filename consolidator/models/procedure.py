"""A procedure: a closed contiguous pattern of tool calls that distinct sessions share, with learned arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from consolidator.models.audience import ALL

MIN_SUCCESS = 0.5  # expected share of a procedure's sessions or calls that work; what mostly fails is no advice


@dataclass(frozen=True, slots=True)
class ProcedureRow:
    """A published procedure."""

    id: str
    agent: str
    project: str | None
    title: str
    support: int
    rank: float
    worth: float
    body: dict[str, Any]
    learned_at: datetime
    updated_at: datetime
    retired_at: datetime | None
    run_id: str | None
    cause: str
    audience: str = ALL
    compiled: dict[str, Any] | None = None  # `CompiledProcedure` as JSON, where a person said yes to it

    def as_seen_by(self, person: str) -> ProcedureRow:
        """Return it without the tool that was made of another person's sessions."""
        return self if not self.compiled or self.compiled["person"] == person else replace(self, compiled=None)

    @property
    def mostly_fails(self) -> bool:
        """Whether more of its sessions or calls failed than worked."""
        return bool(self.body.get("success", {}).get("mean", 1.0) < MIN_SUCCESS)


@dataclass(frozen=True, slots=True)
class ToolProfileRow:
    """How an agent uses one tool."""

    agent: str
    project: str
    tool: str
    body: dict[str, Any]
    audience: str = ALL
