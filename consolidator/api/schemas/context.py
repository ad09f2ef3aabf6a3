"""A session's context, its compaction, and what it cost."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from consolidator.api.schemas.rows import of_row
from consolidator.api.schemas.session import Input
from consolidator.service.agents.costs import Cost


class ContextPart(BaseModel):
    """A part of a context."""

    name: str
    tokens: int


class Context(BaseModel):
    """What the model would be shown of a session now."""

    session_id: str
    strategy: str
    tokens: int = Field(description="an upper estimate")
    first_seq: int = Field(description="of the first event that is shown, 0 if there is none")
    upto_seq: int = Field(description="the session's head when the context was built")
    truncated: bool = Field(description="whether earlier turns are left out")
    over_budget: bool = Field(description="whether they are left out for lack of room")
    parts: list[ContextPart]
    system: str | None = Field(description="in the format anthropic, where the system prompt is no message")
    messages: list[dict[str, Any]]


class Compact(Input):
    """How a session is compacted."""

    budget: int | None = Field(default=None, ge=1, le=10_000_000, description="tokens that the context may have")
    by_model: bool = Field(default=True, description="have a model write the summary, if one is configured")


class Compacted(BaseModel):
    """What a compaction did."""

    session_id: str
    compacted: bool = Field(description="false where there was too little to compact")
    seq: int | None = Field(default=None, description="of the compaction's event")
    kept_from: int | None = Field(default=None, description="the first event that stays in contexts as it is")
    summary: str | None = Field(default=None, description="null for a credential that may not read")
    by: str | None = Field(default=None, description="model or digest")
    tokens_before: int | None = None
    tokens_after: int | None = None


@of_row(Cost)
class CostGroup(BaseModel):
    """What a group of model calls cost."""

    cost: str = Field(description="USD")
    set_aside: str = Field(description="USD, for calls under way")


class SessionCost(BaseModel):
    """What a session's model calls cost, with those of its branches and sub-agents: what its cap counts."""

    session_id: str
    max_cost_usd: str | None
    groups: list[CostGroup]
    total: CostGroup
