"""Turn mined patterns into what is published of a scope: procedures with bound arguments, and tool profiles.

Pure: the same patterns and texts give the same procedures with the same ids. `publication_rule` decides which
patterns are published; of what is hostile to repeat none is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from consolidator.memory.calls.symbols import SHELL_PREFIX, display_name
from consolidator.memory.plain import Plain
from consolidator.memory.procedures.key_texts import KeyTexts
from consolidator.memory.procedures.patterns import MinedPatterns, Pattern
from consolidator.memory.procedures.publication_rule import (
    DEFAULT_RULE,
    MAX_TOLD,
    ProcedureSelection,
    PublicationRule,
    is_telling,
    measure_worth,
)
from consolidator.memory.procedures.tool_profiles import (
    Binding,
    ToolProfile,
    build_profiles,
    count_outcomes,
    usual_command,
)


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
class Procedure(Plain):
    """A closed contiguous pattern of steps that distinct sessions share."""

    id: str
    title: str
    steps: tuple[ProcedureStep, ...]
    support: int  # distinct lineage roots
    people: int  # whose sessions these are
    rank: float
    worth: float  # as `publication_rule` measures it; 0 where it is listed only on request
    success: SuccessEstimate
    evidence: tuple[tuple[str, int], ...]  # session and seq, the latest first

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols of its steps."""
        return tuple(step.symbol for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return the procedure as JSON."""
        values = super(Procedure, self).to_json()
        return {**values, "success": {**values["success"], "mean": self.success.mean}}


@dataclass(frozen=True, slots=True)
class PublishedScope:
    """What is published of one scope."""

    procedures: list[Procedure]  # best first
    profiles: dict[str, ToolProfile]  # by symbol


def publish_scope(
    mined: MinedPatterns, texts: KeyTexts, rule: PublicationRule = DEFAULT_RULE, *, agent: str = "", project: str = ""
) -> PublishedScope:
    """Return the procedures that the rule selects, best first, and the profiles of all symbols."""
    profiles = build_profiles(mined.key_sums, texts)
    tells = cache(lambda symbol: is_telling(symbol, profiles))
    selection = ProcedureSelection(rule, tells)
    is_harmful = cache(lambda symbol: symbol in profiles and profiles[symbol].find_harm(project or None) is not None)
    procedures: list[Procedure] = []
    worthy = 0
    for pattern, symbols, worth in _value_patterns(mined.patterns, texts, tells):
        if any(map(is_harmful, symbols)) or not selection.accept(symbols):
            continue
        worthy += worth > 0
        procedures.append(
            _build_procedure(pattern, symbols, worth if worthy <= MAX_TOLD else 0.0, profiles, agent, project)
        )
        if selection.is_full:
            break
    return PublishedScope(sorted(procedures, key=lambda procedure: -procedure.worth), profiles)


def _value_patterns(
    patterns: Iterable[Pattern], texts: KeyTexts, tells: Callable[[str], bool]
) -> list[tuple[Pattern, tuple[str, ...], float]]:
    """Return the patterns whose symbols have texts, with these and what telling them is worth, the worthiest first."""
    valued = []
    for pattern in patterns:
        symbols = tuple(filter(None, map(texts.text, pattern.symbols)))
        if len(symbols) == len(pattern.symbols):
            valued.append((pattern, symbols, measure_worth(symbols, pattern.support, pattern.cohesion, tells)))
    return sorted(valued, key=lambda value: -value[2])


def procedure_id(agent: str, project: str, symbols: Iterable[str]) -> str:
    """Return the id of the procedure with these steps in a scope."""
    identity = "\x1f".join((agent, project, *symbols))
    return "p_" + hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _build_procedure(
    pattern: Pattern,
    symbols: tuple[str, ...],
    worth: float,
    profiles: Mapping[str, ToolProfile],
    agent: str,
    project: str,
) -> Procedure:
    steps = tuple(_build_step(symbol, symbols[:position], profiles) for position, symbol in enumerate(symbols))
    return Procedure(
        id=procedure_id(agent, project, symbols),
        title=" → ".join(display_name(step.symbol) + "+" * step.repeats for step in steps),
        steps=steps,
        support=pattern.support,
        people=pattern.people,
        rank=float(pattern.support * (len(symbols) - 1)),
        worth=worth,
        success=_estimate_success(pattern, symbols, profiles),
        evidence=pattern.evidence(),
    )


def _build_step(symbol: str, earlier: Sequence[str], profiles: Mapping[str, ToolProfile]) -> ProcedureStep:
    """Return a step; `earlier` are the symbols of the steps before it."""
    profile = profiles.get(symbol, ToolProfile(symbol))
    if symbol.startswith(SHELL_PREFIX):
        return ProcedureStep(symbol, profile.tool or symbol, profile.repeats, (), usual_command(symbol, profiles)[0])
    paths = profile.shapes[0][0] if profile.shapes else []
    arguments = tuple(_bind_argument(path, profile, earlier) for path in paths)
    return ProcedureStep(symbol, profile.tool or symbol, profile.repeats, arguments)


def _bind_argument(path: str, profile: ToolProfile, earlier: Sequence[str]) -> StepArgument:
    """Bind an argument: to a constant, else to an earlier step, else to a source that explains most of its uses."""
    reliable = [binding for binding in profile.bindings.get(path, []) if binding.is_reliable]
    uses = profile.arguments.get(path, 0)
    inner = [b for b in reliable if b.source and b.source in earlier]
    outer = [b for b in reliable if b.explains(uses) and b.source not in earlier]
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
