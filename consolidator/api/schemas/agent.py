"""Agents: the defaults of their sessions."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, Field

from consolidator.api.schemas.rows import RowAnswer, list_of, of_row
from consolidator.api.schemas.session import ModelOptions
from consolidator.models.agent import AgentRow, AgentVersionRow
from consolidator.runtime.session.agent_defaults import MAX_SECONDS


class AgentChange(ModelOptions):
    """What is changed of an agent's defaults: a member that is null is unset, one that is left out stays."""

    model: str | None = Field(default=None, max_length=200, description="or `auto`", examples=["gpt-4o-mini"])
    system_prompt: str | None = Field(default=None, max_length=200_000)
    budget: int | None = Field(default=None, ge=1, le=100_000_000)
    last: int | None = Field(default=None, ge=1, le=100_000)
    session_ttl_seconds: int | None = Field(default=None, ge=1, le=MAX_SECONDS)
    checkpoint_ttl_seconds: int | None = Field(default=None, ge=1, le=MAX_SECONDS)
    retention_days: int | None = Field(default=None, ge=1, le=36_500)

    def to_changes(self) -> dict[str, Any]:
        """Return what was named."""
        changes = self.model_dump(exclude_unset=True)
        if "max_cost_usd" in changes:
            changes["max_cost"] = changes.pop("max_cost_usd")
        if changes.get("tools") is not None:
            changes["tools"] = tuple(changes["tools"])
        if "parameters" in changes and changes["parameters"] is None:
            changes["parameters"] = {}
        return changes


@of_row(AgentRow, "agent", leave_out="max_cost")
class Agent(RowAnswer):
    """An agent's defaults as they stand."""

    max_cost_usd: str | None = Field(description="what one session may cost")

    @classmethod
    def of(cls, row: AgentRow, **own: Any) -> Self:
        """Return an agent's row as the API shows it."""
        return super().of(row, max_cost_usd=None if row.max_cost is None else str(row.max_cost), **own)


AgentList = list_of("AgentList", "Agents that have defaults, by name.", agents=Agent)


@of_row(AgentVersionRow, "agent_version", definition="empty where the defaults were deleted")
class AgentVersion(BaseModel):
    """A version of an agent's defaults."""


AgentVersionList = list_of(
    "AgentVersionList", "The versions of an agent's defaults, the latest first.", versions=AgentVersion
)
