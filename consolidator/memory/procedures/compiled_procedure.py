"""A compiled procedure, and one run of it: a value fills a slot only if it leaves the call as harmless as it was.

Pure. A step counts as done if it succeeded and its result looks like the recorded ones; a later step may be filled from
it. Nothing here makes a call.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from consolidator.memory.calls.columns import flatten_result
from consolidator.memory.calls.guards import bypasses
from consolidator.memory.calls.harm import find_harm
from consolidator.memory.calls.installation import installed_packages
from consolidator.memory.calls.symbols import shell_command
from consolidator.memory.plain import Plain
from consolidator.memory.solutions.error_line import shows_failure
from consolidator.memory.text.invisible import strip_invisible

MAX_VALUE = 8_000  # characters of a parameter
MAX_VALUES = 50  # of a parameter that takes several
_MAX_READ = 240  # characters of a result that are compared, at each end
RAW_WORD = re.compile(
    r"(?:\"\$\(cat <<-?\s*['\"]?(?P<end>\w+)['\"]?\n.*?\n[^\S\n]*(?P=end)\s*\)\""
    r"|'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|[^\s'\"\\;&|<>()`])+"
    r"|&&|\|\||[;&|<>()`\n]",
    re.DOTALL,
)
NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,9})?")
WORD = re.compile(r"[\w./@+=,%#][\w./@:+=,%#-]{0,255}")
CLIMBS = re.compile(r"(?:^|/)\.\.(?:/|$)")
_ADDRESS = re.compile(r"\w+://|^[\w.-]+@[\w.-]+[:/]")
_LETTERS = re.compile(r"[A-Za-z]{3,}")


class StepRefused(Exception):
    """The message says why a step is not made, or does not count as done."""


@dataclass(frozen=True, slots=True)
class Parameter(Plain):
    """What the caller of a compiled procedure gives."""

    name: str
    kind: str  # number | word | text
    is_list: bool = False
    examples: tuple[str, ...] = ()  # redacted


@dataclass(frozen=True, slots=True)
class Binding(Plain):
    """Where in the result of an earlier step a slot's value is."""

    step: int  # 0-based
    path: str


@dataclass(frozen=True, slots=True)
class CompiledStep(Plain):
    """A call with slots: `{"slot": NAME}` in place of a value, `{"line": [...]}` in place of a shell's line."""

    tool: str
    arguments: Mapping[str, Any]
    expects: tuple[str, ...] = ()  # words that each recorded result had
    allowed: tuple[str, ...] = ()  # packages, addresses and ways round a check that the recorded calls had
    evidence: tuple[tuple[str, int], ...] = ()  # session and seq of each recorded call


