"""How an agent uses each tool: usual arguments, where their values come from, and what usually follows.

Pure: reads sums by the terms that name them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

from consolidator.memory.procedures.key_counts import hash_key
from consolidator.memory.procedures.key_sums import KeySums
from consolidator.memory.procedures.key_texts import KeyTexts

KEPT_PRECISION = 0.6  # of a binding that is published
KEPT_ROOTS = 3
MAX_BINDINGS = 12  # candidates kept of one argument, for prediction
MAX_CHOICES = 12


@dataclass(frozen=True, slots=True)
class Binding:
    """Where an argument's value comes from."""

    kind: str  # constant | argument | result | user
    precision: float  # hits / applicable
    hits: int
    applicable: int
    roots: int
    source: str = ""  # the tool it comes from
    path: str = ""  # in its arguments or result; of `user` the shape of the word
    value: Any = None  # of a constant
    near: bool = False  # counted only where the source was the call just before

    def explains(self, given: int) -> bool:
        """Whether it is sure enough, and explains a good part of all uses of its argument."""
        return self.kept and self.hits >= 0.4 * given

    @property
    def kept(self) -> bool:
        """Whether it is sure enough to be told."""
        return self.roots >= KEPT_ROOTS and self.precision >= KEPT_PRECISION

    def __str__(self) -> str:
        if self.kind == "constant":
            return json.dumps(self.value, ensure_ascii=False)
        if self.kind == "user":
            return "the user's words"
        if self.kind == "argument":
            where = f"{self.source}({self.path})"
            return f"{where} just before" if self.near else f"the last {where}"
        return f"{self.source} → {self.path or 'result'}"


@dataclass(slots=True)
class ToolProfile:
    """How one tool is used."""

    symbol: str
    tool: str = ""  # the real tool's name; for "sh:git push" the shell
    calls: int = 0
    failed: int = 0
    steps: int = 0  # how often it stands in the cleaned sequences
    runs: int = 0  # of these, how often several times in a row
    roots: int = 0
    shapes: list[tuple[list[str], int]] = field(default_factory=list)  # argument paths, how often
    whole: list[tuple[Any, int, int]] = field(default_factory=list)  # whole arguments, how often, in how many roots
    arguments: dict[str, int] = field(default_factory=dict)  # path -> how often it was given
    bindings: dict[str, list[Binding]] = field(default_factory=dict)  # path -> candidates, best first
    follows: dict[str, list[tuple[str, int]]] = field(default_factory=dict)  # context -> symbols and how often
    chances: dict[str, int] = field(default_factory=dict)  # context -> how often it was seen
    fixed_by: dict[str, int] = field(default_factory=dict)  # what had to be done before -> in how many roots

    @property
    def repeats(self) -> bool:
        """Whether it is usually called several times in a row."""
        return 2 * self.runs > self.steps

    def binding(self, path: str) -> Binding | None:
        """Return the best binding of an argument that is sure enough to be told."""
        return next((binding for binding in self.bindings.get(path, []) if binding.kept), None)

    def to_json(self) -> dict[str, Any]:
        """Return the profile as JSON, which shares its lists."""
        told = {name: getattr(self, name) for name in _PROFILE}
        return {**told, "bindings": {path: list(map(_told, found)) for path, found in self.bindings.items()}}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> ToolProfile:
        """Read what `to_json` returned."""
        bindings = {path: [Binding(**one) for one in found] for path, found in state["bindings"].items()}
        shapes = [(paths, count) for paths, count in state["shapes"]]
        whole = [(value, count, roots) for value, count, roots in state["whole"]]
        follows = {context: [(name, count) for name, count in found] for context, found in state["follows"].items()}
        return cls(**{**state, "bindings": bindings, "shapes": shapes, "whole": whole, "follows": follows})


_PROFILE = tuple(one.name for one in fields(ToolProfile))


def _told(one: Binding) -> dict[str, Any]:
    """Return a binding's fields; written out, since there are thousands of them a night."""
    return {
        "kind": one.kind,
        "precision": one.precision,
        "hits": one.hits,
        "applicable": one.applicable,
        "roots": one.roots,
        "source": one.source,
        "path": one.path,
        "value": one.value,
        "near": one.near,
    }


def context_key(*parts: str) -> str:
    """Return the name of what came before: symbols oldest first, and "user" where the user has spoken since."""
    return "\n".join(parts)


