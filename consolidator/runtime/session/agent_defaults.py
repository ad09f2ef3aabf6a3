"""What may be set as an agent's defaults, and their checks. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from decimal import Decimal, InvalidOperation
from string import Template
from typing import Any, Literal, get_args

from consolidator.context.reader import find_strategy
from consolidator.database.jsonb import escape
from consolidator.errors import UsageError
from consolidator.models.agent import AgentRow, NamedTemplate
from consolidator.models.session import Seed, SeedRole

MAX_PROMPT_CHARACTERS = 400_000  # of a template, and of what it is rendered to


def template_parameters(template: str) -> Sequence[str]:
    """Return the names of a template's parameters in their order. Raises UsageError for a malformed template."""
    parsed = Template(template)
    if not parsed.is_valid():
        raise UsageError(
            "the template has a $ that begins no name: write $name or ${name} for a parameter, and $$ for a dollar sign"
        )
    return parsed.get_identifiers()


def render_template(template: str, parameters: Mapping[str, Any]) -> str:
    """Return a template with its parameters filled in; values that are no text are written as JSON.

    Raises UsageError that names every parameter that is missing, or that the template does not have.
    """
    names = template_parameters(template)
    missing = [name for name in names if name not in parameters]
    if missing:
        raise UsageError(f"the template needs {', '.join(missing)}: give each as a parameter")
    unknown = sorted(set(parameters) - set(names))
    if unknown:
        has = ", ".join(names) or "none"
        raise UsageError(f"the template has no parameter {', '.join(unknown)}; it has: {has}")
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for name, value in parameters.items()
    }
    return check_prompt(Template(template).substitute(texts))


def check_prompt(prompt: str) -> str:
    """Return a system prompt or template. Raises UsageError for one that is too long."""
    if len(prompt) > MAX_PROMPT_CHARACTERS:
        raise UsageError(f"the system prompt has {len(prompt):,} characters, over {MAX_PROMPT_CHARACTERS:,}")
    return prompt


