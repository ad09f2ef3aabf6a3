"""Compile a procedure: what sessions did alike becomes steps with parameters, bindings and checks.

Pure. What all sessions gave is a literal; where they differ is a *slot*, which is filled by a parameter or from an
earlier result. A value fills a slot only if it has the form of the recorded ones and leaves the call harmless.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from consolidator.memory.calls.argument_summary import strip_output
from consolidator.memory.calls.call_pairing import CallPairer, CompletedCall
from consolidator.memory.calls.columns import flatten_result
from consolidator.memory.calls.directory import strip_cd
from consolidator.memory.calls.guards import bypasses
from consolidator.memory.calls.harm import find_harm
from consolidator.memory.calls.installation import installed_packages
from consolidator.memory.calls.shell import parse_commands
from consolidator.memory.calls.symbols import call_symbol, is_inspection, shell_command
from consolidator.memory.plain import Plain
from consolidator.memory.solutions.error_line import shows_failure
from consolidator.memory.text.invisible import strip_invisible
from consolidator.models.event import Event

MIN_ALIKE = 3  # sessions that did it alike
MAX_EXAMPLES = 3  # of a parameter that are shown
MAX_VALUE = 8_000  # characters of a parameter
MAX_VALUES = 50  # of a parameter that takes several
MAX_EXPECTED = 12  # words that a result had each time
_MAX_READ = 240  # characters of a result that are compared, at each end
_RAW_WORD = re.compile(
    r"(?:\"\$\(cat <<-?\s*['\"]?(?P<end>\w+)['\"]?\n.*?\n[^\S\n]*(?P=end)\s*\)\""
    r"|'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|[^\s'\"\\;&|<>()`])+"
    r"|&&|\|\||[;&|<>()`\n]",
    re.DOTALL,
)
_DOCUMENT = re.compile(r"\"\$\(cat <<-?\s*['\"](\w+)['\"]\n(.*?)\n[^\S\n]*\1\s*\)\"", re.DOTALL)
_OPERATOR = re.compile(r"&&|\|\||[;&|<>()`\n]")
_SUBCOMMAND = re.compile(r"[a-z][a-z:-]*")
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,9})?")
_WORD = re.compile(r"[\w./@+=,%#][\w./@:+=,%#-]{0,255}")
_CLIMBS = re.compile(r"(?:^|/)\.\.(?:/|$)")
_ADDRESS = re.compile(r"\w+://|^[\w.-]+@[\w.-]+[:/]")
_LETTERS = re.compile(r"[A-Za-z]{3,}")
_NO_MATTER = ("description", "timeout", "timeout_ms", "yield_time_ms", "max_output_tokens")  # of a shell's call
_NAMES = {"-m": "message", "-b": "branch", "-t": "title"}


class CannotCompile(Exception):
    """The message says why a procedure cannot be compiled."""


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

    @property
    def tools(self) -> frozenset[str]:
        """The tools that its steps call."""
        return frozenset(step.tool for step in self.steps)

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

    def begin(self, given: Mapping[str, Any]) -> ProcedureRun:
        """Return its run with these parameters. Raises StepRefused for others than its own, and for unfit values."""
        expected = {each.name: each for each in self.parameters}
        if set(given) != set(expected):
            raise StepRefused(f"it takes exactly {', '.join(expected) or 'no parameter'}")
        for name, parameter in expected.items():
            check_value(parameter, given[name], self.project)
        run = ProcedureRun(self, given)
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
        if new := sorted(_powers(step.tool, arguments).difference(step.allowed)):
            raise StepRefused(f"step {self.number + 1} would have {', '.join(new)}, which no recorded call had")
        return step.tool, arguments

    def after(self, status: str, content: Any) -> ProcedureRun | None:
        """Return the run at its next step, after the step's result; None at its end.

        Raises StepRefused for a result that does not look like the recorded ones, and where it lacks a value.
        """
        _check_result(self.procedure.steps[self.number], status, content)
        if self.number + 1 == len(self.procedure.steps):
            return None
        columns = flatten_result(_parse(content))
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
    present = _words_of(text)
    if 2 * sum(word in present for word in step.expects) < len(step.expects):
        expected = ", ".join(step.expects)
        raise StepRefused(f"its result does not look like the recorded ones, which had the words {expected}")


def check_value(parameter: Parameter, value: Any, project: str | None) -> None:
    """Raise StepRefused for a value that has not the form of those that were recorded, or is a path elsewhere."""
    values = value if parameter.is_list else [value]
    if not isinstance(values, list) or not 1 <= len(values) <= MAX_VALUES:
        raise StepRefused(f"{parameter.name} must be a list of 1 to {MAX_VALUES} values")
    for given in values:
        each = str(given) if _is_number(given) and parameter.kind != "text" else given
        if not isinstance(each, str) or not each.strip() or len(each) > MAX_VALUE:
            raise StepRefused(f"{parameter.name} must be a text of at most {MAX_VALUE:,} characters")
        if each.startswith("-") and parameter.kind != "number":
            raise StepRefused(f"{parameter.name} must not begin with '-': it would be read as an option")
        if _is_elsewhere(each, project):
            raise StepRefused(f"{parameter.name} must be within the project")
        if "\0" in each or strip_invisible(each) != each:
            raise StepRefused(f"{parameter.name} holds characters that nobody sees")
        if parameter.kind == "number" and not _NUMBER.fullmatch(each):
            raise StepRefused(f"{parameter.name} must be a number")
        if parameter.kind == "text" and (each.startswith("..") or (_CLIMBS.search(each) and len(each.split()) == 1)):
            raise StepRefused(f"{parameter.name} must be within the project")
        if parameter.kind == "word" and (not _WORD.fullmatch(each) or _CLIMBS.search(each)):
            raise StepRefused(f"{parameter.name} must be one plain word or a path within the project")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_elsewhere(text: str, project: str | None) -> bool:
    is_within = project is not None and f"{text}/".startswith(f"{project}/") and not _CLIMBS.search(text)
    return text.startswith(("/", "~")) and not is_within


class Instance(NamedTuple):
    """The calls of a procedure in one session."""

    session_id: str
    root_id: str
    calls: tuple[CompletedCall, ...]


def find_calls(events: Iterable[Event], symbols: Sequence[str]) -> tuple[CompletedCall, ...] | None:
    """Return the calls of a procedure's steps, from the first event on; None where the session did it otherwise.

    What failed or only looked at something is no step; a step that was made twice in a row is otherwise.
    """
    pairer, calls = CallPairer(), list[CompletedCall]()
    for event in events:
        call = pairer.feed(event)
        if call is None or not call.ok or is_inspection(call_symbol(call)):
            continue
        if call_symbol(call) != symbols[len(calls)] or shows_failure(call.result_text):
            return None
        calls.append(call)
        if len(calls) == len(symbols):
            return tuple(calls)
    return None


def compile_procedure(
    procedure: CompiledProcedure, instances: Sequence[Instance], redact: Callable[[str], str]
) -> CompiledProcedure:
    """Return a procedure with the steps that most of some sessions, the latest first, did alike.

    Raises CannotCompile where too few did, and for what is hostile, holds a credential, or is text that no slot takes.
    """
    read = [
        (each, forms) for each in instances if (forms := [_read_form(call, procedure.project) for call in each.calls])
    ]
    keys = Counter(tuple(form.key for form in forms if form) for _, forms in read if all(forms))
    best = max(keys, key=lambda key: keys[key], default=None)
    alike = [(each, [f for f in forms if f]) for each, forms in read if tuple(f.key for f in forms if f) == best]
    roots = {each.root_id for each, _ in alike}
    if len(roots) < MIN_ALIKE:
        of = f"{len(roots)} of {len(instances)} sessions" if instances else "no session that is still whole"
        raise CannotCompile(f"{of} did it alike; {MIN_ALIKE} have to")
    compiler = _Compiler([each for each, _ in alike], redact, procedure.project)
    steps = tuple(
        compiler.compile_step(number, [forms[number] for _, forms in alike]) for number in range(len(alike[0][0].calls))
    )
    parameters = tuple(each for name, each in compiler.parameters.items() if name not in compiler.bindings)
    return replace(
        procedure,
        steps=steps,
        parameters=parameters,
        bindings=compiler.bindings,
        sessions=tuple(each.session_id for each, _ in alike),
        seen_to=max(call.occurred_at for each, _ in alike for call in each.calls),
    )


class _Form(NamedTuple):
    """A call taken apart: what has to be the same in all sessions, and what may differ."""

    key: tuple[Any, ...]
    runs: list[list[str]]  # of a shell's line: the words of each hole; of other arguments one value each
    words: list[str]  # of a shell's line, raw; a hole is ""
    argument: str = ""  # that holds the shell's line
    others: Mapping[str, Any] = MappingProxyType({})  # what a shell is given beside its line, such as a directory


def _read_form(call: CompletedCall, project: str | None) -> _Form | None:
    """Return the form of a call; None for one that cannot be read."""
    if not isinstance(call.arguments, Mapping):
        return None
    line = shell_command(call.tool, call.arguments)
    if line is None:
        names = sorted(call.arguments)
        return _Form((call.tool, *names), [[json.dumps(call.arguments[name])] for name in names], names)
    argument = next((name for name, value in call.arguments.items() if value == line), None)
    others = {name: value for name, value in call.arguments.items() if name not in (argument, *_NO_MATTER)}
    rest = [json.dumps(item) for item in sorted(others.items())]
    line = strip_output(_strip_own_directory(line, project)).strip()
    commands = parse_commands(line)
    if argument is None or not commands:
        return None
    words = [match[0] for match in _RAW_WORD.finditer(line)]
    if "".join("".join(words).split()) != "".join(line.split()):
        return None
    if wrappers := commands[0].wrappers:  # it runs without them in another session, or it is no wrapper there
        words = words[len(wrappers) :] if tuple(words[: len(wrappers)]) == wrappers else words
    is_nested = not {"(", ")", "`", "<", ">"}.isdisjoint(words)
    if is_nested or {("|", "&"), (";", ";")} & set(pairwise(words)):
        # Its spaces matter, and nothing in it may differ.
        return _Form((call.tool, *rest, line), [], [line], argument or "", others)
    key: list[str] = []
    runs: list[list[str]] = []
    place = 0  # of a word in its command
    for word in words:
        is_fixed = bool(_OPERATOR.fullmatch(word)) or word.startswith("-") or place == 0
        is_fixed = is_fixed or (place == 1 and _SUBCOMMAND.fullmatch(word) is not None)
        place = 0 if _OPERATOR.fullmatch(word) else place + 1
        if is_fixed:
            key.append(word)
        elif key and key[-1] == "":
            runs[-1].append(word)
        else:
            key.append("")
            runs.append([word])
    return _Form((call.tool, *rest, *key), runs, key, argument, others)


def _strip_own_directory(line: str, project: str | None) -> str:
    """Return a line without the `cd` into its project; another one says where the call has to run."""
    stripped = strip_cd(line)
    target = re.match(r"\s*cd\s+['\"]?([^\s'\"]+)", line)
    return stripped if target is not None and target[1].rstrip("/") == project else line


class _Compiler:
    def __init__(self, instances: Sequence[Instance], redact: Callable[[str], str], project: str | None) -> None:
        self._instances, self._redact, self._project = instances, redact, project
        self._columns = [[flatten_result(_parse(call.result)) for call in each.calls] for each in instances]
        self._slots: dict[str, list[Any]] = {}  # what each session gave
        self.parameters: dict[str, Parameter] = {}
        self.bindings: dict[str, Binding] = {}

    def compile_step(self, number: int, forms: Sequence[_Form]) -> CompiledStep:
        """Return a step; `forms` are those of all sessions."""
        calls = [each.calls[number] for each in self._instances]
        for call in calls:
            if harm := find_harm(call.tool, call.arguments, self._project):
                raise CannotCompile(f"step {number + 1} is hostile to repeat: it {harm}")
        if forms[0].argument:
            arguments: dict[str, Any] = {
                **forms[0].others,
                forms[0].argument: {"line": self._compile_line(number, forms)},
            }
            self._refuse_members(number, forms[0].others)
        else:
            arguments = {
                name: self._compile_value(number, name, [json.loads(form.runs[n][0]) for form in forms])
                for n, name in enumerate(forms[0].words)
            }
        text = json.dumps(arguments, ensure_ascii=False)
        if self._redact(text) != text:
            raise CannotCompile(f"step {number + 1} holds a credential")
        results = [_words_of(call.result_text) for call in calls]
        common = sorted(set.intersection(*results), key=lambda word: (-len(word), word))[:MAX_EXPECTED]
        powers = {power for call in calls for power in _powers(call.tool, call.arguments)}
        evidence = tuple((each.session_id, call.seq) for each, call in zip(self._instances, calls, strict=True))
        return CompiledStep(calls[0].tool, arguments, tuple(common), tuple(sorted(powers)), evidence)

    def _compile_line(self, number: int, forms: Sequence[_Form]) -> list[Any]:
        parts: list[Any] = []
        holes = iter(zip(*(form.runs for form in forms), strict=True))
        for word in forms[0].words:
            if word:
                parts.append(word)
                continue
            runs = next(holes)
            before = next((part for part in reversed(parts) if isinstance(part, str)), "")
            if len({len(run) for run in runs}) == 1:
                columns = list(zip(*runs, strict=True))
                parts += [self._word_slot(number, before, column) for column in columns]
            else:
                decoded = [[self._decode(number, word) for word in run] for run in runs]
                name = "paths" if all("/" in text or "." in text for run in decoded for text in run) else "values"
                parts.append(self._slot(number, _NAMES.get(before, name), decoded))
        return parts

    def _word_slot(self, number: int, before: str, column: Sequence[str]) -> Any:
        if len(set(column)) == 1:
            return column[0]
        name = _NAMES.get(before, before.strip("-") if before.startswith("-") else "value")
        return self._slot(number, name, [self._decode(number, word) for word in column])

    def _decode(self, number: int, word: str) -> str:
        """Return the text that a raw word stands for. Raises CannotCompile where a shell would work it out."""
        if document := _DOCUMENT.fullmatch(word):
            return document[2]
        is_literal = word.startswith("'") and word.endswith("'") and word.count("'") == 2
        if not is_literal and re.search(r"[$`]", word):
            raise CannotCompile(f"step {number + 1} has a value that a shell works out, and it differs")
        try:
            (text,) = shlex.split(word)
        except ValueError:
            raise CannotCompile(f"step {number + 1} has a value that is not one word, and it differs") from None
        if text == word and re.search(r"[*?\[{~]", word):
            raise CannotCompile(f"step {number + 1} has a pattern of files, and it differs")
        return text

    def _refuse_members(self, number: int, arguments: Mapping[str, Any]) -> None:
        """Raise CannotCompile for a value that would be read as a slot."""
        for name, value in arguments.items():
            if isinstance(value, Mapping) and not {"line", "slot"}.isdisjoint(value):
                raise CannotCompile(f"{name} of step {number + 1} has a member that is called `line` or `slot`")

    def _compile_value(self, number: int, name: str, values: Sequence[Any]) -> Any:
        if all(value == values[0] for value in values):
            self._refuse_members(number, {name: values[0]})
            return values[0]
        lists = all(isinstance(value, list) and all(isinstance(each, str) for each in value) for value in values)
        if not lists and not all(isinstance(value, str) or _is_number(value) for value in values):
            raise CannotCompile(f"{name} of step {number + 1} differs, and is neither text nor number")
        return self._slot(number, name, values)

    def _slot(self, number: int, name: str, values: Sequence[Any]) -> dict[str, str]:
        """Return the slot of what sessions gave differently: bound where an earlier value was it in each of them."""
        for known, others in self._slots.items():
            if list(values) == others:
                return {"slot": known}
        name = re.sub(r"\W+", "_", name).strip("_") or "value"
        slot = name if name not in self._slots else f"{name}_{number + 1}"
        slot = slot if slot not in self._slots else f"{slot}_{len(self._slots)}"
        self._slots[slot] = list(values)
        for step in range(number):
            for path in self._columns[0][step]:
                columns = [session[step].get(path) or [None] for session in self._columns]
                if [str(column[0]) for column in columns] == list(map(str, values)):
                    self.bindings[slot] = Binding(step, path)
                    return {"slot": slot}
        is_list = isinstance(values[0], list)
        texts = [str(text) for value in values for text in (value if is_list else [value])]
        if any(_is_elsewhere(text, self._project) for text in texts):
            raise CannotCompile(f"step {number + 1} has a path outside the project, and it differs")
        kind = "text"
        if all(map(_NUMBER.fullmatch, texts)):
            kind = "number"
        elif all(_WORD.fullmatch(text) and not _CLIMBS.search(text) for text in texts):
            kind = "word"
        examples = [" ".join(self._redact(" ".join(v) if is_list else str(v)).split())[:80] for v in values]
        self.parameters[slot] = Parameter(slot, kind, is_list, tuple(dict.fromkeys(examples))[:MAX_EXAMPLES])
        return {"slot": slot}


def _powers(tool: str, arguments: Any) -> set[str]:
    """Return what a call may do only as recorded: packages, addresses that are no prose, and ways round a check."""
    line = shell_command(tool, arguments)
    words = [each[0] for each in _RAW_WORD.finditer(line)] if line is not None else map(str, arguments.values())
    addresses = {word for word in words if _ADDRESS.search(word.strip("'\"")) and not re.search(r"\s", word)}
    return addresses | set(installed_packages(tool, arguments)) | (set(bypasses(line)) if line is not None else set())


def _words_of(text: str) -> set[str]:
    ends = text[:_MAX_READ].split() + text[-_MAX_READ:].split()
    return {letters.lower() for word in ends if "/" not in word for letters in _LETTERS.findall(word)}


def _parse(content: Any) -> Any:
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
