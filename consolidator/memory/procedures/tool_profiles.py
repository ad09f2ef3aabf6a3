"""Build a profile of each tool: its usual arguments, where their values come from, and what usually follows.

Pure: reads sums by the texts that name their keys.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from consolidator.memory.calls.harm import find_harm, symbol_harm
from consolidator.memory.calls.symbols import display_name, is_shell_symbol
from consolidator.memory.plain import Plain
from consolidator.memory.procedures.key_counts import encode_json, hash_key
from consolidator.memory.procedures.key_sums import KeySums
from consolidator.memory.procedures.key_texts import KeyTexts

MIN_PRECISION = 0.6  # of a reliable binding
MIN_ROOTS = 3  # that support a reliable binding
MIN_SHARE = 0.4  # of an argument's uses that a binding must explain
MAX_BINDINGS = 12  # candidates kept of one argument, for prediction
MAX_CHOICES = 12  # shapes and followers kept


@dataclass(frozen=True, slots=True)
class Binding:
    """Where an argument's value comes from."""

    kind: str  # constant | argument | result | user
    precision: float  # hits / applicable
    hits: int
    applicable: int
    roots: int
    source: str = ""  # the symbol it comes from
    path: str = ""  # in the source's arguments or result; for `user` the shape of the word
    value: Any = None  # of a constant
    given: int = 0  # of a constant's hits: how often the session had given the value before

    def explains(self, uses: int) -> bool:
        """Whether it is reliable, and explains a good part of all uses of its argument."""
        return self.is_reliable and self.hits >= MIN_SHARE * uses

    @property
    def is_reliable(self) -> bool:
        """Whether it is precise and supported enough to be published."""
        return self.roots >= MIN_ROOTS and self.precision >= MIN_PRECISION and not self.is_case_value

    @property
    def is_case_value(self) -> bool:
        """Whether it is a constant that sessions mostly give themselves: it belongs to a person or case."""
        return self.kind == "constant" and 2 * self.given > self.hits

    def __str__(self) -> str:
        if self.kind == "constant":
            return json.dumps(self.value, ensure_ascii=False)
        if self.kind == "user":
            return "the user's words"
        if self.kind == "argument":
            return f"the last {self.source}({self.path})"
        return f"{self.source} → {self.path or 'result'}"


@dataclass(slots=True)
class ToolProfile(Plain):
    """How one symbol is used."""

    symbol: str
    tool: str = ""  # the real tool's name; for "sh:git push" the shell
    calls: int = 0
    failed: int = 0
    steps: int = 0  # elements of cleaned sequences
    runs: int = 0  # elements that are several calls in a row
    roots: int = 0
    shapes: list[tuple[list[str], int]] = field(default_factory=list)  # argument paths given together, count
    arguments: dict[str, int] = field(default_factory=dict)  # path -> uses
    bindings: dict[str, list[Binding]] = field(default_factory=dict)  # path -> candidates, best first
    follows: dict[str, list[tuple[str, int]]] = field(default_factory=dict)  # context -> next symbols and counts
    chances: dict[str, int] = field(default_factory=dict)  # context -> times seen

    @property
    def repeats(self) -> bool:
        """Whether it is usually called several times in a row."""
        return 2 * self.runs > self.steps

    def find_harm(self, project: str | None) -> str | None:
        """Return why what the tool was mostly called with is repeated to no agent; None for a harmless tool."""
        paths = ("command", "$usage") if is_shell_symbol(self.symbol) else tuple(self.bindings)
        usual = [
            ("command" if path[0] == "$" else path, binding.value)
            for path in paths
            for binding in self.bindings.get(path, ())
            if binding.kind == "constant" and binding.precision >= MIN_SHARE
        ]
        harms = (harm for key, value in usual if (harm := find_harm(self.tool, {key: value}, project)))
        return symbol_harm(self.symbol) or next(harms, None)


def context_key(*parts: str) -> str:
    """Return the key of what came before a call: symbols, oldest first, then what happened since the last one."""
    return "\n".join(parts)


@dataclass(slots=True)
class _Constant:
    """A value that an argument had."""

    value: Any
    hits: int = 0
    given: int = 0  # of them where the session had given it before
    roots: int = 0  # at least

    def add(self, total: int, roots: int, *, is_given: bool) -> None:
        """Take the uses of one sort."""
        self.hits += total
        self.given += total if is_given else 0
        self.roots = max(self.roots, roots)

    def bind(self, uses: int) -> Binding:
        """Return it as a binding of an argument that was given `uses` times."""
        precision = self.hits / uses
        return Binding("constant", precision, self.hits, uses, self.roots, value=self.value, given=self.given)


