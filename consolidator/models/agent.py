"""An agent: the defaults of its sessions, in one place, and every version that these defaults ever had."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

AUTO = "auto"  # in place of a model's name: a policy chooses it, turn by turn


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent's defaults as they stand; None where an agent leaves something to the settings."""

    name: str
    version: int
    model: str | None
    system_prompt: str | None
    template: str | None
    template_version: int
    parameters: dict[str, Any]
    tools: list[str] | None
    max_cost: Decimal | None
    max_steps: int | None
    answer_tokens: int | None
    strategy: str | None
    budget: int | None
    last: int | None
    compaction_threshold: float | None
    session_ttl_seconds: int | None
    checkpoint_ttl_seconds: int | None
    retention_days: int | None
    tier: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class NamedTemplate:
    """A template of system prompts by the agent that has it."""

    name: str  # the agent's
    version: int | str | None = None  # of the template; None is the latest


@dataclass(frozen=True, slots=True)
class TemplateRow:
    """A version of an agent's template, with the defaults of its parameters."""

    version: int
    template: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AgentVersionRow:
    """The defaults of an agent from one moment on; what a session ran with is named by its `agent_version`."""

    agent: str
    version: int
    definition: dict[str, Any]
    created_at: datetime
    changed_by: str
