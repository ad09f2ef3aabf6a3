"""Makes answers from rows: a field's type is the row's, its description the comment on its column or field."""

from __future__ import annotations

import inspect
import pathlib
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, Self, TypeVar, cast, get_args, get_type_hints

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from consolidator.errors import UsageError
from consolidator.formats import native
from consolidator.llm.tokens import count_tokens
from consolidator.models.agent import NamedTemplate
from consolidator.models.event import Event as LoggedEvent
from consolidator.models.lineage import CheckpointRow
from consolidator.models.session import SeedRow, SessionRow
from consolidator.runtime.session.agent_defaults import Overrides, SpawnResult
from consolidator.runtime.session.creation import find_window
from consolidator.runtime.session.scratchpad import Scratchpad as StoredScratchpad
from consolidator.runtime.session.tasks import TaskRow
from consolidator.service.database import describe_columns
from consolidator.service.sessions.listing import ContextUse as MeasuredUse

A = TypeVar("A", bound=BaseModel)
_NUMBER = re.compile(r"0|[1-9][0-9]{0,19}")  # an agent's number, of 64 bits
_NONE = re.compile(r"\bNone\b")
_COMMENT = re.compile(r"^    (\w+): .*?  # (.+)$", re.MULTILINE)


def _read_comments(row: type) -> dict[str, str]:
    """Return the comments of a row's own fields; unlike `inspect.getsource`, without parsing the whole module."""
    source = pathlib.Path(inspect.getfile(row)).read_text(encoding="utf-8")
    body = re.search(rf"^class {row.__name__}\b[^\n]*\n(.*?)(?=^\S|\Z)", source, re.MULTILINE | re.DOTALL)
    return dict(_COMMENT.findall(body[1])) if body else {}


class RowAnswer(BaseModel):
    """An answer that shows a row, and the rows in it."""

    @classmethod
    def of(cls, row: Any, **own: Any) -> Self:
        """Return a row as the API shows it; `own` are the fields that it does not have. Money is text."""
        money = {name: getattr(row, name[:-4], None) for name in cls.model_fields if name.endswith("_usd")}
        values: dict[str, Any] = {name: amount if amount is None else f"{amount:f}" for name, amount in money.items()}
        values |= {name: getattr(row, name) for name in cls.model_fields if hasattr(row, name)} | own
        shown = {name: _show(cls.model_fields[name].annotation, value) for name, value in values.items()}
        return cast("Self", cls.model_construct(**shown))


def _show(annotation: Any, value: Any) -> Any:
    """Return a row as the answer that an annotation names for it; anything else as it is."""
    if isinstance(value, list):
        return [_show(annotation, each) for each in value]
    answer = next((kind for kind in (annotation, *get_args(annotation)) if hasattr(kind, "of")), None)
    return value if answer is None or value is None or isinstance(value, BaseModel) else answer.of(value)


def list_of(name: str, doc: str, **rows: Any) -> type[BaseModel]:
    """Return an answer of this name that lists rows."""
    fields_of: dict[str, Any] = {field: (list[row], ...) for field, row in rows.items()}  # type: ignore[valid-type]
    return create_model(name, __doc__=doc, **fields_of)


def of_row(
    row: type, table: str | None = None, *, only: str = "", leave_out: str = "", **descriptions: str
) -> Callable[[type[A]], type[A]]:
    """Return what adds a row's fields to an answer, which may have its own in place of some of them.

    `descriptions` are of fields whose comment does not say it. Fields that only people are shown are left out.
    """
    hints, comments = get_type_hints(row), describe_columns(table) if table else {}
    for kind in reversed(row.__mro__[:-1]):
        comments = comments | _read_comments(kind)
    comments = {name: _NONE.sub("null", comment) for name, comment in (comments | descriptions).items()}
    names = only.split() or [field.name for field in fields(row) if field.init]

    def add_fields(answer: type[A]) -> type[A]:
        left = {*leave_out.split(), *answer.model_fields}
        columns: dict[str, Any] = {
            name: (hints[name], Field(description=comments.get(name))) for name in names if name not in left
        }
        return create_model(
            answer.__name__, __base__=answer, __module__=answer.__module__, __doc__=answer.__doc__, **columns
        )

    return add_fields


