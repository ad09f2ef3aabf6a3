"""Turns a tally into what is published: procedures with bound arguments, and a profile of each tool.

Pure: the same tally and terms give the same procedures with the same ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from consolidator.memory.calls.shell_programs import CHANGING, GENERIC_PROGRAMS, GENERIC_TOOLS
from consolidator.memory.calls.symbols import SHELL_PREFIX
from consolidator.memory.procedures.key_texts import KeyTexts
from consolidator.memory.procedures.patterns import MinedPatterns, Pattern
from consolidator.memory.procedures.tool_profiles import ToolProfile, build_profiles, context_key, count_outcomes

MOST = 50  # procedures of one scope
TOO_ALIKE = 0.6  # share of steps that two procedures may have in common, in order
FIX_ROOTS = 2  # sessions in which an error taught a precondition
REPEATED = 3  # roots in which a whole command repeats before it is a constant


@dataclass(frozen=True, slots=True)
class StepArgument:
    """An argument of a step: a template with where it comes from, or free."""

    path: str
    text: str  # for people: "the last Read(file_path)", '"main"', "<free>"
    kind: str = "free"  # constant | argument | result | user | free
    precision: float = 0.0
    n: int = 0
    step: int | None = None  # the step of this procedure that it comes from, from 0
    source: str = ""
    source_path: str = ""
    value: Any = None


@dataclass(frozen=True, slots=True)
class ProcedureStep:
    """A step: a tool, or a program run by one, with its arguments."""

    symbol: str
    tool: str
    repeats: bool  # several times in a row
    arguments: tuple[StepArgument, ...]
    command: str = ""  # of a shell step: the command where it repeats, else its usual template


@dataclass(frozen=True, slots=True)
class SuccessEstimate:
    """Beta posterior of the outcome: of the sessions' tasks where a log tells it, else of the steps' calls."""

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
    support: int
    rank: float
    success: SuccessEstimate
    follows: tuple[tuple[str, float], ...]  # what usually comes next, with its share
    preconditions: tuple[str, ...]
    evidence: tuple[tuple[str, int], ...]  # session and seq, the latest first

    def to_json(self) -> dict[str, Any]:
        """Return the procedure as JSON."""
        steps = [{**_plain(step), "arguments": [_plain(one) for one in step.arguments]} for step in self.steps]
        return {**_plain(self), "steps": steps, "success": {**_plain(self.success), "mean": self.success.mean}}


def _plain(value: StepArgument | ProcedureStep | SuccessEstimate | Procedure) -> dict[str, Any]:
    """Return the fields of a value; `dataclasses.asdict` would copy all that is in them."""
    return {name: getattr(value, name) for name in _FIELDS[type(value)]}


_FIELDS = {
    kind: tuple(one.name for one in fields(kind)) for kind in (StepArgument, ProcedureStep, SuccessEstimate, Procedure)
}


@dataclass(frozen=True, slots=True)
class PublishedScope:
    """What the nights have learned from the calls of one scope."""

    procedures: list[Procedure]
    profiles: dict[str, ToolProfile]


def publish_scope(
    tally: MinedPatterns, names: KeyTexts, *, agent: str = "", project: str = "", most: int = MOST
) -> PublishedScope:
    """Return the procedures worth having, best first, and the profiles of all tools.

    Patterns with a symbol that has no name are left out.
    """
    profiles = build_profiles(tally.key_sums, names)
    telling = _TitleWords(profiles)
    chosen = _Chosen()
    procedures = []
    short: dict[str, str] = {}
    for pattern in tally.patterns:
        symbols = tuple(filter(None, map(names.text, pattern.symbols)))
        if len(symbols) < len(pattern.symbols) or not telling.tells(symbols):
            continue
        if not chosen.take(tuple(short.get(name) or short.setdefault(name, _short(name)) for name in symbols)):
            continue
        procedures.append(_procedure(symbols, pattern, profiles, f"{agent}\x1f{project}"))
        if len(procedures) >= most:
            break
    return PublishedScope(procedures, profiles)


class _TitleWords:
    """Tells whether a pattern says what it is for; what there is to know of each symbol is found out once."""

    def __init__(self, profiles: Mapping[str, ToolProfile]) -> None:
        self._profiles = profiles
        self._known: dict[str, tuple[bool, bool]] = {}  # whether it tells something itself, whether it acts

    def tells(self, symbols: Sequence[str]) -> bool:
        """At least two steps that act and one of them no file tool; or a result that one step hands to the next."""
        acting, telling = set(), False
        for symbol in symbols:
            tells, acts = self._known.get(symbol) or self._learn(symbol)
            telling = telling or tells
            if acts:
                acting.add(symbol)
        return len(acting) >= 2 if telling else self._handed_on(symbols)

    def _learn(self, symbol: str) -> tuple[bool, bool]:
        tells = not _generic(symbol, self._profiles)
        self._known[symbol] = known = (tells, tells or _changes(symbol))
        return known

    def _handed_on(self, symbols: Sequence[str]) -> bool:
        for position, symbol in enumerate(symbols):
            profile = self._profiles.get(symbol)
            for path in profile.bindings if profile else ():
                binding = profile.binding(path) if profile else None
                if binding is not None and binding.kind == "result" and binding.source in symbols[:position]:
                    return True
        return False


class _Chosen:
    """The patterns that were chosen so far, none of them a near-copy of a better one."""

    def __init__(self) -> None:
        self._bits: dict[str, int] = {}  # a bit for each symbol
        self._taken: list[tuple[tuple[str, ...], int, float]] = []  # with how much is too much to have in common

    def take(self, pattern: tuple[str, ...]) -> bool:
        """Take a pattern, unless it says nothing new."""
        mine = 0
        for symbol in pattern:
            mine |= self._bits.setdefault(symbol, 1 << len(self._bits))
        kinds, reach = mine.bit_count(), TOO_ALIKE * len(pattern)
        if kinds < 2:
            return False
        repeats = len(pattern) - kinds
        for other, theirs, theirs_reach in self._taken:
            shared = mine & theirs
            # Most have too little in common to be looked at: no more steps than shared symbols, and repeats.
            most = shared.bit_count() + repeats
            if (shared == mine or (most > reach and most > theirs_reach)) and _alike(pattern, other):
                return False
        self._taken.append((pattern, mine, reach))
        return True


def _generic(symbol: str, profiles: Mapping[str, ToolProfile]) -> bool:
    """Whether a symbol is a file tool that says nothing of what it is for."""
    if not symbol.startswith(SHELL_PREFIX):
        return symbol.rsplit("__", 1)[-1].lower() in GENERIC_TOOLS
    if symbol.removeprefix(SHELL_PREFIX).split(" ")[0] not in GENERIC_PROGRAMS:
        return False
    return _command(symbol, profiles)[1] is not True


def _changes(symbol: str) -> bool:
    """Whether a symbol is a file tool that changes something."""
    if symbol.startswith(SHELL_PREFIX):
        return symbol.removeprefix(SHELL_PREFIX).split(" ")[0] in CHANGING or symbol.endswith(" >")
    return symbol.rsplit("__", 1)[-1].lower() in CHANGING


@lru_cache(maxsize=1 << 16)  # the scopes of an agent have much the same patterns
def _alike(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether a pattern is a near-copy of a better one."""
    if sorted(one) == sorted(other) or _within(one, other):
        return True
    shared = _common(one, other)
    return shared >= 2 and shared / max(len(one), len(other)) > TOO_ALIKE


