"""What may be set as an agent's defaults, and their checks. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation
from string import Template
from typing import Any

from consolidator.context.strategies import find_strategy
from consolidator.database.jsonb import escape
from consolidator.errors import UsageError
from consolidator.models.agent import AgentRow, NamedTemplate

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
    rendered = Template(template).substitute({name: _as_text(value) for name, value in parameters.items()})
    return check_prompt(rendered)


def check_prompt(prompt: str) -> str:
    """Return a system prompt or template. Raises UsageError for one that is too long."""
    if len(prompt) > MAX_PROMPT_CHARACTERS:
        raise UsageError(f"the system prompt has {len(prompt):,} characters, over {MAX_PROMPT_CHARACTERS:,}")
    return prompt


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


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