def accept_members(names: Mapping[str, str], *, inside: str | None = None) -> Any:
    """Return a validator that takes these names for ours; a member `inside` holds further ones, as if not nested.

    A member that stands there under both names is refused, and so is what nobody knows.
    """

    def rename(body: Any) -> Any:
        if not isinstance(body, Mapping):
            return body
        members = {name: value for name, value in body.items() if name != inside}
        nested = body.get(inside) if inside is not None else None
        if inside is not None and inside in body and not isinstance(nested, Mapping):
            members[inside] = nested  # which the check refuses by its name
            nested = None
        ours: dict[str, Any] = {}
        for name, value in [*members.items(), *(nested or {}).items()]:
            target = names.get(name, name)
            if target in ours:
                raise ValueError(f"{name} is named twice, also as {target}: leave one of them out")
            ours[target] = value
        return ours

    return model_validator(mode="before")(rename)


SessionId = Annotated[
    str, Path(min_length=1, max_length=200, description="a session's id", examples=["01K0A9Z3T6V4QK6M8J0W2X5Y7Z"])
]


class Input(BaseModel):
    """A body of a request: a member that it does not know is refused."""

    model_config = ConfigDict(extra="forbid")


class TemplateOf(Input):
    """A version of an agent's template; the session keeps that version."""

    name: str = Field(min_length=1, max_length=200, description="the agent that has it")
    version: Annotated[int, Field(ge=1)] | Annotated[str, Field(max_length=100)] | None = Field(
        default=None, description="by default the latest"
    )
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
    " context_window last_event_at completed_at expires_at labels trigger_type trigger_id",
    peer="whom the agent talks to",
    model="or `auto`; where none was named, what answered last",
    pending="whether a driver has something to do in it",
)
class Session(RowAnswer):
    """A session: who it is with, how far its log is, what it cost and what waits in it."""

    title: str | None = Field(description="its first words, in lists and where one session is shown")
    driven_here: bool = Field(description="whether messages to it are answered here")
    cost_usd: str
    started_at: datetime = Field(description="when it was created")
    session_id: str = Field(description="the id; this and the next six by their names in the specification")
    agent_id: int | str = Field(description="a number, where the agent's name is one")
    golem_id: int | str = Field(description="as `agent_id`")
    created_at: int = Field(description="Unix time in milliseconds")
    total_cost_usd: float
    max_cost_usd: float | None
    compaction_count: int
    space_id: str | int | float | None = Field(description="the label; `mailbox_id` too")
    mailbox_id: str | int | float | None
    policy: dict[str, Any] | None
    tool_names: list[str] | None = Field(description="of the tools that it was created with")
    parent_conversation_id: str | None = Field(description="that its own was forked, branched or copied from")
    activity: str = Field(description="running, waiting (for a person), pending, failed, idle or ended")
    context: ContextUse | None = Field(default=None, description="if it was asked for")

    @classmethod
    def of(cls, row: SessionRow, **own: Any) -> Self:
        """Return a session's row as the API shows it; its activity, context and title are the caller's."""
        own = {"title": None, "context": None, "driven_here": not row.is_driven_elsewhere} | own
        is_number = _NUMBER.fullmatch(row.agent) is not None and int(row.agent) < 2**64
        agent_id = int(row.agent) if is_number else row.agent
        own |= {"session_id": row.id, "agent_id": agent_id, "golem_id": agent_id, "started_at": row.created_at}
        own |= {"created_at": int(row.created_at.timestamp() * 1000), "model": row.model or row.answered_by}
        own["context_window"] = row.context_window or find_window(row.answered_by or row.model, row.config)
        own |= {"max_cost_usd": None if row.max_cost is None else float(row.max_cost)}
        own |= {name: row.labels.get(name) for name in LABELS}
        copied = row.details.get(native.EXPORTED, {}).get("conversation_id")
        is_copy = isinstance(copied, str) and row.conversation_id not in (None, copied)
        own["parent_conversation_id"] = copied if is_copy else row.config.get("parent_conversation_id")
        own |= {"policy": row.config.get("policy"), "config": row.config | _specified_config(row)}
        own["tool_names"] = row.config.get("tools", row.config.get("tool_names"))
        own |= {"total_cost_usd": float(row.cost), "compaction_count": row.compactions}
        return super().of(row, **own)


def _specified_config(row: SessionRow) -> dict[str, Any]:
    """Return what a session's configuration has by the names of the specification."""
    named = {"threshold": row.config.get("compaction_threshold"), "strategy": row.config.get("strategy")}
    compaction = {name: value for name, value in named.items() if value is not None}
    config = {
        "system_prompt": row.config.get("system"),
        "compaction": compaction or None,
        "max_cost_usdc": None if row.max_cost is None else float(row.max_cost),
    }
    return {name: value for name, value in config.items() if value is not None}


