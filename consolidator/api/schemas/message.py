"""Messages of people and tasks of sub-agents, and what became of them."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import BaseModel, Field

from consolidator.api.schemas.session import Input
from consolidator.api.schemas.specification import accept_members
from consolidator.models.session import SessionRow
from consolidator.runtime.session.agent_defaults import ResultMode, SpawnRequest, SpawnResult


class NewMessage(Input):
    """What a person says."""

    text: str = Field(min_length=1, max_length=1_000_000, examples=["What did I ask you yesterday?"])
    speaker: str | None = Field(default=None, max_length=200, description="who of a group says it")


class SentMessage(BaseModel):
    """A message in the log: whoever drives the session answers it."""

    session_id: str
    seq: int


class StoppedTurn(BaseModel):
    """What was under way in a session, and is to end."""

    session_id: str
    seq: int | None = Field(description="of the stop in the log; null where nothing was under way")


class Verdict(Input):
    """A person's word about a call that waits for approval."""

    session_id: str | None = Field(default=None, max_length=200, description="where calls of several have this id")
    reason: str | None = Field(default=None, max_length=10_000, description="the model is told it")


class Resolution(Input):
    """How a call went of which nobody knows whether it ran."""

    outcome: Literal["ok", "failed"]
    session_id: str | None = Field(default=None, max_length=200, description="where calls of several have this id")


class Decided(BaseModel):
    """The call that was decided about."""

    call_id: str
    session_id: str


class ContextMessage(Input):
    """A message of the earlier thread that a sub-agent sees."""

    role: Literal["user", "assistant", "tool"]
    content: str = Field(max_length=1_000_000)


class Spawn(Input):
    """A task for a sub-agent, which sees nothing of its parent but what is written here."""

    _accept_specification = accept_members({"return_format": "mode", "max_cost_usdc": "max_cost_usd"})

    task: str = Field(min_length=1, max_length=200_000, examples=["Which of these files have no tests?"])
    context: str | list[ContextMessage] | None = Field(default=None, description="a text, or an earlier thread")
    model: str | None = Field(default=None, min_length=1, max_length=200, description="by default the policy chooses")
    system: str | None = Field(default=None, min_length=1, max_length=200_000, description="instead of ours")
    tools: list[str] | None = Field(default=None, max_length=500, description="some of its parent's; null is all")
    mode: ResultMode = Field(default="summary", description="its last answer, or all that it said and did")
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000, description="of each answer")
    max_cost_usd: Decimal | None = Field(default=None, ge=0, le=1_000_000, description="of all of them")
    call_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="names the call, which has one sub-agent for ever; by default the Idempotency-Key",
    )

    def to_request(self) -> SpawnRequest:
        """Return it as the service takes it."""
        named = self.model_dump(exclude={"call_id", "max_cost_usd"})
        return SpawnRequest(**named, max_cost=self.max_cost_usd)


class SubAgent(BaseModel):
    """A sub-agent, and what came of its task."""

    session_id: str
    parent_id: str
    call_id: str
    status: Literal["running", "ok", "error"]
    text: str | None = Field(description="its last answer, or all that it did; null while it runs")
    reason: str | None = Field(description="why there is no answer, or none to rely on")
    input_tokens: int
    output_tokens: int
    cost_usd: str

    @classmethod
    def of(cls, row: SessionRow, result: SpawnResult | None) -> SubAgent:
        """Return a sub-agent as the API shows it."""
        assert row.parent_id is not None
        assert row.trigger_id is not None
        return cls.model_construct(
            session_id=row.id,
            parent_id=row.parent_id,
            call_id=row.trigger_id,
            status="running" if result is None else result.status,
            text=None if result is None else result.text,
            reason=None if result is None else result.reason,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            cost_usd=str(row.cost),
        )