class _Builder:
    """Sorts the named sums by tool."""

    def __init__(self, sums: KeySums, recurring: KeySums) -> None:
        self.everything = sums
        self.sums = recurring
        self.profiles: dict[str, ToolProfile] = {}
        self.follows: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
        self.hits: list[tuple[str, list[Any], int, int]] = []

    def take(self, term: list[Any], total: int, roots: int) -> None:
        """Take one sum."""
        kind, *rest = term
        if kind == "next":
            self.follows[tuple(rest[:-1])].append((rest[-1], total))
        elif kind in ("hit", "word", "const"):
            self.hits.append((kind, rest, total, roots))
        else:
            self._profile(kind, rest, total, roots)

    def _profile(self, kind: str, rest: list[Any], total: int, roots: int) -> None:
        profile = self.profiles.setdefault(rest[0], ToolProfile(rest[0]))
        if kind == "tool":
            profile.tool = max(profile.tool, rest[1])
            profile.calls += total
            profile.roots = max(profile.roots, roots)
        elif kind == "step":
            profile.steps = total
        elif kind == "run":
            profile.runs = total
        elif kind == "shape":
            profile.shapes.append((rest[1].split("\n") if rest[1] else [], total))
        elif kind == "call":
            profile.whole.append((rest[1], total, roots))
        elif kind == "arg":
            profile.arguments[rest[1]] = total
        elif kind == "fixed":
            profile.fixed_by[rest[1]] = roots

    def finish(self) -> dict[str, ToolProfile]:
        """Return the profiles, everything in them sorted by content."""
        chances = self.sums.totals_of([_chances(kind, rest) for kind, rest, _, _ in self.hits])
        for (kind, rest, total, roots), seen in zip(self.hits, chances, strict=True):
            self._bind(kind, rest, total, roots, max(seen, total))
        contexts = sorted(self.follows.items())
        chances = self.sums.totals_of([_known_hash(("after", *parts)) for parts, _ in contexts])
        for (parts, found), seen in zip(contexts, chances, strict=True):
            last, name = parts[-2].removesuffix("!"), context_key(*parts)
            profile = self.profiles.setdefault(last, ToolProfile(last))
            profile.follows[name] = sorted(found, key=lambda entry: (-entry[1], entry[0]))[:MAX_CHOICES]
            profile.chances[name] = max(seen, sum(count for _, count in found))
        # A failure counts though it does not recur, as the call that failed does.
        failed = self.everything.totals_of([_known_hash(("failed", symbol)) for symbol in self.profiles])
        for profile, total in zip(self.profiles.values(), failed, strict=True):
            profile.failed = total
        for profile in self.profiles.values():
            profile.shapes = sorted(profile.shapes, key=lambda entry: (-entry[1], entry[0]))[:MAX_CHOICES]
            profile.whole = sorted(profile.whole, key=lambda entry: (-entry[1], _ordered(entry[0])))[:MAX_CHOICES]
            for path, bindings in profile.bindings.items():
                bindings.sort(key=lambda b: (-_worth(b), b.near, b.kind, b.source, b.path, _ordered(b.value)))
                profile.bindings[path] = bindings[:MAX_BINDINGS]
        return dict(sorted(self.profiles.items()))

    def _bind(self, kind: str, rest: list[Any], total: int, roots: int, chances: int) -> None:
        symbol, path = rest[0], rest[1]
        profile = self.profiles.get(symbol)
        if profile is None or path not in profile.arguments:
            return
        given = profile.arguments[path]
        if kind == "const":
            binding = Binding("constant", total / given, total, given, roots, value=rest[2])
        elif kind == "word":
            binding = Binding("user", total / chances, total, chances, roots, path=rest[2])
        else:
            near = len(rest) > 4
            place = "argument" if rest[3][0] == "<" else "result"
            binding = Binding(
                place, total / chances, total, chances, roots, source=rest[2], path=rest[3][1:], near=near
            )
        profile.bindings.setdefault(path, []).append(binding)


def _chances(kind: str, rest: list[Any]) -> int:
    """Return the key of how often a binding could have been seen; a constant could wherever its argument is given."""
    if kind == "const":
        return 0
    return _known_hash(("said", *rest[:3]) if kind == "word" else ("use", *rest[:3], *rest[4:]))


_known_hash = lru_cache(maxsize=1 << 16)(hash_key)  # the scopes of an agent ask for much the same


def _worth(binding: Binding) -> float:
    """Return a cautious precision, so that few chances count less than many."""
    return (binding.hits + 0.5) / (binding.applicable + (4 if binding.near else 2))


def _ordered(value: Any) -> str:
    """Return a value as it is compared: in every session the same, whatever the order of its keys there."""
    return f'"{value}' if isinstance(value, str) else _sorted(value)


_sorted = json.JSONEncoder(sort_keys=True).encode  # made once: json.dumps makes an encoder for each call


def build_profiles(sums: KeySums, names: KeyTexts) -> dict[str, ToolProfile]:
    """Return a profile of each symbol, from the sums that recur and have a name."""
    recurring = sums.recurring()
    builder = _Builder(sums, recurring)
    for term, total, roots in names.most_frequent(recurring, max(MAX_BINDINGS, MAX_CHOICES)):
        builder.take(term, total, roots)
    return builder.finish()


def count_outcomes(profiles: Mapping[str, ToolProfile], symbols: Iterable[str]) -> tuple[int, int]:
    """Return how many calls of some symbols worked, and how many failed."""
    found = [profiles[symbol] for symbol in set(symbols) if symbol in profiles]
    failed = sum(profile.failed for profile in found)
    return sum(profile.calls for profile in found) - failed, failed
