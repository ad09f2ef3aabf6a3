"""Where arguments come from: for every argument of a call, which earlier value would have predicted it.

A left fold over a session's calls and its user's words. It counts hits and the chances for them, so that sums over
sessions give the precision of every binding; values are kept as salted hashes, of the last calls alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Any

from consolidator.memory.calls.argument_redaction import argument_redactor
from consolidator.memory.calls.columns import (
    MAX_TEXT,
    Columns,
    Scalar,
    flatten,
    flatten_result,
    value_shape,
    value_words,
)
from consolidator.memory.calls.command_templates import template_columns
from consolidator.memory.calls.symbols import SHELL_PREFIX, command_argument
from consolidator.memory.procedures.key_counts import CountKey, KeyCounts, encode_json

MAX_SOURCES = 32  # tools whose last values are kept
MAX_USED = 64  # values that an argument is remembered to have had
MAX_WORDS = 64  # of the user
MAX_HITS = 12  # sources that are credited for one value
MAX_LITERAL = 80
MAX_TEMPLATE = 120
MAX_CALL = 200


_NOTHING: dict[int, None] = {}
_SAID_ONCE = frozenset({"$", "$usage", "description", "timeout"})  # of a shell call: from no earlier value


class ValueSource:
    """The last values of one tool: "<path" of its arguments, ">path" of its result."""

    __slots__ = ("index", "paths")

    def __init__(self, paths: dict[str, list[int]]) -> None:
        self.paths = paths
        self.index: dict[int, list[str]] = {}
        for path, column in paths.items():
            for value in dict.fromkeys(column):
                self.index.setdefault(value, []).append(path)


def first_unused(column: list[int], used: Mapping[int, None]) -> int | None:
    """Return the first value that was not used yet; a single value may be used again."""
    if len(column) == 1:
        return column[0]
    for value in column:
        if value not in used:
            return value
    return None


class BindingFold:
    """Feed it calls in order; it counts into `counts`."""

    def __init__(
        self, counts: KeyCounts, salt: bytes, redact: Callable[[str], str], *, keep_values: bool = False
    ) -> None:
        self.counts = counts
        self.redactor = argument_redactor(redact)
        self.sources: dict[str, ValueSource] = {}  # oldest first
        self.used: dict[str, dict[int, None]] = {}  # tool and argument -> values, oldest first
        self.user_words: list[tuple[str, int]] = []  # shape and value of the user's telling words
        self.argument_counts: dict[tuple[str, str], int] = {}  # tool and argument -> how often, in this process
        self._since: dict[str, dict[tuple[str, str], int]] = {}  # source -> `given` when it came, or was settled
        self._owed: set[tuple[str, str, str]] = set()  # tool, argument and source
        self._shapes: dict[tuple[str, tuple[str, ...]], CountKey] = {}
        self.values: dict[int, Scalar] | None = {} if keep_values else None
        self._digest = self._hasher(salt)
        self._hash = lru_cache(maxsize=1 << 14)(self._digest)

    @staticmethod
    def _hasher(salt: bytes) -> Callable[[Hashable, Hashable], int]:
        seed = hashlib.blake2b(digest_size=8, key=salt[:64])

        def hashed(value: Hashable, kind: Hashable) -> int:  # the kind keeps 1, 1.0, True and "1" apart
            hasher = seed.copy()
            value = 0.0 if kind == "float" and value == 0 else value  # equal, so that the cache may answer for -0.0
            hasher.update(f"{kind}:{value}".encode("utf-8", "surrogatepass"))
            return int.from_bytes(hasher.digest(), "big", signed=True)

        return hashed

    def hash_values(self, column: list[Scalar]) -> list[int]:
        """Return the salted hashes of a column, and remember the clear values when asked to."""
        found = [
            (self._digest if isinstance(value, str) and len(value) > MAX_TEXT else self._hash)(
                value, type(value).__name__
            )
            for value in column
        ]
        if self.values is not None:
            self.values.update(zip(found, column, strict=True))
        return found

    def feed_user_message(self, text: str) -> None:
        """Take a user's message."""
        for find_user_word in value_words(text):
            self.user_words.append((value_shape(find_user_word), self.hash_values([find_user_word])[0]))
        del self.user_words[:-MAX_WORDS]

    def feed_call(self, tool: str, arguments: Any, result: Any, *, ok: bool) -> None:
        """Take a call: count what would have predicted its arguments, then remember its values."""
        clear = flatten(arguments)
        given = self.redactor.redact_columns(clear)
        hashed = {path: self.hash_values(column) for path, column in given.items()}
        shell = tool.startswith(SHELL_PREFIX)
        line = command_argument(arguments) if shell else None
        hidden = None if line is None else self.redactor.redact_command(line)
        self._count_shape(tool, arguments, given, hashed, secret=given is not clear or hidden != line)
        if hidden is not None:
            extra = template_columns(hidden)
            given |= extra
            hashed |= {path: self.hash_values(column) for path, column in extra.items()}
        for path, column in hashed.items():
            self._count_argument(tool, path, column, given[path])
        paths = {"<" + path: column for path, column in hashed.items()}
        if ok and not shell:
            for path, values in self.redactor.redact_columns(flatten_result(result)).items():
                paths[">" + path] = self.hash_values(values)
        elif not ok and tool in self.sources:
            paths |= {path: column for path, column in self.sources[tool].paths.items() if path[0] == ">"}
        if self.sources.pop(tool, None) is None:
            self._since[tool] = dict(self.argument_counts)
        self.sources[tool] = ValueSource(paths)
        if len(self.sources) > MAX_SOURCES:
            oldest = next(iter(self.sources))
            self._settle(oldest)
            del self.sources[oldest], self._since[oldest]
        if ok:
            self._use(tool, hashed)

    def last_argument_values(self, tool: str) -> list[int]:
        """Return the argument values of a tool's last call; of a command its operands."""
        source = self.sources.get(tool)
        if source is None:
            return []
        begin = "<$" if tool.startswith(SHELL_PREFIX) else "<"
        paths = {path: column for path, column in source.paths.items() if path.startswith(begin)}
        return [value for path, column in paths.items() if path[1:] not in _SAID_ONCE for value in column]

    @property
    def latest_tool(self) -> str:
        """The tool of the last call."""
        return next(reversed(self.sources), "")

    def _use(self, tool: str, hashed: dict[str, list[int]]) -> None:
        for path, column in hashed.items():
            used = self.used.pop(f"{tool} {path}", {})
            used.update(dict.fromkeys(column))
            while len(used) > MAX_USED:
                del used[next(iter(used))]
            self.used[f"{tool} {path}"] = used
        while len(self.used) > MAX_USED:
            del self.used[next(iter(self.used))]

    def _count_shape(
        self, tool: str, arguments: Any, given: Columns, hashed: dict[str, list[int]], *, secret: bool
    ) -> None:
        paths = tuple(hashed)
        shaped = self._shapes.get((tool, paths))
        if shaped is None:
            shaped = self._shapes[(tool, paths)] = ("shape", tool, "\n".join(sorted(paths)))
        self.counts.add(shaped)
        whole: list[str | int] = ["call", tool]
        for path in sorted(paths):
            whole.append(path)
            whole += hashed[path]
        key: CountKey = tuple(whole)
        if key not in self.counts:
            literal = None if secret else _literal(["call", tool, arguments], given)
            if literal is not None and len(literal) <= MAX_CALL + len(tool):
                self.counts.set_text(key, literal)
            else:
                self.counts.ignore(key)
        self.counts.add(key)

    def _count_argument(self, tool: str, path: str, column: list[int], given: list[Scalar]) -> None:
        counts = self.counts
        counts.add(("arg", tool, path))
        self.argument_counts[(tool, path)] = self.argument_counts.get((tool, path), 0) + 1
        for name in self.sources:  # a chance has its place from now on, whenever it is settled
            if (tool, path, name) not in self._owed:
                self._owed.add((tool, path, name))
                if _comes_from(tool, path, name):
                    counts.reserve(("use", tool, path, name))
        self._count_constant(tool, path, column, given)
        if not column or not _comes_from(tool, path, ""):
            return
        used = self.used.get(f"{tool} {path}", _NOTHING)
        own = path == "command" and tool.startswith(SHELL_PREFIX)
        value, listed, latest = column[0], "[]" in path, self.latest_tool
        if latest and (not own or latest == tool):
            counts.add(("use", tool, path, latest, "near"))
        for name, source in self.sources.items():
            origins = source.index.get(value)
            if origins is None or (own and name != tool):
                continue
            for origin in origins[:MAX_HITS]:
                offered = source.paths[origin]
                if (offered == column) if listed else (first_unused(offered, used) == value):
                    counts.add(("hit", tool, path, name, origin))
                    if name == latest:
                        counts.add(("hit", tool, path, name, origin, "near"))
        if self.user_words and not listed and isinstance(given[0], str):
            look = value_shape(given[0])
            word = self.word(look, used)
            if word is not None:
                counts.add(("said", tool, path, look))
                if word == value:
                    counts.add(("word", tool, path, look))

    def _count_constant(self, tool: str, path: str, column: list[int], given: list[Scalar]) -> None:
        key: CountKey = ("const", tool, path, *column)
        if key not in self.counts:
            literal = encode_json(given if "[]" in path else given[0])
            if len(literal) <= (MAX_TEMPLATE if path[:1] == "$" else MAX_LITERAL):
                self.counts.set_text(key, f'["const", {encode_json(tool)}, {encode_json(path)}, {literal}]')
            else:
                self.counts.ignore(key)
        self.counts.add(key)

    def count_pending_uses(self) -> None:
        """Count the chances that are still owed: how often each argument was given while each source was there."""
        for name in self.sources:
            self._settle(name)

    def _settle(self, name: str) -> None:
        since = self._since[name]
        for (tool, path), count in self.argument_counts.items():
            chances = count - since.get((tool, path), 0)
            if chances and _comes_from(tool, path, name):
                self.counts.add(("use", tool, path, name), chances)
        self._since[name] = dict(self.argument_counts)

    def word(self, look: str, used: Mapping[int, None]) -> int | None:
        """Return the user's last word of this shape that was not used yet, else the last one of this shape."""
        last: int | None = None
        for kind, value in reversed(self.user_words):
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
            "words": self.user_words,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `to_json` returned."""
        self.sources = {tool: ValueSource(paths) for tool, paths in state["sources"]}
        self._since = {tool: {} for tool in self.sources}
        self.used = {name: dict.fromkeys(values) for name, values in state["used"]}
        self.user_words = [(look, value) for look, value in state["words"]]


def _literal(value: Any, given: Columns) -> str | None:
    """Return short arguments as JSON; None where they are long or nested too deeply."""
    if any(isinstance(one, str) and len(one) > MAX_CALL for column in given.values() for one in column):
        return None
    try:
        return encode_json(value)
    except RecursionError:
        return None


def _comes_from(tool: str, path: str, name: str) -> bool:
    """Whether an argument may come from a source at all ("" is any): most of a shell call is written for it."""
    if not tool.startswith(SHELL_PREFIX):
        return True
    return path not in _SAID_ONCE and (path != "command" or name in ("", tool))
