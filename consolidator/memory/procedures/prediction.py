"""Predict the next call of an unfinished session, with its arguments filled in, and find the procedures that it is in.

Pure: reads tool profiles, published procedures, and a digest that was folded with clear values.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from consolidator.memory.calls.columns import Scalar, flatten, unflatten
from consolidator.memory.calls.harm import find_harm, symbol_harm
from consolidator.memory.calls.symbols import display_name
from consolidator.memory.procedures.bindings import BindingFold, first_unused
from consolidator.memory.procedures.digest import SAME_CALL, SAME_TOOL, START, Digest
from consolidator.memory.procedures.tool_profiles import MIN_ROOTS, Binding, ToolProfile, context_key
from consolidator.models.procedure import ProcedureRow

MIN_GENERAL_SHARE = 0.3  # of a tool's sessions must use a value that other sessions may be filled with
MIN_CHANCES = 2  # a context seen less often predicts nothing
FREE = "…"  # stands for an argument that nothing predicts
_CONTEXT_PRIOR = 5.0  # a context seen n times gets the weight n / (n + prior); the next shorter one gets the rest


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A call that may come next."""

    tool: str
    symbol: str
    arguments: Any
    likelihood: float  # that this tool comes next
    confidence: float  # that the whole call is right; 0 where an argument is free
    why: str
    free: tuple[str, ...] = ()  # arguments that nothing predicts


class PredictedValue(NamedTuple):
    """The value that an argument is predicted to have."""

    column: list[Scalar] | None  # None where nothing predicts it; one element, or those of a list
    confidence: float
    source: str  # where the value comes from, for people; "" for a constant


@dataclass(frozen=True, slots=True)
class _FilledArguments:
    arguments: Any
    confidence: float
    why: str
    free: tuple[str, ...]


_UNPREDICTED = PredictedValue(None, 0.0, "")


def predict_next_calls(profiles: Mapping[str, ToolProfile], digest: Digest, limit: int = 5) -> list[Suggestion]:
    """Return the calls that may come next, the most confident first; none that is under way with the same arguments."""
    suggestions = []
    under_way = [(call["tool"], call["arguments"]) for call in digest.pairer.pending]
    repetition = _find_repetition(profiles, digest)
    for symbol, likelihood, after in _next_symbols(profiles, digest, repetition):
        profile = profiles.get(symbol, ToolProfile(symbol))
        tool, filled = profile.tool, _fill_arguments(profile, digest.bindings)
        if symbol == digest.last_symbol and digest.last_call is not None:
            last_tool, arguments = digest.last_call
            tool = tool or last_tool
            if repetition.same_arguments > filled.confidence:
                filled = _FilledArguments(arguments, repetition.same_arguments, "the same call again", ())
            elif not profile.shapes:
                filled = _leave_free(arguments)
        if not tool:
            continue
        if (tool, filled.arguments) in under_way:
            filled = _leave_free(filled.arguments)
        if symbol_harm(symbol) or find_harm(tool, filled.arguments):
            continue
        why = f"{likelihood:.0%} after {after}" + (f"; {filled.why}" if filled.why else "")
        confidence = likelihood * filled.confidence
        suggestions.append(Suggestion(tool, symbol, filled.arguments, likelihood, confidence, why, filled.free))
    suggestions.sort(key=lambda suggestion: (-suggestion.confidence, -suggestion.likelihood, suggestion.symbol))
    return suggestions[:limit]


class _Repetition(NamedTuple):
    """How often a call, whatever it is, follows itself."""

    same_tool: float
    same_arguments: float  # where it is the same tool


def _find_repetition(profiles: Mapping[str, ToolProfile], digest: Digest) -> _Repetition:
    context = context_key(START, digest.repetition_context)
    profile = profiles.get(START)
    chances = profile.chances.get(context, 0) if profile else 0
    if profile is None or chances < MIN_CHANCES:
        return _Repetition(0.0, 0.0)
    counts = dict(profile.follows[context])
    same_tool, same_call = counts.get(SAME_TOOL, 0), counts.get(SAME_CALL, 0)
    return _Repetition(same_tool / chances, same_call / max(same_tool, 1))


def _next_symbols(
    profiles: Mapping[str, ToolProfile], digest: Digest, repetition: _Repetition
) -> list[tuple[str, float, str]]:
    """Return the symbols that may follow, each with its likelihood and the last symbol for people.

    Blends contexts, the longest first; each counts for as much as it was seen. What is left goes to the last symbol.
    """
    before_last, last = (step.symbol for step in digest.last_steps)
    since = digest.since_last_call
    profile = profiles.get(digest.last_symbol, ToolProfile(digest.last_symbol))
    likelihoods: dict[str, float] = {}
    remaining = 1.0
    contexts = (
        *([context_key(last, digest.said_context)] if since == "user" else ()),
        context_key(before_last, last, since),
        context_key(last, since),
        *(context_key(last, other) for other in ("", "user") if other != since),
    )
    for context in contexts:
        chances = profile.chances.get(context, 0)
        if chances < MIN_CHANCES:
            continue
        weight = chances / (chances + _CONTEXT_PRIOR)
        for symbol, count in profile.follows[context]:
            likelihoods[symbol] = likelihoods.get(symbol, 0.0) + remaining * weight * count / chances
        remaining *= 1 - weight
    if repetition.same_tool:
        likelihoods[digest.last_symbol] = likelihoods.get(digest.last_symbol, 0.0) + remaining * repetition.same_tool
    after = "the start" if last == START else last.replace("!", " (failed)")
    return [(symbol, likelihood, after) for symbol, likelihood in likelihoods.items()]


