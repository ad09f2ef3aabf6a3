"""Sessions as the API shows them, and what opens one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from fastapi import Path
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from consolidator.api.schemas.rows import RowAnswer, list_of, of_row
from consolidator.api.schemas.specification import accept_members
from consolidator.errors import UsageError
from consolidator.models.agent import AgentRow, AgentVersionRow, NamedTemplate
from consolidator.models.seed import Seed as NewSeed
from consolidator.models.session import SessionRow
from consolidator.runtime.session.agent_defaults import MAX_SECONDS
from consolidator.runtime.session.session_request import MAX_SEED_CHARACTERS, MAX_SEEDS, SessionRequest
from consolidator.service.agents.costs import Cost
from consolidator.service.sessions.listing import ContextUse as MeasuredUse

SessionId = Annotated[
    str, Path(min_length=1, max_length=200, description="a session's id", examples=["01K0A9Z3T6V4QK6M8J0W2X5Y7Z"])
]


class Input(BaseModel):
    """A body of a request: a member that it does not know is refused."""

    model_config = ConfigDict(extra="forbid")


class TemplateOf(Input):
    """A version of an agent's template; the session keeps that version."""

    name: str = Field(min_length=1, max_length=200, description="the agent that has it")
    version: int | None = Field(default=None, ge=1, description="by default the latest")
    params: dict[str, Any] | None = Field(default=None, description="of the template, in place of `parameters`")


class CompactionOptions(Input):
    """When a session is compacted: the specification's form of two options."""

    threshold: float | None = Field(default=None, gt=0, le=1)
    strategy: str | None = Field(default=None, max_length=50)


# Labels with a name of their own: of the thread's owner.
LABELS = ("space_id", "mailbox_id")
# Members of the sessions' specification, and ours.
SPECIFIED = {"agent_id": "agent", "system_prompt": "system", "max_cost_usdc": "max_cost_usd"}


class ModelOptions(Input):
    """How a session's model is asked, of an agent, a session or a child."""

    model: str | None = Field(default=None, max_length=200, description="or `auto`")
    template: str | None = Field(default=None, max_length=200_000, description="of the system prompt, with $names")
    parameters: dict[str, Any] | None = Field(default=None, description="of the template")
    tools: list[str] | None = Field(default=None, max_length=500, description="the only ones that it may use")
    max_cost_usd: Decimal | None = Field(default=None, ge=0, le=1_000_000, description="what the session may cost")
    max_steps: int | None = Field(default=None, ge=1, le=100_000, description="answers of the model in one turn")
    answer_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    strategy: str | None = Field(default=None, max_length=50, description="of the context")
    compaction_threshold: float | None = Field(default=None, gt=0, le=1, description="share of the budget")


class RequestOptions(ModelOptions):
    """How the model of a session or child is asked; its template may be an agent's."""

    template: Annotated[str, Field(max_length=200_000)] | TemplateOf | None = Field(  # type: ignore[assignment]
        default=None, description="of the system prompt, with $names; or an agent's, by its name and version"
    )
    compaction: CompactionOptions | None = Field(default=None, description="in place of the two options")

    def named(self, *leave_out: str) -> dict[str, Any]:
        """Return the options as the service takes them. Raises UsageError for one that is named twice."""
        left_out = {"template", "compaction", "max_cost_usd", "tools", *leave_out}
        values: dict[str, Any] = self.model_dump(exclude=left_out) | {"template": self.template}
        if isinstance(self.template, TemplateOf):
            values["template"] = NamedTemplate(self.template.name, self.template.version)
            _set_once(values, "parameters", self.template.params)
        if self.compaction is not None:
            _set_once(values, "compaction_threshold", self.compaction.threshold)
            _set_once(values, "strategy", self.compaction.strategy)
        return values


def _set_once(values: dict[str, Any], name: str, value: Any) -> None:
    if value is not None and values[name] is not None:
        raise UsageError(f"{name} is named twice: leave one of them out")
    values[name] = values[name] if value is None else value


@of_row(MeasuredUse)
class ContextUse(RowAnswer):
    """What a session's next context takes of its model's window."""

    share: float | None