class _ProfileBuilder:
    """Sorts named sums by symbol."""

    def __init__(self, sums: KeySums, recurring: KeySums) -> None:
        self.all_sums = sums
        self.recurring = recurring
        self.profiles: dict[str, ToolProfile] = {}
        self.follows: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
        self.hits: list[tuple[str, list[Any], int, int]] = []  # kind, rest of the key, total, roots
        self.constants: dict[tuple[str, str], dict[str, _Constant]] = defaultdict(dict)  # by symbol and path, then JSON

    def add(self, key: list[Any], total: int, roots: int) -> None:
        """Take the sum of one key."""
        kind, *rest = key
        if kind == "next":
            self.follows[tuple(rest[:-1])].append((rest[-1], total))
        elif kind in ("hit", "word"):
            self.hits.append((kind, rest, total, roots))
        elif kind in ("const", "given"):
            constant = self.constants[rest[0], rest[1]].setdefault(encode_json(rest[2]), _Constant(rest[2]))
            constant.add(total, roots, is_given=kind == "given")
        else:
            self._add_to_profile(kind, rest, total, roots)

    def _add_to_profile(self, kind: str, rest: list[Any], total: int, roots: int) -> None:
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
        elif kind == "arg":
            profile.arguments[rest[1]] = total

    def build(self) -> dict[str, ToolProfile]:
        """Return the profiles by symbol, everything in them sorted by content."""
        self._add_bindings()
        self._add_follows()
        # From all sums: one failure counts though it does not recur, as does the call that failed.
        failures = self.all_sums.totals_of([_hash_key_cached(("failed", symbol)) for symbol in self.profiles])
        for profile, total in zip(self.profiles.values(), failures, strict=True):
            profile.failed = total
        for profile in self.profiles.values():
            profile.shapes = sorted(profile.shapes, key=lambda entry: (-entry[1], entry[0]))[:MAX_CHOICES]
            for path, bindings in profile.bindings.items():
                bindings.sort(  # few chances count less than many
                    key=lambda b: (
                        -(b.hits + 0.5) / (b.applicable + 2),
                        b.kind,
                        b.source,
                        b.path,
                        _encode_sorted(b.value),
                    )
                )
                profile.bindings[path] = bindings[:MAX_BINDINGS]
        return dict(sorted(self.profiles.items()))

    def _add_bindings(self) -> None:
        keys = [("said" if kind == "word" else "use", *rest[:3]) for kind, rest, _, _ in self.hits]
        chances = self.recurring.totals_of([_hash_key_cached(key) for key in keys])
        for (kind, rest, total, roots), seen in zip(self.hits, chances, strict=True):
            self._add_binding(kind, rest, total, roots, max(seen, total))
        for (symbol, path), constants in self.constants.items():
            profile = self.profiles.get(symbol)
            if profile is not None and path in profile.arguments:
                uses = profile.arguments[path]
                bindings = [constant.bind(uses) for constant in constants.values()]
                profile.bindings.setdefault(path, []).extend(bindings)

    def _add_follows(self) -> None:
        contexts = sorted(self.follows.items())
        chances = self.recurring.totals_of([_hash_key_cached(("after", *parts)) for parts, _ in contexts])
        for (parts, followers), seen in zip(contexts, chances, strict=True):
            last, context = parts[-2].removesuffix("!"), context_key(*parts)
            profile = self.profiles.setdefault(last, ToolProfile(last))
            profile.follows[context] = sorted(followers, key=lambda entry: (-entry[1], entry[0]))[:MAX_CHOICES]
            profile.chances[context] = max(seen, sum(count for _, count in followers))

    def _add_binding(self, kind: str, rest: list[Any], total: int, roots: int, chances: int) -> None:
        symbol, path = rest[0], rest[1]
        profile = self.profiles.get(symbol)
        if profile is None or path not in profile.arguments:
            return
        if kind == "word":
            binding = Binding("user", total / chances, total, chances, roots, path=rest[2])
        else:
            origin = "argument" if rest[3][0] == "<" else "result"
            binding = Binding(origin, total / chances, total, chances, roots, source=rest[2], path=rest[3][1:])
        profile.bindings.setdefault(path, []).append(binding)


_hash_key_cached = lru_cache(maxsize=1 << 16)(hash_key)  # the scopes of an agent need mostly the same keys
_encode_sorted = json.JSONEncoder(sort_keys=True).encode  # created once: json.dumps creates an encoder for each call


def build_profiles(sums: KeySums, texts: KeyTexts) -> dict[str, ToolProfile]:
    """Return a profile of each symbol, from the sums that recur and have a text."""
    recurring = sums.recurring()
    builder = _ProfileBuilder(sums, recurring)
    for key, total, roots in texts.most_frequent(recurring, max(MAX_BINDINGS, MAX_CHOICES)):
        builder.add(key, total, roots)
    return builder.build()


def count_outcomes(profiles: Mapping[str, ToolProfile], symbols: Iterable[str]) -> tuple[int, int]:
    """Return how many calls of these symbols worked, and how many failed."""
    used = [profiles[symbol] for symbol in set(symbols) if symbol in profiles]
    failed = sum(profile.failed for profile in used)
    return sum(profile.calls for profile in used) - failed, failed


def usual_command(symbol: str, profiles: Mapping[str, ToolProfile]) -> tuple[str, bool]:
    """Return a program's command line and True where it is always the same; else its usage pattern, or `<free>`."""
    profile = profiles.get(symbol)
    if profile is not None:
        for path in ("command", "$usage"):
            for binding in profile.bindings.get(path, []):
                repeats = binding.kind == "constant" and binding.roots >= MIN_ROOTS
                is_usual = binding.precision >= MIN_PRECISION  # else it is the usage of another step
                if repeats and (binding.is_reliable or (path == "$usage" and is_usual)):
                    return str(binding.value), path == "command"
    return f"{display_name(symbol)} <free>", False
