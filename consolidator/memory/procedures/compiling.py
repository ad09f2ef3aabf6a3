"""Compile a procedure: what sessions did alike becomes steps with parameters, bindings and checks.

Pure. What all sessions gave is a literal; where they differ is a *slot*, which is filled by a parameter or from an
earlier result (`compiled_procedure`).
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile
from operator import not_
from types import MappingProxyType
from typing import Any, NamedTuple

from consolidator.memory.calls.argument_summary import strip_output
from consolidator.memory.calls.call_pairing import CallPairer, CompletedCall
from consolidator.memory.calls.columns import flatten_result
from consolidator.memory.calls.directory import strip_cd
from consolidator.memory.calls.harm import find_harm
from consolidator.memory.calls.shell import parse_commands
from consolidator.memory.calls.symbols import call_symbol, is_inspection, shell_command
from consolidator.memory.procedures.compiled_procedure import (
    CLIMBS,
    NUMBER,
    RAW_WORD,
    WORD,
    Binding,
    CompiledProcedure,
    CompiledStep,
    Parameter,
    is_elsewhere,
    is_number,
    parse_result,
    powers_of,
    words_of,
)
from consolidator.memory.solutions.error_line import shows_failure
from consolidator.models.event import Event

MIN_ALIKE = 3  # sessions that did it alike
MAX_EXAMPLES = 3  # of a parameter that are shown
MAX_EXPECTED = 12  # words that a result had each time
_DOCUMENT = re.compile(r"\"\$\(cat <<-?\s*['\"](\w+)['\"]\n(.*?)\n[^\S\n]*\1\s*\)\"", re.DOTALL)
_OPERATOR = re.compile(r"&&|\|\||[;&|<>()`\n]")
_SUBCOMMAND = re.compile(r"[a-z][a-z:-]*")
_NO_MATTER = ("description", "timeout", "timeout_ms", "yield_time_ms", "max_output_tokens")  # of a shell's call
_SILENT = {
    "git add",
    "mkdir",
    "cp",
    "mv",
    "rm",
    "touch",
    "ln",
    "chmod",
}  # what they printed was a hook's of that machine
_NAMES = {"-m": "message", "-b": "branch", "-t": "title"}


class CannotCompile(Exception):
    """The message says why a procedure cannot be compiled."""


class Instance(NamedTuple):
    """The calls of a procedure in one session."""

    session_id: str
    root_id: str
    calls: tuple[CompletedCall, ...]


def fixed_steps(repeats: Sequence[bool]) -> slice:
    """Return the longest run of steps that are made once: a tool makes these, the agent itself what is around them.

    Raises CannotCompile for fewer than two.
    """
    runs = [(start, start + sum(1 for _ in takewhile(not_, repeats[start:]))) for start in range(len(repeats))]
    start, end = max(runs, key=lambda run: run[1] - run[0])
    if end - start < 2:
        raise CannotCompile("between steps that are made any number of times (+), fewer than two are made once")
    return slice(start, end)


def find_calls(
    events: Iterable[Event], symbols: Sequence[str], repeats: Sequence[bool]
) -> tuple[CompletedCall, ...] | None:
    """Return the call of each step, from the first event on; None where the session did it otherwise.

    What failed or only looked at something is no step; one made twice in a row is otherwise, unless it repeats.
    """
    pairer, calls = CallPairer(), list[CompletedCall]()
    for event in events:
        call = pairer.feed(event)
        if call is None or not call.ok or is_inspection(call_symbol(call)):
            continue
        symbol, number = call_symbol(call), len(calls)
        if number and repeats[number - 1] and symbol == symbols[number - 1]:
            continue
        if symbol != symbols[number] or (not repeats[number] and shows_failure(call.result_text)):
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
    is_silent: bool = False  # what it printed was not the step's own: a wrapper's, or of a program that prints nothing


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
    target = re.match(r"\s*cd\s+['\"]?([^\s'\"]+)", line)
    is_its_own = target is not None and target[1].rstrip("/") == project  # another one says where the call has to run
    line = strip_output(strip_cd(line) if is_its_own else line).strip()
    commands = parse_commands(line)
    if argument is None or not commands:
        return None
    words = [match[0] for match in RAW_WORD.finditer(line)]
    if "".join("".join(words).split()) != "".join(line.split()):
        return None
    wrappers = commands[0].wrappers  # it runs without them in another session, or it is no wrapper there
    is_unwrapped = bool(wrappers) and tuple(words[: len(wrappers)]) == wrappers
    words = words[len(wrappers) :] if is_unwrapped else words
    is_nested = not {"(", ")", "`", "<", ">"}.isdisjoint(words)
    if is_nested or {("|", "&"), (";", ";")} & set(pairwise(words)):
        # Its spaces matter, and nothing in it may differ.
        return _Form((call.tool, *rest, line), [], [line], argument, others)
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
    programs = {f"{each.program} {each.subcommand or ''}".strip() for each in commands}
    return _Form((call.tool, *rest, *key), runs, key, argument, others, is_unwrapped or programs <= _SILENT)


class _Compiler:
    def __init__(self, instances: Sequence[Instance], redact: Callable[[str], str], project: str | None) -> None:
        self._instances, self._redact, self._project = instances, redact, project
        self._columns = [[flatten_result(parse_result(call.result)) for call in each.calls] for each in instances]
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
        results = [words_of(call.result_text) for call, form in zip(calls, forms, strict=True) if not form.is_silent]
        common = set.intersection(*results) if results else set[str]()
        expected = tuple(sorted(common, key=lambda word: (-len(word), word))[:MAX_EXPECTED])
        powers = {power for call in calls for power in powers_of(call.tool, call.arguments)}
        evidence = tuple((each.session_id, call.seq) for each, call in zip(self._instances, calls, strict=True))
        return CompiledStep(calls[0].tool, arguments, expected, tuple(sorted(powers)), evidence)

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
        if not lists and not all(isinstance(value, str) or is_number(value) for value in values):
            raise CannotCompile(f"{name} of step {number + 1} differs, and is neither text nor number")
        return self._slot(number, name, values)

    def _slot(self, number: int, name: str, values: Sequence[Any]) -> dict[str, str]:
        """Return the slot of what sessions gave differently: bound where an earlier value was it in each of them."""
        for slot, others in self._slots.items():
            if list(values) == others:
                return {"slot": slot}
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
        if any(is_elsewhere(text, self._project) for text in texts):
            raise CannotCompile(f"step {number + 1} has a path outside the project, and it differs")
        kind = "text"
        if all(map(NUMBER.fullmatch, texts)):
            kind = "number"
        elif all(WORD.fullmatch(text) and not CLIMBS.search(text) for text in texts):
            kind = "word"
        examples = [" ".join(self._redact(" ".join(v) if is_list else str(v)).split())[:80] for v in values]
        self.parameters[slot] = Parameter(slot, kind, is_list, tuple(dict.fromkeys(examples))[:MAX_EXAMPLES])
        return {"slot": slot}
