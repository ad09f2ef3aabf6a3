"""Turn mined patterns into what is published of a scope: procedures with bound arguments, and tool profiles.

Pure: the same patterns and texts give the same procedures with the same ids. `publication_rule` decides which
patterns are published; of what is hostile to repeat none is.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, NamedTuple

from consolidator.memory.calls.command_templates import MAX_HOLES
from consolidator.memory.calls.harm import symbol_harm
from consolidator.memory.calls.symbols import SHELL_PREFIX, display_name
from consolidator.memory.procedures.key_texts import KeyTexts
from consolidator.memory.procedures.patterns import MinedPatterns, Pattern
from consolidator.memory.procedures.publication_rule import (
    DEFAULT_RULE,
    MIN_GAIN,
    ProcedureSelection,
    PublicationRule,
    is_more_than_a_habit,
    measure_worth,
)
from consolidator.memory.procedures.tool_profiles import (
    SINCE_LAST_CALL,
    Binding,
    ToolProfile,
    build_profiles,
    context_key,
    count_outcomes,
    usual_command,
)

MIN_PRECONDITION_ROOTS = 2  # in which errors taught a precondition
MIN_FOLLOW_CHANCES = 3  # times the last steps must have been seen before anything is said to follow them
MIN_FOLLOW_SHARE = 0.1
MAX_FOLLOWS = 3


@dataclass(frozen=True, slots=True)
class StepArgument:
    """An argument of a step: where its value comes from, or free."""

    path: str
    text: str  # for people: "the last Read(file_path)", '"main"', "<free>"
    kind: str = "free"  # constant | argument | result | user | free
    precision: float = 0.0
    n: int = 0  # times the binding was applicable
    step: int | None = None  # the step of this procedure that it comes from, 0-based
    source: str = ""
    source_path: str = ""
    value: Any = None


@dataclass(frozen=True, slots=True)
class ProcedureStep:
    """A step: a tool, or a program that a shell runs, with its arguments."""

    symbol: str
    tool: str
    repeats: bool  # usually several times in a row
    arguments: tuple[StepArgument, ...]
    command: str = ""  # of a shell step: the command where it is always the same, else its usage pattern


@dataclass(frozen=True, slots=True)
class SuccessEstimate:
    """Beta posterior of the outcome: of the sessions' tasks where the log tells them, else of the steps' calls."""

    alpha: float
    beta: float
    basis: str  # tasks | calls

    @property
    def mean(self) -> float:
        """The expected share of successes."""
        return self.alpha / (self.alpha + self.beta)


@dataclass(frozen=True, slots=True)
class Procedure:
    """A closed contiguous pattern of steps that distinct sessions share."""

    id: str
    title: str
    steps: tuple[ProcedureStep, ...]
    support: int  # distinct lineage roots
    people: int  # whose sessions these are
    rank: float
    gain: float  # bits by which it predicts its steps better than their pairs do, on held-out roots
    worth: float  # bits: gain and evidence of its purpose; 0 where it is listed only on request
    purpose: tuple[str, ...]  # words that the goals of its sessions have more often than others
    success: SuccessEstimate
    follows: tuple[tuple[str, float], ...]  # symbols that usually come next, with their shares
    preconditions: tuple[str, ...]
    evidence: tuple[tuple[str, int], ...]  # session and seq, the latest first

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols of its steps."""
        return tuple(step.symbol for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return the procedure as JSON."""
        steps = [
            {**_field_values(step), "arguments": [_field_values(argument) for argument in step.arguments]}
            for step in self.steps
        ]
        success = {**_field_values(self.success), "mean": self.success.mean}
        return {**_field_values(self), "steps": steps, "success": success}


def _field_values(value: StepArgument | ProcedureStep | SuccessEstimate | Procedure) -> dict[str, Any]:
    """Return the fields of a dataclass; `dataclasses.asdict` would copy all values deeply."""
    return {name: getattr(value, name) for name in _FIELD_NAMES[type(value)]}


_FIELD_NAMES = {
    cls: tuple(field.name for field in fields(cls)) for cls in (StepArgument, ProcedureStep, SuccessEstimate, Procedure)
}


@dataclass(frozen=True, slots=True)
class PublishedScope:
    """What is published of one scope."""

    procedures: list[Procedure]  # best first
    profiles: dict[str, ToolProfile]  # by symbol


def publish_scope(
    mined: MinedPatterns,
    texts: KeyTexts,
    rule: PublicationRule = DEFAULT_RULE,
    *,
    agent: str = "",
    project: str = "",
) -> PublishedScope:
    """Return the procedures that the rule selects, best first, and the profiles of all symbols."""
    profiles = build_profiles(mined.key_sums, texts)
    selection = ProcedureSelection(rule, profiles)
    is_harmful = cache(lambda symbol: symbol in profiles and profiles[symbol].find_harm(project or None) is not None)
    procedures = []
    for valued in _value_patterns(mined.patterns, texts):
        if any(map(is_harmful, valued.symbols)) or not selection.accept(valued.symbols, valued.purpose):
            continue
        procedures.append(_build_procedure(valued, profiles, agent, project))
        if selection.is_full:
            break
    return PublishedScope(sorted(procedures, key=lambda procedure: -procedure.worth), profiles)


class _ValuedPattern(NamedTuple):
    """A pattern with the texts of its symbols, and what telling it is worth."""

    pattern: Pattern
    symbols: tuple[str, ...]
    worth: float = 0.0
    purpose: tuple[str, ...] = ()


def _value_patterns(patterns: Iterable[Pattern], texts: KeyTexts) -> list[_ValuedPattern]:
    """Return the patterns whose symbols have texts, in the order given, but those worth telling first."""
    named = [(pattern, tuple(filter(None, map(texts.text, pattern.symbols)))) for pattern in patterns]
    named = [(pattern, symbols) for pattern, symbols in named if len(symbols) == len(pattern.symbols)]
    rivals = Counter(len(symbols) for _, symbols in named if is_more_than_a_habit(symbols))
    valued = []
    for pattern, symbols in named:
        worth = 0.0
        words: tuple[str, ...] = ()
        # Of few patterns: a purpose takes a while.
        if (pattern.gain >= MIN_GAIN or pattern.regularity) and is_more_than_a_habit(symbols):
            purpose = pattern.purpose()
            worth = measure_worth(pattern.gain, purpose, rivals[len(symbols)], pattern.regularity)
            if worth and not purpose.words and worth == pattern.regularity:
                purpose = pattern.common_purpose()
            words = tuple(filter(None, map(texts.text, purpose.words))) if worth else ()
        valued.append(_ValuedPattern(pattern, symbols, worth, words))
    return sorted(valued, key=lambda value: value.worth <= 0)


def procedure_id(agent: str, project: str, symbols: Iterable[str]) -> str:
    """Return the id of the procedure with these steps in a scope."""
    identity = "\x1f".join((agent, project, *symbols))
    return "p_" + hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _build_procedure(
    valued: _ValuedPattern, profiles: Mapping[str, ToolProfile], agent: str, project: str
) -> Procedure:
    pattern, symbols = valued.pattern, valued.symbols
    steps = tuple(_build_step(symbol, symbols[:position], profiles) for position, symbol in enumerate(symbols))
    return Procedure(
        id=procedure_id(agent, project, symbols),
        title=" → ".join(display_name(step.symbol) + "+" * step.repeats for step in steps),
        steps=steps,
        support=pattern.support,
        people=pattern.people,
        rank=float(PublicationRule.rank(pattern.support, len(symbols))),
        gain=pattern.gain,
        worth=valued.worth,
        purpose=valued.purpose,
        success=_estimate_success(pattern, symbols, profiles),
        follows=_likely_followers(symbols, profiles),
        preconditions=_preconditions(steps, symbols, profiles),
        evidence=pattern.evidence(),
    )


def _build_step(symbol: str, earlier: Sequence[str], profiles: Mapping[str, ToolProfile]) -> ProcedureStep:
    """Return a step; `earlier` are the symbols of the steps before it."""
    profile = profiles.get(symbol, ToolProfile(symbol))
    command = ""
    if symbol.startswith(SHELL_PREFIX):
        command, _ = usual_command(symbol, profiles)
        paths = [f"${number}" for number in range(1, MAX_HOLES + 1) if f"<{number}>" in command]
    else:
        paths = profile.shapes[0][0] if profile.shapes else []
    arguments = tuple(_bind_argument(path, profile, earlier) for path in paths)
    return ProcedureStep(symbol, profile.tool or symbol, profile.repeats, arguments, command)


def _bind_argument(path: str, profile: ToolProfile, earlier: Sequence[str]) -> StepArgument:
    """Bind an argument: to a constant, else to an earlier step, else to a source that explains most of its uses."""
    reliable = [binding for binding in profile.bindings.get(path, []) if binding.is_reliable]
    uses = profile.arguments.get(path, 0)
    inner = [b for b in reliable if b.source and b.source in (earlier[-1:] if b.near else earlier)]
    outer = [b for b in reliable if b.explains(uses) and not b.near and b.source not in earlier]
    constants = [b for b in outer if b.kind == "constant"]
    best: Binding | None = next(iter(constants or inner or outer), None)
    if best is None:
        return StepArgument(path, "<free>")
    step = None
    if best.source in earlier:
        step = len(earlier) - 1 - list(reversed(earlier)).index(best.source)
    precision = round(best.precision, 4)
    return StepArgument(
        path, str(best), best.kind, precision, best.applicable, step, best.source, best.path, best.value
    )


def _estimate_success(pattern: Pattern, symbols: Iterable[str], profiles: Mapping[str, ToolProfile]) -> SuccessEstimate:
    succeeded, failed = pattern.outcomes
    basis = "tasks"
    if not succeeded + failed:
        succeeded, failed = count_outcomes(profiles, symbols)
        basis = "calls"
    return SuccessEstimate(1.0 + succeeded, 1.0 + failed, basis)


def _likely_followers(symbols: Sequence[str], profiles: Mapping[str, ToolProfile]) -> tuple[tuple[str, float], ...]:
    """Return what usually comes after the last two steps, else the last one, whatever happened since."""
    profile = profiles.get(symbols[-1])
    if profile is None:
        return ()
    for last_symbols in (tuple(symbols[-2:]), (symbols[-1],)):
        contexts = [context_key(*last_symbols, since) for since in SINCE_LAST_CALL]
        chances = sum(profile.chances.get(context, 0) for context in contexts)
        counts: dict[str, int] = {}
        for context in contexts:
            for symbol, count in profile.follows.get(context, []):
                counts[symbol] = counts.get(symbol, 0) + count
        shares = sorted(((count / chances, symbol) for symbol, count in counts.items()), key=lambda e: (-e[0], e[1]))
        if chances >= MIN_FOLLOW_CHANCES and shares:
            return tuple(
                (symbol, round(share, 4))
                for share, symbol in shares[:MAX_FOLLOWS]
                if share >= MIN_FOLLOW_SHARE and symbol_harm(symbol) is None
            )
    return ()


def _preconditions(
    steps: Sequence[ProcedureStep], symbols: Sequence[str], profiles: Mapping[str, ToolProfile]
) -> tuple[str, ...]:
    """Return the calls that bound arguments need, and those that errors taught to make first."""
    preconditions: list[str] = []
    for position, step in enumerate(steps):
        name = display_name(step.symbol)
        for argument in step.arguments:
            if argument.source and argument.step is None and argument.source != symbols[position]:
                preconditions.append(f"{argument.source} has run: {name} takes {argument.path} from it")
        profile = profiles.get(symbols[position])
        for earlier, roots in sorted(profile.fixed_by.items()) if profile else ():
            is_known = roots >= MIN_PRECONDITION_ROOTS and symbol_harm(earlier) is None
            if is_known and earlier not in symbols[:position]:
                preconditions.append(f"{display_name(earlier)} on the same thing before {name}, or it may fail")
    return tuple(dict.fromkeys(preconditions))