@of_row(
    SessionRow,
    "session",
    only="id key agent channel peer project kind parent_id parent_seq root_id conversation_id model status error head"
    " settled_to pending recorded_by attention config turns input_tokens cached_tokens output_tokens compactions"
    " created_at last_event_at completed_at expires_at labels trigger_type trigger_id",
    peer="whom the agent talks to",
    model="or `auto`; where none was named, what answered last",
    pending="whether a driver has something to do in it",
)
class Session(RowAnswer):
    """A session: who it is with, how far its log is, what it cost and what waits in it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "01K0A9Z3T6V4QK6M8J0W2X5Y7Z", "title": "When does it open?",
                    "key": "main:web:mara", "agent": "main", "channel": "web",
                    "peer": "mara", "project": None, "kind": "root", "parent_id": None, "parent_seq": None,
                    "root_id": "01K0A9Z3T6V4QK6M8J0W2X5Y7Z", "conversation_id": None, "model": "gpt-4o-mini",
                    "status": "open", "error": None, "head": 3, "settled_to": 3, "pending": False,
                    "recorded_by": None, "driven_here": True, "attention": {}, "config": {}, "max_cost_usd": "0.50",
                    "cost_usd": "0.0004", "turns": 1, "input_tokens": 120, "cached_tokens": 0, "output_tokens": 18,
                    "compactions": 0, "created_at": "2026-03-02T12:00:00Z", "last_event_at": "2026-03-02T12:00:04Z",
                    "completed_at": None, "expires_at": None, "activity": "idle", "labels": {}, "trigger_type": None,
                    "trigger_id": None, "context": None, "session_id": "01K0A9Z3T6V4QK6M8J0W2X5Y7Z",
                    "agent_id": "main", "total_cost_usd": 0.0004, "compaction_count": 0, "space_id": None,
                    "mailbox_id": None, "policy": None, "tool_names": None, "parent_conversation_id": None,
                }
            ]
        }
    )  # fmt: skip

    title: str | None = Field(description="its first words, in lists and where one session is shown")
    driven_here: bool = Field(description="whether messages to it are answered here")
    max_cost_usd: str | None
    cost_usd: str
    session_id: str = Field(description="the id; this and the next three by their names in the specification")
    agent_id: str
    total_cost_usd: float
    compaction_count: int
    space_id: str | int | float | None = Field(description="the label; `mailbox_id` too")
    mailbox_id: str | int | float | None
    policy: dict[str, Any] | None
    tool_names: list[str] | None = Field(description="of the tools that it was created with")
    parent_conversation_id: str | None = Field(description="which conversation its own was forked from")
    activity: str = Field(description="running, waiting (for a person), pending, failed, idle or ended")
    context: ContextUse | None = Field(default=None, description="if it was asked for")

    @classmethod
    def of(cls, row: SessionRow, **own: Any) -> Self:
        """Return a session's row as the API shows it; its activity, context and title are the caller's."""
        max_cost = None if row.max_cost is None else str(row.max_cost)
        own = {"title": None, "context": None, "driven_here": not row.is_driven_elsewhere} | own
        own |= {"session_id": row.id, "agent_id": row.agent, "model": row.model or row.answered_by}
        own |= {name: row.labels.get(name) for name in LABELS}
        own |= {name: row.config.get(name) for name in ("policy", "parent_conversation_id")}
        own["tool_names"] = row.config.get("tools", row.config.get("tool_names"))
        own |= {"total_cost_usd": float(row.cost), "compaction_count": row.compactions}
        return super().of(row, max_cost_usd=max_cost, cost_usd=str(row.cost), **own)


class SessionPage(BaseModel):
    """A page of sessions, the latest first."""

    sessions: list[Session]
    next_cursor: str | None = Field(description="for the next page; null on the last one")


class Seed(Input):
    """A message of the earlier thread, as another system has it."""

    role: Literal["user", "assistant", "tool"]
    content: str = Field(max_length=MAX_SEED_CHARACTERS)
    is_new: bool = Field(default=False, description="whether the session begins with it, and was not there before")
    occurred_at: datetime | None = None
    details: dict[str, Any] = Field(default_factory=dict)


class OpenSession(RequestOptions):
    """What a session begins with; what is null is the agent's, or stays as it is.

    A session that exists has its beginning: another project, conversation, trigger or seeds is refused (409).
    """

    _accept_specification = accept_members(SPECIFIED, inside="config")

    key: str | None = Field(
        default=None, min_length=1, max_length=300, description="agent:channel:peer", examples=["main:web:mara"]
    )
    new: bool = Field(default=False, description="create one also where the key names a session, and give it the key")
    agent: Annotated[str | None, BeforeValidator(lambda name: str(name) if type(name) is int else name)] = Field(
        default=None, min_length=1, max_length=200, description="without a key; or a number"
    )
    channel: str | None = Field(default=None, min_length=1, max_length=200, description="without a key")
    peer: str | None = Field(default=None, min_length=1, max_length=300, description="without a key")
    system: str | None = Field(default=None, max_length=200_000, description="the system prompt")
    budget: int | None = Field(default=None, ge=1, le=10_000_000, description="tokens of the context")
    last: int | None = Field(default=None, ge=1, le=1_000_000, description="events that the strategy window shows")
    context_window: int | None = Field(default=None, ge=1, le=100_000_000, description="tokens, of an unknown model")
    session_ttl_seconds: int | None = Field(default=None, ge=1, le=MAX_SECONDS, description="after the last message")
    checkpoint_ttl_seconds: int | None = Field(default=None, ge=1, le=MAX_SECONDS)
    labels: dict[str, str | int | float | bool] | None = Field(default=None, examples=[{"space_id": "s1"}])
    project: str | None = Field(default=None, min_length=1, max_length=1000)
    space_id: str | None = Field(default=None, min_length=1, max_length=500, description="a label of this name")
    mailbox_id: str | None = Field(default=None, min_length=1, max_length=500, description="a label of this name")
    policy: dict[str, Any] | None = Field(default=None, description="what the trigger's policy extraction decided")
    conversation_id: str | None = Field(default=None, min_length=1, max_length=1000, description="its thread")
    trigger_type: str | None = Field(default=None, min_length=1, max_length=64, description="such as email")
    trigger_id: str | None = Field(default=None, min_length=1, max_length=1000)
    seeds: list[Seed] = Field(default_factory=list, max_length=MAX_SEEDS, description="the earlier thread, in order")
    metadata: dict[str, Any] | None = None

    def to_request(self, driver_tools: Sequence[str] | None) -> SessionRequest:
        """Return it as the service takes it; `driver_tools` are those of what is to drive it."""
        named = self.named("key", "new", "agent", "channel", "peer", "seeds", *LABELS)
        for name in LABELS:
            if (value := getattr(self, name)) is not None:
                named["labels"] = {name: value, **(named["labels"] or {})}
        return SessionRequest(
            **named,
            tool_names=driver_tools,
            max_cost=self.max_cost_usd,
            tools=None if self.tools is None else tuple(self.tools),
            seeds=[NewSeed(**seed.model_dump()) for seed in self.seeds],
        )


def parse_labels(texts: list[str]) -> dict[str, Any] | None:
    """Return labels as a query names them, NAME=TEXT; None for none. Raises UsageError for anything else."""
    labels = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise UsageError(f"{text[:80]!r} is no label, such as space_id=s1")
        labels[name] = value
    return labels or None


class EndSession(Input):
    """Why a session ends."""

    reason: str = Field(default="ended by request", min_length=1, max_length=1000)


class Woken(BaseModel):
    """A session that a driver looks at."""

    session_id: str
    pending: bool
    state: str = Field(description="what its log ends in, such as TOOL_INVOKED")
    action: str = Field(description="what is done about it: the row of the recovery table")


class SessionState(BaseModel):
    """The sum of the changes that tools made to a session's state."""

    session_id: str
    head: int
    state: dict[str, Any]


class AgentChange(ModelOptions):
    """What is changed of an agent's defaults: a member that is null is unset, one that is left out stays."""

    model: str | None = Field(default=None, max_length=200, description="or `auto`", examples=["gpt-4o-mini"])
    system_prompt: str | None = Field(default=None, max_length=200_000)
    budget: int | None = Field(default=None, ge=1, le=100_000_000)
    last: int | None = Field(default=None, ge=1, le=100_000)
    session_ttl_seconds: int | None = Field(default=None, ge=1, le=MAX_SECONDS)
    checkpoint_ttl_seconds: int | None = Field(default=None, ge=1, le=MAX_SECONDS)
    retention_days: int | None = Field(default=None, ge=1, le=36_500)
    tier: str | None = Field(default=None, max_length=200, description="an agent: its defaults, where it has none")

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