def _leave_free(arguments: Any) -> _FilledArguments:
    """Return a call of the same form with every argument free."""
    paths = tuple(flatten(arguments))
    columns: list[tuple[str, list[Scalar]]] = [(path, [FREE]) for path in paths]
    return _FilledArguments(FREE if paths == ("",) else unflatten(columns), 0.0, "", paths)


def _fill_arguments(profile: ToolProfile, bindings: BindingFold) -> _FilledArguments:
    if not profile.shapes:
        return _FilledArguments({}, 0.0, "", ())
    paths, shape_count = profile.shapes[0]
    confidence = shape_count / max(profile.calls, 1)
    columns: list[tuple[str, list[Scalar]]] = []
    free: list[str] = []
    sources: list[str] = []
    for path in paths:
        column, probability, source = predict_argument(profile, path, bindings)
        if column is None:
            free.append(path)
            column = [FREE]
        elif source:
            sources.append(f"{path} from {source}")
        confidence *= probability
        columns.append((path, column))
    arguments = unflatten(columns)
    if isinstance(arguments, dict) and list(arguments) == [""]:
        arguments = arguments[""]
    return _FilledArguments(arguments, confidence if arguments is not None else 0.0, "; ".join(sources), tuple(free))


def predict_argument(profile: ToolProfile, path: str, bindings: BindingFold) -> PredictedValue:
    """Return the value that an argument would have if this tool came next."""
    used = bindings.used(profile.symbol, path)
    for binding in profile.bindings.get(path, []):
        column = _apply_binding(binding, profile, path, bindings, used)
        if column is not None:
            return PredictedValue(column, binding.precision, "" if binding.kind == "constant" else str(binding))
    return _UNPREDICTED


def _apply_binding(
    binding: Binding, profile: ToolProfile, path: str, bindings: BindingFold, used: Container[int]
) -> list[Scalar] | None:
    """Return the value that a binding gives now, or None where it does not apply.

    A constant that may identify a person or case applies where this session gave it.
    """
    if binding.kind == "constant":
        constant: list[Scalar] = list(binding.value) if "[]" in path else [binding.value]
        is_frequent = binding.roots >= max(MIN_ROOTS, MIN_GENERAL_SHARE * profile.roots)
        is_general = not binding.is_case_value and is_frequent
        return constant if is_general or bindings.knows(constant) else None
    clear_values = bindings.clear_values or {}
    if binding.kind == "user":
        word = bindings.find_user_word(binding.path, used)
        return [clear_values[word]] if word in clear_values else None
    source = bindings.sources.get(binding.source)
    if source is None:
        return None
    column = source.paths.get(("<" if binding.kind == "argument" else ">") + binding.path)
    if not column:
        return None
    if "[]" in path:
        return [clear_values[value] for value in column] if all(value in clear_values for value in column) else None
    value = first_unused(column, used)
    return [clear_values[value]] if value in clear_values else None


MIN_MATCH = 2  # calls in a row that say which procedure it is
_FREE = re.compile(r"<free>")


@dataclass(frozen=True, slots=True)
class ProcedureUnderWay:
    """A procedure of which the recent calls are a part."""

    procedure: ProcedureRow
    left: tuple[str, ...]  # the steps that follow, for people: the command where it is known, else the symbol
    matched: int  # recent calls that are steps of it


def find_procedures_under_way(procedures: Iterable[ProcedureRow], symbols: Sequence[str]) -> list[ProcedureUnderWay]:
    """Return the procedures that go on after these symbols, the latest last: those with the longest match first."""
    recent = [symbol for symbol, _ in groupby(symbols)]
    found = []
    for procedure in procedures:
        steps = [step["symbol"] for step in procedure.body["steps"]]
        matched, end = max(((_match_before(steps, end, recent), end) for end in range(1, len(steps))), default=(0, 0))
        left = procedure.body["steps"][end:]
        if matched >= MIN_MATCH and not procedure.mostly_fails:
            names = [_FREE.sub("…", step.get("command") or display_name(step["symbol"])) for step in left]
            found.append(ProcedureUnderWay(procedure, tuple(names), matched))
    return sorted(found, key=lambda under_way: (-under_way.matched, -under_way.procedure.support))


def _match_before(steps: Sequence[str], end: int, recent: Sequence[str]) -> int:
    """Return how many of the recent symbols, from the last one back, are the steps before a position."""
    matched = 0
    while matched < min(end, len(recent)) and steps[end - 1 - matched] == recent[-1 - matched]:
        matched += 1
    return matched