def _within(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return any(other[start : start + len(one)] == one for start in range(len(other) - len(one) + 1))


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Return the length of the longest common subsequence."""
    row = [0] * (len(other) + 1)
    for left in one:
        above = 0
        for position, right in enumerate(other, 1):
            below = row[position]
            if left == right:
                row[position] = above + 1
            elif row[position - 1] > below:
                row[position] = row[position - 1]
            above = below
    return row[-1]


def _procedure(
    symbols: tuple[str, ...], pattern: Pattern, profiles: Mapping[str, ToolProfile], scope: str
) -> Procedure:
    steps = tuple(_step(symbol, symbols[:position], profiles) for position, symbol in enumerate(symbols))
    name = "\x1f".join((scope, *symbols))
    return Procedure(
        id="p_" + hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest(),
        title=" → ".join(_short(step.symbol) + "+" * step.repeats for step in steps),
        steps=steps,
        support=pattern.support,
        rank=float(pattern.support * (len(symbols) - 1)),
        success=_success(pattern, symbols, profiles),
        follows=_follows(symbols, profiles),
        preconditions=_preconditions(steps, symbols, profiles),
        evidence=pattern.evidence(),
    )


def _step(symbol: str, before: Sequence[str], profiles: Mapping[str, ToolProfile]) -> ProcedureStep:
    profile = profiles.get(symbol, ToolProfile(symbol))
    if not symbol.startswith(SHELL_PREFIX):
        paths = profile.shapes[0][0] if profile.shapes else []
        arguments = tuple(_argument(path, profile, before) for path in paths)
        return ProcedureStep(symbol, profile.tool or symbol, profile.repeats, arguments)
    command, _ = _command(symbol, profiles)
    holes = [f"${number}" for number in range(1, 5) if f"<{number}>" in command]
    arguments = tuple(_argument(path, profile, before) for path in holes)
    return ProcedureStep(symbol, profile.tool or symbol, profile.repeats, arguments, command)


def _command(symbol: str, profiles: Mapping[str, ToolProfile]) -> tuple[str, bool]:
    """Return a program's command line and True where it is always the same, else its usual use, else `<free>`."""
    profile = profiles.get(symbol)
    if profile is not None:
        for path in ("command", "$usage"):
            for one in profile.bindings.get(path, []):
                if one.kind == "constant" and one.roots >= REPEATED and (one.kept or path == "$usage"):
                    return str(one.value), path == "command"
    return f"{_short(symbol)} <free>", False


def _argument(path: str, profile: ToolProfile, before: Sequence[str]) -> StepArgument:
    """Bind an argument: to a constant, to what an earlier step hands on, or to a source that explains most uses."""
    kept = [binding for binding in profile.bindings.get(path, []) if binding.kept]
    given = profile.arguments.get(path, 0)
    inner = [one for one in kept if one.source and one.source in (before[-1:] if one.near else before)]
    outer = [one for one in kept if one.explains(given) and not one.near and one.source not in before]
    constant = [one for one in outer if one.kind == "constant"]
    best = next(iter(constant or inner or outer), None)
    if best is None:
        return StepArgument(path, "<free>")
    step = None
    if best.source in before:
        step = len(before) - 1 - list(reversed(before)).index(best.source)
    precision = round(best.precision, 4)
    return StepArgument(
        path, str(best), best.kind, precision, best.applicable, step, best.source, best.path, best.value
    )


def _success(pattern: Pattern, symbols: Iterable[str], profiles: Mapping[str, ToolProfile]) -> SuccessEstimate:
    succeeded, fell_short = pattern.outcomes
    if succeeded + fell_short:
        return SuccessEstimate(1.0 + succeeded, 1.0 + fell_short, "tasks")
    worked, failed = count_outcomes(profiles, symbols)
    return SuccessEstimate(1.0 + worked, 1.0 + failed, "calls")


def _follows(symbols: Sequence[str], profiles: Mapping[str, ToolProfile]) -> tuple[tuple[str, float], ...]:
    """Return what usually comes after the last steps, whether or not the user spoke in between."""
    profile = profiles.get(symbols[-1])
    if profile is None:
        return ()
    for parts in (tuple(symbols[-2:]), (symbols[-1],)):
        names = [context_key(*parts, ""), context_key(*parts, "user")]
        chances = sum(profile.chances.get(name, 0) for name in names)
        sums: dict[str, int] = {}
        for name in names:
            for symbol, count in profile.follows.get(name, []):
                sums[symbol] = sums.get(symbol, 0) + count
        found = sorted(((count / chances, symbol) for symbol, count in sums.items()), key=lambda e: (-e[0], e[1]))
        if chances >= 3 and found:
            return tuple((symbol, round(share, 4)) for share, symbol in found[:3] if share >= 0.1)
    return ()


def _preconditions(
    steps: Sequence[ProcedureStep], symbols: Sequence[str], profiles: Mapping[str, ToolProfile]
) -> tuple[str, ...]:
    """Return the producers that bound arguments need, and what errors taught to do first."""
    found: list[str] = []
    for position, step in enumerate(steps):
        for argument in step.arguments:
            if argument.source and argument.step is None and argument.source != symbols[position]:
                found.append(f"{argument.source} has run: {_short(step.symbol)} takes {argument.path} from it")
        profile = profiles.get(symbols[position])
        for before, roots in sorted(profile.fixed_by.items()) if profile else ():
            if roots >= FIX_ROOTS and before not in symbols[:position]:
                found.append(f"{_short(before)} on the same thing before {_short(step.symbol)}, or it may fail")
    return tuple(dict.fromkeys(found))


def _short(symbol: str) -> str:
    return symbol.removeprefix(SHELL_PREFIX)
