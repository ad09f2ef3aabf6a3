"""Agents: the defaults of their sessions."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, Field

from consolidator.api.schemas.session import Input
from consolidator.models.agent import AgentRow
from consolidator.runtime.session.agent_defaults import MAX_SECONDS


class AgentChange(Input):
    """What is changed of an agent's defaults: a member that is null is unset, one that is left out stays."""

    model: str | None = Field(default=None, max_length=200, description="or `auto`", examples=["gpt-4o-mini"])
    system_prompt: str | None = Field(default=None, max_length=200_000)
    template: str | None = Field(default=None, max_length=200_000, description="of the system prompt, with $names")
    parameters: dict[str, Any] | None = Field(default=None, description="defaults of the template's parameters")
    tools: list[str] | None = Field(default=None, max_length=500)
    max_cost_usd: Decimal | None = Field(default=None, ge=0, le=1_000_000)
    max_steps: int | None = Field(default=None, ge=1, le=100_000)
    answer_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    strategy: str | None = Field(default=None, max_length=50)
    budget: int | None = Field(default=None, ge=1, le=100_000_000)
    last: int | None = Field(default=None, ge=1, le=100_000)
    compaction_threshold: float | None = Field(default=None, gt=0, le=1)
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


class Agent(BaseModel):
    """An agent's defaults as they stand."""

    name: str
    version: int
    model: str | None
    system_prompt: str | None
    template: str | None
    template_version: int
    parameters: dict[str, Any]
    tools: list[str] | None
    max_cost_usd: str | None
    max_steps: int | None
    answer_tokens: int | None
    strategy: str | None
    budget: int | None
    last: int | None
    compaction_threshold: float | None
    session_ttl_seconds: int | None
    checkpoint_ttl_seconds: int | None
    retention_days: int | None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: AgentRow) -> Agent:
        """Return an agent's row as the API shows it."""
        same = {name: getattr(row, name) for name in cls.model_fields if hasattr(row, name)}
        return cls.model_construct(**same, max_cost_usd=None if row.max_cost is None else str(row.max_cost))


class AgentList(BaseModel):
    """Agents that have defaults, by name."""

    agents: list[Agent]


class AgentVersion(BaseModel):
    """A version of an agent's defaults."""

    agent: str
    version: int
    definition: dict[str, Any] = Field(description="empty where the defaults were deleted")
    created_at: datetime
    changed_by: str


class AgentVersionList(BaseModel):
    """The versions of an agent's defaults, the latest first."""

    versions: list[AgentVersion]