class SessionPage(BaseModel):
    """A page of sessions, the latest first."""

    sessions: list[Session]
    next_cursor: str | None = Field(description="for the next page; null on the last one")


class Event(RowAnswer):
    """One event of a session's log."""

    seq: int = Field(description="its place in the session, dense")
    type: str = Field(examples=["UserMessage"])
    data: dict[str, Any] = Field(description="the payload of its type")
    created_at: datetime = Field(description="when it was logged")
    task_id: str | None
    tool_name: str | None
    principal: str | None = Field(description="who says it, such as user:web or agent")

    @classmethod
    def of(cls, row: LoggedEvent, **own: Any) -> Self:
        """Return an event as the API shows it."""
        return super().of(row, type=row.type.value, data=dict(row.data), **own)


class StoredEvent(Event):
    """An event as the log has it: `event_type` is its type."""

    id: int | None = Field(description="grows over all sessions")
    session_id: str
    event_type: str
    consolidated_at: datetime | None = Field(description="when a night learned from it")

    @classmethod
    def of(cls, row: LoggedEvent, **own: Any) -> Self:
        """Return an event as the API shows it."""
        return super().of(row, event_type=row.type.value, **own)


# What an imported fork copied of other logs has seqs of 0 and below.
Position = Annotated[int, Field(ge=1 - 2**53, le=2**53 - 1)]


class PromptPatch(Input):
    """Changes of the inherited system prompt."""

    prepend: str | None = Field(default=None, max_length=200_000)
    append: str | None = Field(default=None, max_length=200_000)
    replace: dict[str, str] | None = Field(default=None, description="each old text, which must be there, by a new one")


class ChildOverrides(RequestOptions):
    """What a child does differently from its parent; null is inherited."""

    _accept_specification = accept_members(SPECIFIED)

    system: str | None = Field(default=None, max_length=200_000)
    prompt_patch: PromptPatch | None = None
    budget: int | None = Field(default=None, ge=1, le=100_000_000)
    last: int | None = Field(default=None, ge=1, le=100_000)

    def to_overrides(self) -> Overrides:
        """Return them as the runtime takes them."""
        named = self.named("prompt_patch") | {"tools": self.tools}
        patch = None if self.prompt_patch is None else self.prompt_patch.model_dump(exclude_none=True)
        return Overrides(**named, prompt_patch=patch, max_cost=self.max_cost_usd)


@of_row(CheckpointRow, "checkpoint", leave_out="fold")
class Checkpoint(RowAnswer):
    """A checkpoint: it keeps from retention what a restore needs, until it expires."""


@of_row(TaskRow)
class Task(RowAnswer):
    """A task of a session."""

    title: str | None = Field(description="null for a credential that may not read")


@of_row(StoredScratchpad, leave_out="set_at")
class Scratchpad(RowAnswer):
    """A session's notes, which stand at the end of each of its contexts."""

    text: str | None = Field(description="null for a credential that may not read")
    content: str | None = Field(description="the text by its name in the specification")
    last_updated_at: int = Field(description="Unix time in milliseconds; 0 for one that is as it began")
    token_count: int = Field(description="of the text: an upper estimate where the vocabulary is not installed")

    @classmethod
    def of(cls, row: StoredScratchpad, *, may_read: bool = True, **own: Any) -> Self:
        """Return a scratchpad as the API shows it; who may not read it is not shown its text."""
        text = row.text if may_read else None
        at = 0 if row.set_at is None else int(row.set_at.timestamp() * 1000)
        tokens = count_tokens(row.text)
        return super().of(row, text=text, content=text, last_updated_at=at, token_count=tokens, **own)


@of_row(SeedRow, "seed", leave_out="session_id")
class StoredSeed(RowAnswer):
    """A part of what a session's model saw at the start."""


class SubAgent(RowAnswer):
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
    def of(cls, row: SessionRow, result: SpawnResult | None = None, **own: Any) -> Self:
        """Return a sub-agent as the API shows it."""
        own |= {"session_id": row.id, "call_id": row.trigger_id}
        own |= {name: getattr(result, name, None) for name in ("text", "reason")}
        return super().of(row, **own, status="running" if result is None else result.status)
