"""An agent: the defaults of its sessions, in one place, and every version that these defaults ever had."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Float, Numeric, Text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from consolidator.models.columns import (
    integer_column,
    json_object_column,
    nullable_integer_column,
    nullable_text_column,
    text_column,
    timestamp_column,
)

AUTO = "auto"  # in place of a model's name: a policy chooses it, turn by turn


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent's defaults as they stand; None where an agent leaves something to the settings."""

    name: str
    version: int  # of these defaults, from 1
    model: str | None  # or `auto`
    system_prompt: str | None  # as it is; an agent has either this or a template
    template: str | None  # of the system prompt, with $name for each parameter
    template_version: int  # grows with each change of the template; 0 where there never was one
    parameters: dict[str, Any]  # defaults of the template's parameters
    tools: list[str] | None  # the only tools that its sessions may use
    max_cost: Decimal | None  # USD that one session may cost
    max_steps: int | None  # answers of the model in one turn
    answer_tokens: int | None
    strategy: str | None  # of the context
    budget: int | None  # tokens of the context
    last: int | None  # events of a context by the strategy `window`
    compaction_threshold: float | None  # share of the budget above which a session is compacted
    session_ttl_seconds: int | None  # how long a session is kept open after a person's last message
    checkpoint_ttl_seconds: int | None
    retention_days: int | None  # how long events are kept that were learned from
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class AgentVersionRow:
    """The defaults of an agent from one moment on; what a session ran with is named by its `agent_version`."""

    agent: str
    version: int
    definition: dict[str, Any]  # the columns of AgentRow that a person sets, and `template_version`; {} if deleted
    created_at: datetime
    changed_by: str  # the credential; `owner` for the machine's own


class AgentTable(SQLModel, table=True):
    """Defaults of agents."""

    __tablename__ = "agent"

    name: str = text_column(primary_key=True)
    version: int = integer_column()
    model: str | None = nullable_text_column()
    system_prompt: str | None = nullable_text_column()
    template: str | None = nullable_text_column()
    template_version: int = integer_column()
    parameters: dict[str, Any] = json_object_column()
    tools: list[str] | None = Field(default=None, sa_type=ARRAY(Text), nullable=True)
    max_cost: Decimal | None = Field(default=None, sa_type=Numeric, nullable=True)
    max_steps: int | None = nullable_integer_column()
    answer_tokens: int | None = nullable_integer_column()
    strategy: str | None = nullable_text_column()
    budget: int | None = nullable_integer_column()
    last: int | None = nullable_integer_column()
    compaction_threshold: float | None = Field(default=None, sa_type=Float, nullable=True)
    session_ttl_seconds: int | None = nullable_integer_column()
    checkpoint_ttl_seconds: int | None = nullable_integer_column()
    retention_days: int | None = nullable_integer_column()
    created_at: datetime = timestamp_column()
    updated_at: datetime = timestamp_column()


class AgentVersionTable(SQLModel, table=True):
    """Every version of an agent's defaults; rows are added, never changed."""

    __tablename__ = "agent_version"

    agent: str = text_column(primary_key=True)
    version: int = Field(default=0, primary_key=True, nullable=False)
    definition: dict[str, Any] = json_object_column()
    created_at: datetime = timestamp_column()
    changed_by: str = text_column()