@dataclass(frozen=True, slots=True)
class CompiledProcedure(Plain):
    """A procedure as a tool: its steps, their slots, and where each slot's value comes from."""

    id: str
    name: str
    title: str
    steps: tuple[CompiledStep, ...]
    parameters: tuple[Parameter, ...] = ()
    bindings: Mapping[str, Binding] = field(default_factory=dict)  # by slot
    agent: str = ""
    project: str | None = None
    person: str = ""  # whose sessions did it
    sessions: tuple[str, ...] = ()
    seen_to: str = ""  # when the latest of the recorded calls was made, ISO 8601
    drift: tuple[str, ...] = ()  # in words: how later sessions did it otherwise; told, not kept
    before: tuple[str, ...] = ()  # what the agent does itself before its steps, such as `Edit+`
    after: tuple[str, ...] = ()  # and after them

    @property
    def tools(self) -> frozenset[str]:
        """The tools that its steps call."""
        return frozenset(step.tool for step in self.steps)

    @property
    def by_agent(self) -> str:
        """What the agent does itself before and after it, in a sentence; "" for nothing."""
        sides = [("before", self.before), ("after", self.after)]
        parts = [f"{' → '.join(steps)} {side} it" for side, steps in sides if steps]
        return f"The agent itself makes {', '.join(parts)}." if parts else ""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its parameters."""
        properties: dict[str, Any] = {}
        for each in self.parameters:
            value = {"type": ["number", "string"] if each.kind == "number" else "string", "maxLength": MAX_VALUE}
            shape: dict[str, Any] = {"type": "array", "items": value, "maxItems": MAX_VALUES} if each.is_list else value
            properties[each.name] = {**shape, "description": f"a {each.kind}, such as {'; '.join(each.examples)}"}
        names = [each.name for each in self.parameters]
        return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}

    def describe(self) -> list[str]:
        """Return its calls, one a line, with slots for what is given."""
        return ProcedureRun(self, {}).describe()

    def begin(self, values: Mapping[str, Any]) -> ProcedureRun:
        """Return its run with these parameters. Raises StepRefused for others than its own, and for unfit values."""
        expected = {each.name: each for each in self.parameters}
        if set(values) != set(expected):
            raise StepRefused(f"it takes exactly {', '.join(expected) or 'no parameter'}")
        for name, parameter in expected.items():
            check_value(parameter, values[name], self.project)
        run = ProcedureRun(self, values)
        run.check_calls()
        return run


@dataclass(frozen=True, slots=True)
class ProcedureRun(Plain):
    """A compiled procedure at one of its steps: all that is needed to go on, wherever."""

    procedure: CompiledProcedure
    values: Mapping[str, Any]  # by slot
    number: int = 0  # of the step under way, 0-based

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, without what it rests on: the log has that in each step's call."""
        steps = tuple(replace(step, evidence=()) for step in self.procedure.steps)
        bare = replace(self.procedure, steps=steps, parameters=(), sessions=())
        return super(ProcedureRun, replace(self, procedure=bare)).to_json()

    def check_calls(self) -> None:
        """Raise StepRefused where the values that are known make a call from here on other than the recorded ones."""
        for number, step in enumerate(self.procedure.steps[self.number :], self.number):
            if set().union(*map(_slots_in, step.arguments.values())) <= self.values.keys():
                replace(self, number=number).call()

    def call(self) -> tuple[str, dict[str, Any]]:
        """Return the tool and arguments of the step. Raises StepRefused for a call that no agent is told."""
        step = self.procedure.steps[self.number]
        arguments = {name: _fill(value, self.values) for name, value in step.arguments.items()}
        if harm := find_harm(step.tool, arguments, self.procedure.project):
            raise StepRefused(f"step {self.number + 1} would be a call that {harm}")
        if new := sorted(powers_of(step.tool, arguments).difference(step.allowed)):
            raise StepRefused(f"step {self.number + 1} would have {', '.join(new)}, which no recorded call had")
        return step.tool, arguments

    def after(self, status: str, content: Any) -> ProcedureRun | None:
        """Return the run at its next step, after the step's result; None at its end.

        Raises StepRefused for a result that does not look like the recorded ones, and where it lacks a value.
        """
        _check_result(self.procedure.steps[self.number], status, content)
        if self.number + 1 == len(self.procedure.steps):
            return None
        columns = flatten_result(parse_result(content))
        bindings = {slot: each for slot, each in self.procedure.bindings.items() if each.step == self.number}
        taken = {slot: (columns.get(each.path) or [""])[0] for slot, each in bindings.items()}
        for slot, each in bindings.items():
            source = Parameter(f"its result's {each.path or 'text'}, which a later step needs,", "word")
            check_value(source, taken[slot], self.procedure.project)
        following = replace(self, number=self.number + 1, values={**self.values, **taken})
        following.check_calls()
        return following

    def describe(self) -> list[str]:
        """Return the calls from here on, one a line, as far as they are known."""
        lines, bindings = [], self.procedure.bindings
        for number, step in enumerate(self.procedure.steps[self.number :], self.number + 1):
            arguments = {name: _show(value, self.values, bindings) for name, value in step.arguments.items()}
            lines.append(f"{number}. {step.tool} {json.dumps(arguments, ensure_ascii=False)}")
        return lines


def _check_result(step: CompiledStep, status: str, content: Any) -> None:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    if status != "ok":
        raise StepRefused("it failed" if status == "error" else f"its outcome is {status}")
    if shell_command(step.tool, {"command": ""}) is not None and shows_failure(text):
        raise StepRefused("its output tells of a failure")
    present = {word.removesuffix("s") for word in words_of(text)}  # `1 insertion` is what `12 insertions` were
    if 2 * sum(word.removesuffix("s") in present for word in step.expects) < len(step.expects):
        expected = ", ".join(step.expects)
        raise StepRefused(f"its result does not look like the recorded ones, which had the words {expected}")


