"""What usually follows: the next call of an unfinished session, with its arguments filled in.

Pure: takes profiles and a digest that was folded with clear values, and touches no database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from consolidator.memory.calls.columns import Scalar, unflatten
from consolidator.memory.calls.command_templates import count_holes, fill_template
from consolidator.memory.calls.symbols import SHELL_PREFIX
from consolidator.memory.procedures.bindings import BindingFold, first_unused
from consolidator.memory.procedures.digest import Digest
from consolidator.memory.procedures.tool_profiles import Binding, ToolProfile, context_key

MIN_CHANCES = 2  # a context seen less often is too thin to speak
FREE = "…"  # stands for an argument that nothing predicts


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


@dataclass(frozen=True, slots=True)
class _Filled:
    arguments: Any
    sure: float
    why: str
    free: tuple[str, ...]


def predict_next_calls(profiles: Mapping[str, ToolProfile], digest: Digest, most: int = 5) -> list[Suggestion]:
    """Return what may come next, the surest whole call first."""
    found = []
    for symbol, share, after in _following(profiles, digest):
        profile = profiles.get(symbol)
        if profile is None or not profile.tool:
            continue
        filled = _fill(profile, digest.bindings)
        why = f"{share:.0%} after {after}" + (f"; {filled.why}" if filled.why else "")
        sure = share * filled.sure
        found.append(Suggestion(profile.tool, symbol, filled.arguments, share, sure, why, filled.free))
    found.sort(key=lambda one: (-one.confidence, -one.likelihood, one.symbol))
    return found[:most]


def _following(profiles: Mapping[str, ToolProfile], digest: Digest) -> list[tuple[str, float, str]]:
    """Return the symbols that follow the longest context seen often enough, with their shares."""
    before, last = digest.previous
    spoken = "user" if digest.user_spoke else ""
    profile = profiles.get(last.removesuffix("!"))
    if profile is None:
        return []
    blended: dict[str, float] = {}
    weight = 1.0
    for name in (
        context_key(before, last, spoken),
        context_key(last, spoken),
        context_key(last, "" if spoken else "user"),
    ):
        chances = profile.chances.get(name, 0)
        if chances < MIN_CHANCES:
            continue
        share = chances / (chances + 5.0)  # the longer context speaks for as much as it was seen
        for symbol, count in profile.follows[name]:
            blended[symbol] = blended.get(symbol, 0.0) + weight * share * count / chances
        weight *= 1 - share
    after = "the start" if last == "^" else last.replace("!", " (failed)")
    return [(symbol, share, after) for symbol, share in blended.items()]


def _fill(profile: ToolProfile, bindings: BindingFold) -> _Filled:
    best = _from_parts(profile, bindings)
    for value, count, roots in profile.whole:
        share = count / max(profile.calls, 1)
        if share > best.sure and roots >= 2:
            best = _Filled(value, share, f"the same arguments {count} of {profile.calls} times", ())
    return best


def _from_parts(profile: ToolProfile, bindings: BindingFold) -> _Filled:
    if not profile.shapes:
        return _Filled({}, 0.0, "", ())
    paths, often = profile.shapes[0]
    sure = often / max(profile.calls, 1)
    parts: list[tuple[str, list[Scalar]]] = []
    free: list[str] = []
    whys: list[str] = []
    for path in paths:
        value, chance, why = predict_argument(profile, path, bindings)
        if value is None:
            free.append(path)
            value = [FREE]
        elif why:
            whys.append(f"{path} from {why}")
        sure *= chance
        parts.append((path, value))
    arguments = unflatten(parts)
    if isinstance(arguments, dict) and list(arguments) == [""]:
        arguments = arguments[""]
    return _Filled(arguments, sure if arguments is not None else 0.0, "; ".join(whys), tuple(free))


def _command(profile: ToolProfile, bindings: BindingFold) -> tuple[list[Scalar] | None, float, str]:
    """Fill the usual template of a command with operands from earlier."""
    best: tuple[list[Scalar] | None, float, str] = (None, 0.0, "")
    for binding in profile.bindings.get("$", []):
        pattern = str(binding.value)
        operands = [_bound(profile, f"${number}", bindings) for number in range(1, count_holes(pattern) + 1)]
        if not operands or binding.kind != "constant" or any(value is None for value, _, _ in operands):
            continue
        sure = binding.precision
        for _, chance, _ in operands:
            sure *= chance
        if sure > best[1]:
            words = [str(value[0]) for value, _, _ in operands if value]
            best = ([fill_template(pattern, words)], sure, operands[0][2])
    return best


def predict_argument(profile: ToolProfile, path: str, bindings: BindingFold) -> tuple[list[Scalar] | None, float, str]:
    """Return the value an argument would have if this tool came next, how sure it is, and where it comes from."""
    found = _bound(profile, path, bindings)
    if path == "command" and profile.symbol.startswith(SHELL_PREFIX):
        return max(found, _command(profile, bindings), key=lambda one: one[1])
    return found


def _bound(profile: ToolProfile, path: str, fold: BindingFold) -> tuple[list[Scalar] | None, float, str]:
    """Return the value that the best applicable binding gives, how sure it is, and where it comes from."""
    used = fold.used.get(f"{profile.symbol} {path}", {})
    for binding in profile.bindings.get(path, []):
        found = _resolve(binding, path, fold, used)
        if found is not None:
            return found, binding.precision, "" if binding.kind == "constant" else str(binding)
    return None, 0.0, ""


def _resolve(binding: Binding, path: str, fold: BindingFold, used: Mapping[int, None]) -> list[Scalar] | None:
    if binding.kind == "constant":
        return list(binding.value) if "[]" in path else [binding.value]
    values = fold.values or {}
    if binding.near and binding.source != fold.latest_tool:
        return None
    if binding.kind == "user":
        word = fold.word(binding.path, used)
        return [values[word]] if word in values else None
    source = fold.sources.get(binding.source)
    if source is None:
        return None
    column = source.paths.get(("<" if binding.kind == "argument" else ">") + binding.path)
    if not column:
        return None
    if "[]" in path:
        return [values[value] for value in column] if all(value in values for value in column) else None
    chosen = first_unused(column, used)
    return [values[chosen]] if chosen in values else None
