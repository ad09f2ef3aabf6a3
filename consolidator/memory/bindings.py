"""Where arguments come from: for every argument of a call, which earlier value would have predicted it.

A left fold over a session's calls and its user's words. It counts hits and the chances for them, so that sums over
sessions give the precision of every binding; values are kept as salted hashes, of the last calls alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Any

from consolidator.memory.counts import Counts
from consolidator.memory.symbols import SHELL_PREFIX
from consolidator.memory.templates import template_columns
from consolidator.memory.values import Columns, Scalar, columns, result_columns, shape, tokens

MAX_SOURCES = 32  # tools whose last values are kept
MAX_USED = 64  # values that an argument is remembered to have had
MAX_WORDS = 64  # of the user
MAX_HITS = 12  # sources that are credited for one value
MAX_LITERAL = 80
MAX_TEMPLATE = 120
MAX_CALL = 200


class Source:
    """The last values of one tool: "<path" of its arguments, ">path" of its result."""

    __slots__ = ("index", "paths")

    def __init__(self, paths: dict[str, list[int]]) -> None:
        self.paths = paths
        self.index: dict[int, list[str]] = {}
        for path, column in paths.items():
            for value in dict.fromkeys(column):
                self.index.setdefault(value, []).append(path)


def choose(column: list[int], used: Mapping[int, None]) -> int | None:
    """Return the first value that was not used yet; a single value may be used again."""
    if len(column) == 1:
        return column[0]
    for value in column:
        if value not in used:
            return value
    return None


class BindingFold:
    """Feed it calls in order; it counts into `counts`."""

    def __init__(self, counts: Counts, salt: bytes, *, keep_values: bool = False) -> None:
        self.counts = counts
        self.sources: dict[str, Source] = {}  # oldest first
        self.used: dict[str, dict[int, None]] = {}  # tool and argument -> values, oldest first
        self.words: list[tuple[str, int]] = []  # shape and value of the user's telling words
        self.values: dict[int, Scalar] | None = {} if keep_values else None
        self._hash = lru_cache(maxsize=1 << 14)(self._hasher(salt))

    @staticmethod
    def _hasher(salt: bytes) -> Callable[[Hashable, Hashable], int]:
        seed = hashlib.blake2b(digest_size=8, key=salt[:64])

        def hashed(value: Hashable, kind: Hashable) -> int:  # the kind keeps 1, 1.0, True and "1" apart
            hasher = seed.copy()
            hasher.update(f"{kind}:{value}".encode("utf-8", "surrogatepass"))
            return int.from_bytes(hasher.digest(), "big", signed=True)

        return hashed

    def hashes(self, column: list[Scalar]) -> list[int]:
        """Return the salted hashes of a column, and remember the clear values when asked to."""
        found = [self._hash(value, type(value)) for value in column]
        if self.values is not None:
            self.values.update(zip(found, column, strict=True))
        return found

    def say(self, text: str) -> None:
        """Take a user's message."""
        for word in tokens(text):
            self.words.append((shape(word), self.hashes([word])[0]))
        del self.words[:-MAX_WORDS]

    def feed(self, tool: str, arguments: Any, result: Any, *, ok: bool) -> None:
        """Take a call: count what would have predicted its arguments, then remember its values."""
        given = columns(arguments)
        self._count_shape(tool, arguments, given)
        shell = tool.startswith(SHELL_PREFIX)
        if shell:
            given |= template_columns(arguments)
        hashed = {path: self.hashes(column) for path, column in given.items()}
        for path, column in hashed.items():
            self._count_argument(tool, path, column, given[path])
        paths = {"<" + path: column for path, column in hashed.items()}
        if ok and not shell:
            for path, values in result_columns(result).items():
                paths[">" + path] = self.hashes(values)
        elif not ok and tool in self.sources:
            paths |= {path: column for path, column in self.sources[tool].paths.items() if path[0] == ">"}
        self.sources.pop(tool, None)
        self.sources[tool] = Source(paths)
        if len(self.sources) > MAX_SOURCES:
            del self.sources[next(iter(self.sources))]
        if ok:
            self._use(tool, hashed)

    def last(self, tool: str) -> list[int]:
        """Return the argument values of a tool's last call."""
        source = self.sources.get(tool)
        if source is None:
            return []
        return [value for path, column in source.paths.items() if path[0] == "<" for value in column]

    def _use(self, tool: str, hashed: dict[str, list[int]]) -> None:
        for path, column in hashed.items():
            used = self.used.pop(f"{tool} {path}", {})
            used.update(dict.fromkeys(column))
            while len(used) > MAX_USED:
                del used[next(iter(used))]
            self.used[f"{tool} {path}"] = used
        while len(self.used) > MAX_USED:
            del self.used[next(iter(self.used))]

    def _count_shape(self, tool: str, arguments: Any, given: Columns) -> None:
        counts = self.counts
        counts.add(("shape", tool, "\n".join(sorted(given))))
        literal = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
        if len(literal) <= MAX_CALL:
            key = ("call", tool, self._hash(literal, dict))
            if key not in counts:
                counts.name(key, json.dumps(["call", tool, arguments], ensure_ascii=False))
            counts.add(key)

    def _count_argument(self, tool: str, path: str, column: list[int], given: list[Scalar]) -> None:
        counts = self.counts
        counts.add(("arg", tool, path))
        self._count_constant(tool, path, column, given)
        if path in ("$", "description", "timeout") and tool.startswith(SHELL_PREFIX):
            return
        own_only = path == "command" and tool.startswith(SHELL_PREFIX)
        used = self.used.get(f"{tool} {path}", {})
        for name, source in self.sources.items():
            if own_only and name != tool:
                continue
            counts.add(("use", tool, path, name))
            for origin in predicting(source, path, column, used):
                counts.add(("hit", tool, path, name, origin))
        value = given[0] if len(given) == 1 else None
        if isinstance(value, str) and self.words:
            look = shape(value)
            word = self.word(look, used)
            if word is not None:
                counts.add(("said", tool, path, look))
                if word == column[0]:
                    counts.add(("word", tool, path, look))

    def _count_constant(self, tool: str, path: str, column: list[int], given: list[Scalar]) -> None:
        literal = json.dumps(given if "[]" in path else given[0], ensure_ascii=False)
        if len(literal) > (MAX_TEMPLATE if path == "$" else MAX_LITERAL):
            return
        value = column[0] if len(column) == 1 else self._hash(str(column), list)
        key = ("const", tool, path, value)
        if key not in self.counts:
            self.counts.name(key, f'["const", {json.dumps([tool, path], ensure_ascii=False)[1:-1]}, {literal}]')
        self.counts.add(key)

    def word(self, look: str, used: Mapping[int, None]) -> int | None:
        """Return the user's last word of this shape that was not used yet, else the last one of this shape."""
        last: int | None = None
        for kind, value in reversed(self.words):
            if kind == look:
                if value not in used:
                    return value
                if last is None:
                    last = value
        return last

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON: hashes only."""
        return {
            "sources": [[tool, source.paths] for tool, source in self.sources.items()],
            "used": [[name, list(values)] for name, values in self.used.items()],
            "words": self.words,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `to_json` returned."""
        self.sources = {tool: Source(paths) for tool, paths in state["sources"]}
        self.used = {name: dict.fromkeys(values) for name, values in state["used"]}
        self.words = [(look, value) for look, value in state["words"]]


def predicting(source: Source, path: str, column: list[int], used: Mapping[int, None]) -> list[str]:
    """Return the paths of a source that would have predicted an argument: its whole list, or its next value."""
    if not column:
        return []
    origins = source.index.get(column[0], ())
    if "[]" in path:
        found = [origin for origin in origins if source.paths[origin] == column]
    else:
        found = [origin for origin in origins if choose(source.paths[origin], used) == column[0]]
    return found[:MAX_HITS]