MAX_SECONDS = 3650 * 86_400  # of a time to live
MAX_TOOLS, MAX_PARAMETERS = 500, 200
_COUNTS = {
    "max_steps": 100_000, "answer_tokens": 1_000_000, "budget": 100_000_000, "last": 100_000, "retention_days": 36_500,
    "session_ttl_seconds": MAX_SECONDS, "checkpoint_ttl_seconds": MAX_SECONDS,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """How a model is asked, in an agent's sessions, in one session or in a child; None leaves it to what is above."""

    model: str | None = None
    template: str | NamedTemplate | None = None  # of the system prompt
    parameters: Mapping[str, Any] | None = None  # of the template
    tools: Sequence[str] | None = None  # the only ones that may be used
    max_cost: Decimal | None = None  # USD
    max_steps: int | None = None
    answer_tokens: int | None = None
    strategy: str | None = None
    budget: int | None = None
    last: int | None = None
    compaction_threshold: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefaults(ModelOptions):
    """The defaults of an agent's sessions; None leaves it to the settings. `AgentRow` says what each is.

    Raises UsageError for a value that no session could run with.
    """

    template: str | None = None
    system_prompt: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    session_ttl_seconds: int | None = None
    checkpoint_ttl_seconds: int | None = None
    retention_days: int | None = None
    tier: str | None = None

    def __post_init__(self) -> None:
        if self.system_prompt is not None and self.template is not None:
            raise UsageError("an agent has a system prompt or a template of one, not both")
        if self.parameters and self.template is None:
            raise UsageError("parameters are those of a template, and this agent has none")
        names = set() if self.template is None else set(template_parameters(check_prompt(self.template)))
        if unknown := sorted(set(self.parameters) - names):
            raise UsageError(f"the template has no parameter {', '.join(unknown)}; it has: {', '.join(sorted(names))}")
        check_prompt(self.system_prompt or "")
        check_values(self)
        _check_names("tier", () if self.tier is None else (self.tier,), 1)

    def as_definition(self) -> dict[str, Any]:
        """Return the defaults by column."""
        values = {column.name: getattr(self, column.name) for column in fields(self)}
        return values | {"tools": None if self.tools is None else list(self.tools), "parameters": dict(self.parameters)}


FIELDS = tuple(column.name for column in fields(AgentDefaults))


def defaults_of(agent: AgentRow) -> AgentDefaults:
    """Return what is set of a stored agent."""
    values = {name: getattr(agent, name) for name in FIELDS}
    return AgentDefaults(**{**values, "tools": None if agent.tools is None else tuple(agent.tools)})


def change_defaults(current: AgentDefaults, changes: Mapping[str, Any]) -> AgentDefaults:
    """Return defaults with some of them changed; None unsets one. A prompt takes the place of a template, and back.

    Raises UsageError for an unknown name.
    """
    if unknown := sorted(set(changes) - set(FIELDS)):
        raise UsageError(f"an agent has no {', '.join(unknown)}; it has: {', '.join(FIELDS)}")
    values = {name: getattr(current, name) for name in FIELDS} | dict(changes)
    if changes.get("system_prompt") is not None and "template" not in changes:
        values["template"] = None
    if changes.get("template") is not None and "system_prompt" not in changes:
        values["system_prompt"] = None
    if values["template"] is None and "parameters" not in changes:
        values["parameters"] = {}
    elif values["template"] != current.template and "parameters" not in changes:
        names = template_parameters(values["template"])
        values["parameters"] = {name: value for name, value in current.parameters.items() if name in names}
    values["parameters"] = values["parameters"] or {}
    return AgentDefaults(**values)


def check_values(values: Any) -> None:
    """Raise UsageError for a model, tools or sizes that no session could run with; None is fine everywhere."""
    if values.model is not None and not values.model.strip():
        raise UsageError("a model has a name")
    if values.strategy is not None:
        find_strategy(values.strategy)
    for name, most in _COUNTS.items():
        count = getattr(values, name, None)
        if count is not None and (type(count) is not int or not 1 <= count <= most):
            raise UsageError(f"{name} takes a number from 1 to {most}, not {count!r}")
    share = values.compaction_threshold
    if share is not None and (isinstance(share, bool) or not 0.1 <= share <= 1):
        raise UsageError(f"compaction_threshold takes a share from 0.1 to 1, not {share!r}")
    if values.max_cost is not None and values.max_cost < 0:
        raise UsageError(f"a cap of {values.max_cost:f} USD is negative")
    if values.tools is not None:
        _check_names("tools", values.tools, MAX_TOOLS)
    _check_names("parameters", values.parameters or (), MAX_PARAMETERS)


def parse_amount(value: float | Decimal | str) -> Decimal:
    """Return an amount of money. Raises UsageError for anything else."""
    try:
        amount = Decimal(str(value))
    except InvalidOperation as error:
        raise UsageError(f"{value!r} is not an amount in USD") from error
    if not amount.is_finite():
        raise UsageError(f"{value!r} is not an amount in USD; for no cap, leave it out")
    return amount


def _check_names(what: str, names: Any, most: int) -> None:
    if isinstance(names, str) or len(names) > most:
        raise UsageError(f"{what} takes up to {most} names")
    for name in names:
        if not isinstance(name, str) or not name.strip() or len(name) > 200 or escape(name) != name:
            raise UsageError(f"{name!r} is no name for {what}")


_SIZES = ("budget", "last", "answer_tokens", "max_steps")
_PATCHES = ("prepend", "append", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides(ModelOptions):
    """What a child does differently from its parent; None is inherited.

    `template` is rendered with `parameters` into the system prompt. `prompt_patch` changes the inherited system prompt:
    {"prepend": text}, {"append": text} and {"replace": {old: new}}. `tools` names the only tools that the child's model
    is given. `compaction_threshold` is the share of the budget above which the session is compacted.
    """

    system: str | None = None
    pinned: NamedTemplate | None = None  # which agent's the template is, where it was named
    prompt_patch: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_values(self)
        check_prompt(self.system or "")
        prompts = [name for name in ("system", "template", "prompt_patch") if getattr(self, name) is not None]
        if len(prompts) > 1:
            raise UsageError(f"a child gets one of {', '.join(prompts)}: each is a whole prompt")
        if self.parameters and self.template is None:
            raise UsageError("parameters are those of a template: name one")

    def named(self) -> dict[str, Any]:
        """Return what is overridden, as JSON can hold it."""
        values = {name: getattr(self, name) for name in OVERRIDABLE}
        plain: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
        if self.max_cost is not None:
            plain["max_cost"] = str(self.max_cost)
        if self.tools is not None:
            plain["tools"] = list(self.tools)
        if self.pinned is not None:
            plain["pinned"] = asdict(self.pinned)
        return plain

    def check_tools(self, names: Collection[str]) -> None:
        """Raise UsageError for tools that are not among those of who is to drive the child: nobody would."""
        missing = [name for name in self.tools or () if name not in names]
        if missing:
            names_missing = ", ".join(missing)
            raise UsageError(
                f"what drives sessions here has no tools {names_missing}: name others, or start it with them (--tools)"
            )

    def apply_to_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a parent's configuration with what is overridden."""
        changed = dict(config)
        for name in ("strategy", *_SIZES, "compaction_threshold"):
            value = getattr(self, name)
            if value is not None:
                changed[name] = value
        if self.system is not None:
            changed["system"] = self.system
        if isinstance(self.template, NamedTemplate):
            raise UsageError(f"the template of {self.template.name!r} was named, and not looked up")
        if self.template is not None:
            changed["system"] = render_template(self.template, dict(self.parameters or {}))
        if self.prompt_patch is not None:
            changed["system"] = patch_prompt(config.get("system"), self.prompt_patch)
        if changed.get("system") != config.get("system"):
            changed.pop("template", None)
        if self.pinned is not None:
            changed["template"] = name_template(self.pinned, self.parameters)
        if self.tools is not None:
            changed["tools"] = changed["allowed_tools"] = list(dict.fromkeys(self.tools))
        return changed


def name_template(pinned: NamedTemplate, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the template that was named, as a configuration has it."""
    return {**asdict(pinned), "params": dict(parameters or {})}


OVERRIDABLE = tuple(option.name for option in fields(Overrides))
NO_OVERRIDES = Overrides()


def patch_prompt(prompt: str | None, patch: Mapping[str, Any]) -> str:
    """Return a system prompt with a patch. Raises UsageError for an unknown change and a text that is not in it."""
    unknown = [name for name in patch if name not in _PATCHES]
    if unknown:
        raise UsageError(f"a patch to a prompt has {', '.join(_PATCHES)}, not {', '.join(map(repr, unknown))}")
    text = prompt or ""
    replaced = patch.get("replace") or {}
    if not isinstance(replaced, Mapping):
        raise UsageError("replace takes an object: the old text and the new one")
    for old, new in replaced.items():
        if not old or old not in text:
            raise UsageError(f"the prompt does not contain {old[:80]!r}: nothing was replaced")
        text = text.replace(old, str(new))
    parts = (patch.get("prepend"), text, patch.get("append"))
    return "\n\n".join(str(part) for part in parts if part)


ResultMode = Literal["summary", "full"]
RESULT_MODES: tuple[ResultMode, ...] = get_args(ResultMode)
SpawnedBy = Literal["agent", "program"]
SPAWN_TOOL = "spawn_agent"
SYSTEM_PROMPT = (
    "You are a sub-agent: another agent has given you one task. You see nothing of its conversation but what is "
    "written here, and nobody answers questions. Do the task with the tools that you have. Your last answer is "
    "all that the other agent is told: say what you found or did, and what is left open."
)
_MAX_MESSAGES, _MAX_CHARACTERS = 1000, 1_000_000  # of a context
_MAX_TASK = 200_000  # characters
_ROLES: tuple[SeedRole, ...] = ("user", "assistant", "tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnRequest:
    """A task for a sub-agent, and what it may use; it sees nothing else of its parent.

    `model` None leaves the choice to the routing policy, which sends spawned work to the cheap model. `context` is a
    text, or messages with `role` and `content`. `tools` names some of the parent's tools; None is all that need
    nobody's approval. `max_tokens` bounds each answer, `max_cost` (USD) all of them. Raises UsageError for what no
    sub-agent could run with.
    """

    task: str
    model: str | None = None
    context: str | Sequence[Mapping[str, Any]] | None = None
    tools: Sequence[str] | None = None
    mode: ResultMode = "summary"
    max_tokens: int | None = None
    max_cost: Decimal | None = None
    system: str | None = None

    def __post_init__(self) -> None:
        if not self.task.strip():
            raise UsageError("the task is blank: say what the sub-agent is to do")
        if len(self.task) > _MAX_TASK:
            raise UsageError(
                f"the task has {len(self.task):,} characters, over {_MAX_TASK:,}: put texts into the context"
            )
        if self.mode not in RESULT_MODES:
            raise UsageError(f"a result is one of {', '.join(RESULT_MODES)}, not {self.mode!r}")
        self.overrides()
        self.seeds()

    def overrides(self, model: str | None = None, tools: Sequence[str] | None = None) -> Overrides:
        """Return what the sub-agent does differently from its parent."""
        return Overrides(
            model=self.model or model,
            system=self.system or SYSTEM_PROMPT,
            tools=self.tools if tools is None else tools,
            answer_tokens=self.max_tokens,
            max_cost=self.max_cost,
        )

    def seeds(self) -> tuple[Seed, ...]:
        """Return the context as the sub-agent's earlier thread."""
        if not self.context:
            return ()
        if isinstance(self.context, str):
            messages: list[Seed] = [Seed("user", self.context, is_new=True)]
        else:
            messages = [_to_seed(message) for message in self.context]
        size = sum(len(message.content) for message in messages)
        if len(messages) > _MAX_MESSAGES or size > _MAX_CHARACTERS:
            raise UsageError(
                f"the context has {len(messages):,} messages and {size:,} characters, and may have "
                f"{_MAX_MESSAGES:,} and {_MAX_CHARACTERS:,}"
            )
        return tuple(messages)


def _to_seed(message: Mapping[str, Any]) -> Seed:
    role, content = message.get("role"), message.get("content")
    if role not in _ROLES or not isinstance(content, str):
        raise UsageError("a message of the context has a role (user, assistant or tool) and a content, which is a text")
    return Seed(role, content, is_new=True)


@dataclass(frozen=True, slots=True)
class SpawnResult:
    """What came of a sub-agent: `text` is its last answer, or with the mode `full` all that it did."""

    session_id: str
    call_id: str
    status: Literal["ok", "error"]
    text: str
    reason: str | None = None  # why there is no answer, or none to rely on
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal = Decimal(0)  # USD