def check_value(parameter: Parameter, value: Any, project: str | None) -> None:
    """Raise StepRefused for a value that has not the form of those that were recorded, or is a path elsewhere."""
    values = value if parameter.is_list else [value]
    if not isinstance(values, list) or not 1 <= len(values) <= MAX_VALUES:
        raise StepRefused(f"{parameter.name} must be a list of 1 to {MAX_VALUES} values")
    for raw in values:
        each = str(raw) if is_number(raw) and parameter.kind != "text" else raw
        if not isinstance(each, str) or not each.strip() or len(each) > MAX_VALUE:
            raise StepRefused(f"{parameter.name} must be a text of at most {MAX_VALUE:,} characters")
        if each.startswith("-") and parameter.kind != "number":
            raise StepRefused(f"{parameter.name} must not begin with '-': it would be read as an option")
        if is_elsewhere(each, project):
            raise StepRefused(f"{parameter.name} must be within the project")
        if "\0" in each or strip_invisible(each) != each:
            raise StepRefused(f"{parameter.name} holds characters that nobody sees")
        if parameter.kind == "number" and not NUMBER.fullmatch(each):
            raise StepRefused(f"{parameter.name} must be a number")
        if parameter.kind == "text" and (each.startswith("..") or (CLIMBS.search(each) and len(each.split()) == 1)):
            raise StepRefused(f"{parameter.name} must be within the project")
        if parameter.kind == "word" and (not WORD.fullmatch(each) or CLIMBS.search(each)):
            raise StepRefused(f"{parameter.name} must be one plain word or a path within the project")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_elsewhere(text: str, project: str | None) -> bool:
    is_within = project is not None and f"{text}/".startswith(f"{project}/") and not CLIMBS.search(text)
    return text.startswith(("/", "~")) and not is_within


def powers_of(tool: str, arguments: Any) -> set[str]:
    """Return what a call may do only as recorded: packages, addresses that are no prose, and ways round a check."""
    line = shell_command(tool, arguments)
    words = [each[0] for each in RAW_WORD.finditer(line)] if line is not None else map(str, arguments.values())
    addresses = {word for word in words if _ADDRESS.search(word.strip("'\"")) and not re.search(r"\s", word)}
    return addresses | set(installed_packages(tool, arguments)) | (set(bypasses(line)) if line is not None else set())


def words_of(text: str) -> set[str]:
    """Return the words at both ends of a result."""
    ends = text[:_MAX_READ].split() + text[-_MAX_READ:].split()
    return {letters.lower() for word in ends if "/" not in word for letters in _LETTERS.findall(word)}


def parse_result(content: Any) -> Any:
    if isinstance(content, str) and content.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            return content
    return content


def _slots_in(value: Any) -> set[str]:
    parts = value.get("line", [value]) if isinstance(value, Mapping) else []
    return {part["slot"] for part in parts if isinstance(part, Mapping) and "slot" in part}


def _fill(value: Any, values: Mapping[str, Any]) -> Any:
    if not isinstance(value, Mapping) or not {"line", "slot"} & value.keys():
        return value
    if "slot" in value:
        return values[value["slot"]]
    words = []
    for part in value["line"]:
        filled = part if isinstance(part, str) else values[part["slot"]]
        if isinstance(part, str):
            words.append(filled)
        else:
            words += [shlex.quote(str(each)) for each in (filled if isinstance(filled, list) else [filled])]
    return " ".join(words)


def _show(value: Any, values: Mapping[str, Any], bindings: Mapping[str, Binding]) -> Any:
    """Return an argument as far as it is known, for people."""
    unknown = {name: f"⟨{name}⟩" for name in _slots_in(value) - values.keys()}
    for name in unknown.keys() & bindings.keys():
        place = bindings[name].path
        unknown[name] = f"⟨{f'{place} of ' if place else ''}the result of step {bindings[name].step + 1}⟩"
    filled = _fill(value, {**values, **unknown})
    for text in unknown.values():
        filled = filled.replace(shlex.quote(text), text) if isinstance(filled, str) else filled
    return filled
