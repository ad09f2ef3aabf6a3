"""Learn where arguments come from: for each argument of a call, which earlier values would have predicted it.

A left fold over a session's calls and its user's words. It counts *hits* (a source had the argument's value) and
*uses* (the source was there when the argument was given): summed over sessions, hits / uses is a binding's precision.
Values are kept as salted hashes, and only those of recent calls. A person's name, an order's number or a branch is
given by the session that it belongs to; a tool's usual option is not. So a value that sessions mostly give (`gave_all`)
is never carried from one session to another.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

from consolidator.memory.calls.argument_redaction import argument_redactor
from consolidator.memory.calls.call_pairing import MAX_PENDING
from consolidator.memory.calls.columns import (
    MAX_TEXT,
    Columns,
    Scalar,
    flatten,
    flatten_result,
    value_shape,
    value_words,
)
from consolidator.memory.calls.symbols import SHELL_PREFIX, command_argument, operands_of, usage_pattern
from consolidator.memory.procedures.key_counts import CountKey, KeyCounts, encode_json, hash_key

MAX_SAID = 1024  # words of the user that are kept, the latest
MAX_RETURNED = 1024  # values of results that are kept, the latest
MAX_MESSAGE = 20_000  # characters of a message that are read
MIN_CHARACTERS = 3  # letters and digits; what is shorter tells no case from another
_WORD = re.compile(r"[^\W_]+")
_MASK = (1 << 32) - 1  # half a hash is enough to know a value again among a few thousand


class SessionValues:
    """The values that a session gave so far, as salted hashes. Feed it messages and results in order."""

    def __init__(self, hash_value: Callable[[Hashable, Hashable], int]) -> None:
        self._hash_value = hash_value
        self._said: dict[int, None] = {}  # words, the latest last
        self._returned: dict[int, None] = {}  # values, the latest last

    def feed_user_message(self, text: str) -> None:
        """Take what the user said."""
        words = dict.fromkeys(map(str.casefold, reversed(_WORD.findall(text[:MAX_MESSAGE]))))
        latest = [*islice(words, MAX_SAID)][::-1]
        _keep_latest(self._said, [self._hash_value(word, "said") & _MASK for word in latest], MAX_SAID)

    def feed_result(self, values: Iterable[int], arguments: Iterable[int]) -> None:
        """Take the hashed values of a result; those that its call was given are no news."""
        echoed = set(arguments)
        _keep_latest(self._returned, [value & _MASK for value in values if value not in echoed], MAX_RETURNED)

    def gave_any(self, column: Iterable[Scalar], hashed: Iterable[int]) -> bool:
        """Whether the session gave any of these values; `hashed` are their hashes."""
        return any(self._gave(*pair) for pair in zip(column, hashed, strict=True) if may_identify(pair[0]))

    def gave_all(self, column: Iterable[Scalar], hashed: Iterable[int]) -> bool:
        """Whether the session gave all of these values that may tell a case from another."""
        return all(self._gave(*pair) for pair in zip(column, hashed, strict=True) if may_identify(pair[0]))

    def _gave(self, value: Scalar, hashed: int) -> bool:
        if hashed & _MASK in self._returned:
            return True
        if not self._said:
            return False
        has_words = False
        for word in _hash_words(str(value), self._hash_value):  # most values end at their first word
            if word not in self._said:
                return False
            has_words = True
        return has_words

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON: hashes only."""
        return {"said": list(self._said), "returned": list(self._returned)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `to_json` returned."""
        self._said = dict.fromkeys(state["said"])
        self._returned = dict.fromkeys(state["returned"])


def may_identify(value: Scalar) -> bool:
    """Whether a value is long enough to tell a person or case from another; yes, no and small numbers are not."""
    if value is None or isinstance(value, bool):
        return False
    text = str(value)
    if len(text) >= MIN_CHARACTERS and text[:MIN_CHARACTERS].isalnum():
        return True  # without a look at the rest of a long text
    return next(islice(filter(str.isalnum, text), MIN_CHARACTERS - 1, None), None) is not None


def _hash_words(text: str, hash_value: Callable[[Hashable, Hashable], int]) -> Iterator[int]:
    for match in _WORD.finditer(text):
        yield hash_value(match[0].casefold(), "said") & _MASK


def _keep_latest(kept: dict[int, None], values: Iterable[int], limit: int) -> None:
    for value in values:
        kept.pop(value, None)
        kept[value] = None
    while len(kept) > limit:
        del kept[next(iter(kept))]


MAX_SOURCES = 32  # symbols whose last values are kept
MAX_USED = 64  # used values kept of an argument, and arguments whose used values are kept
MAX_WORDS = 96  # of the user
MIN_TELLING_LENGTH = 4  # characters of a user's value whose form tells what may come next
MAX_HITS = 12  # paths of one source that are credited for one value
MAX_LITERAL = 80  # characters of a constant's JSON
MAX_TEMPLATE = 120  # characters of a command template's JSON
HashedArguments: TypeAlias = Mapping[str, list[int]]  # path -> salted hashes of its values
_ValueHasher: TypeAlias = Callable[[Hashable, Hashable], int]  # of a value and its kind
_NOT_USED: dict[int, None] = {}
USAGE = "$usage"  # the path of how a shell's program is used
_WRITTEN_FOR_CALL = frozenset({USAGE, "description", "timeout"})  # shell arguments that come from no value


class ValueSource:
    """The hashed values of a symbol's last call, by path: "<path" in its arguments, ">path" in its result."""

    __slots__ = ("index", "paths")

    def __init__(self, paths: dict[str, list[int]]) -> None:
        self.paths = paths
        self.index: dict[int, list[str]] = {}  # value -> paths that hold it
        for path, column in paths.items():
            for value in dict.fromkeys(column):
                self.index.setdefault(value, []).append(path)


def first_unused(column: list[int], used: Container[int]) -> int | None:
    """Return the first value of a column that was not used yet; a single value may be used again."""
    if len(column) == 1:
        return column[0]
    for value in column:
        if value not in used:
            return value
    return None


class _GivenArguments(NamedTuple):
    """The arguments of a call by path."""

    columns: Columns  # redacted; of a command also its usage pattern
    hashed: dict[str, list[int]]  # the salted hashes of `columns`
    own_paths: tuple[str, ...]  # the paths that are in the arguments themselves
    has_secret: bool
    from_session: frozenset[str]  # paths whose values the session gave before; of a command where it gave an operand


class BindingFold:
    """Counts bindings into `counts`. Feed it a session's calls and user messages in order.

    A call is begun when it is made and finished when its result comes: a call made in between knows of the open one's
    arguments, but of no result.

    With `keep_values` it also keeps the clear values, in memory only, so that predictions can fill arguments.
    """

    def __init__(
        self, counts: KeyCounts, salt: bytes, redact: Callable[[str], str], *, keep_values: bool = False
    ) -> None:
        self.counts = counts
        self.redactor = argument_redactor(redact)
        self.sources: dict[str, ValueSource] = {}  # by symbol, oldest first
        self.used_values: dict[str, dict[int, None]] = {}  # "symbol path" -> values given so far, oldest first
        self.user_words: list[tuple[str, int]] = []  # shape and hash of words that look like values
        self._shape_keys: dict[tuple[str, tuple[str, ...]], CountKey] = {}
        self.clear_values: dict[int, Scalar] | None = {} if keep_values else None
        self.open_calls: dict[int, HashedArguments] = {}  # the arguments of calls under way, by their index
        self._hash, self._hash_cached = _salted_hashers(salt)
        self.session_values = SessionValues(self._hash_cached)

    def hash_values(self, column: Sequence[Scalar]) -> list[int]:
        """Return the salted hashes of a column."""
        hashes = [
            (self._hash if isinstance(value, str) and len(value) > MAX_TEXT else self._hash_cached)(
                value, type(value).__name__
            )
            for value in column
        ]
        if self.clear_values is not None:
            self.clear_values.update(zip(hashes, column, strict=True))
        return hashes

    def feed_user_message(self, text: str) -> set[str]:
        """Take a user's message; return the forms of the values in it."""
        words = value_words(text)
        latest = words[-MAX_WORDS:]
        self.user_words += zip(map(value_shape, latest), self.hash_values(latest), strict=True)
        del self.user_words[:-MAX_WORDS]
        self.session_values.feed_user_message(text)
        return {value_shape(word) for word in set(words) if len(word) >= MIN_TELLING_LENGTH}

    def begin_call(self, index: int, symbol: str, arguments: Any) -> int:
        """Take a call that is made: count what would have predicted its arguments, then remember them.

        Returns a hash of the call, the same for the same symbol and arguments.
        """
        call = self._read_arguments(symbol, arguments)
        call_key = _make_call_key(symbol, call)
        shape = (symbol, call.own_paths)  # which arguments were given together
        if shape not in self._shape_keys:
            self._shape_keys[shape] = ("shape", symbol, "\n".join(sorted(call.own_paths)))
        self.counts.add(self._shape_keys[shape])
        for path, column in call.hashed.items():
            self._count_argument(symbol, path, column, call.columns[path], is_given=path in call.from_session)
        paths = {"<" + path: column for path, column in call.hashed.items()}
        if symbol in self.sources:  # the last result stays known until the next one
            paths |= {path: column for path, column in self.sources[symbol].paths.items() if path[0] == ">"}
        self._add_source(symbol, ValueSource(paths))
        self._mark_used(symbol, call.hashed)
        self.open_calls[index] = call.hashed
        if len(self.open_calls) > MAX_PENDING:
            del self.open_calls[next(iter(self.open_calls))]
        return hash_key(call_key)

    def finish_call(self, index: int, symbol: str, arguments: Any, result: Any, *, ok: bool) -> None:
        """Take a call\'s result."""
        hashed = self.open_calls.pop(index, None)
        if hashed is None:  # it was begun before `load`
            hashed = self._read_arguments(symbol, arguments).hashed
        is_shell = symbol.startswith(SHELL_PREFIX)
        if not ok:  # its values may be given again, and the last result stays as it is
            for path, column in hashed.items():
                for value in column:
                    self.used_values.get(f"{symbol} {path}", {}).pop(value, None)
        elif not is_shell and symbol in self.sources:
            paths = {path: column for path, column in self.sources[symbol].paths.items() if path[0] == "<"}
            returned = {
                ">" + path: self.hash_values(values)
                for path, values in self.redactor.redact_columns(flatten_result(result)).items()
            }
            self.sources[symbol] = ValueSource(paths | returned)
            self.session_values.feed_result(chain(*returned.values()), chain(*hashed.values()))

    def knows(self, column: list[Scalar]) -> bool:
        """Whether this session gave all of these values that may tell a person or case from another."""
        return self.session_values.gave_all(column, self.hash_values(column))

    def _read_arguments(self, symbol: str, arguments: Any) -> _GivenArguments:
        raw_columns = flatten(arguments)
        columns = self.redactor.redact_columns(raw_columns)
        line = command_argument(arguments) if symbol.startswith(SHELL_PREFIX) else None
        redacted_line = None if line is None else self.redactor.redact_command(line)
        has_secret = columns is not raw_columns or redacted_line != line
        own_paths = tuple(columns)
        if redacted_line is not None:
            columns = columns | {USAGE: [usage_pattern(redacted_line)]}
        hashed = {path: self.hash_values(column) for path, column in columns.items()}
        from_session = self._given_paths(columns, hashed)
        if redacted_line is not None and "command" not in from_session and (operands := operands_of(redacted_line)):
            from_session |= {"command"} if self.session_values.gave_any(operands, self.hash_values(operands)) else set()
        return _GivenArguments(columns, hashed, own_paths, has_secret, from_session)

    def _given_paths(self, columns: Columns, hashed: dict[str, list[int]]) -> frozenset[str]:
        return frozenset(
            path
            for path, column in columns.items()
            if path not in _WRITTEN_FOR_CALL and self.session_values.gave_any(column, hashed[path])
        )

    def used(self, symbol: str, path: str) -> Container[int]:
        """Return the values that an argument was given in calls that worked or are open."""
        return self.used_values.get(f"{symbol} {path}", _NOT_USED)

    def _add_source(self, symbol: str, source: ValueSource) -> None:
        self.sources.pop(symbol, None)
        self.sources[symbol] = source
        if len(self.sources) > MAX_SOURCES:
            del self.sources[next(iter(self.sources))]

    def _mark_used(self, symbol: str, hashed: HashedArguments) -> None:
        for path, column in hashed.items():
            used = self.used_values.pop(f"{symbol} {path}", {})
            used.update(dict.fromkeys(column))
            while len(used) > MAX_USED:
                del used[next(iter(used))]
            self.used_values[f"{symbol} {path}"] = used
        while len(self.used_values) > MAX_USED:
            del self.used_values[next(iter(self.used_values))]

    def _count_argument(
        self, symbol: str, path: str, column: list[int], values: list[Scalar], *, is_given: bool
    ) -> None:
        """Count every binding that would have predicted an argument; `column` holds the hashes of `values`."""
        counts = self.counts
        counts.add(("arg", symbol, path))
        sources = self._possible_sources(symbol, path)
        if sources:
            counts.add_each(("use", symbol, path), sources)
        self._count_constant(symbol, path, column, values, is_given=is_given)
        if not column or sources is None:
            return
        used = self.used(symbol, path)
        value, is_list = column[0], "[]" in path
        for source_symbol, source in sources.items():
            origins = source.index.get(value)
            if origins is None:
                continue
            for origin in origins[:MAX_HITS]:
                offered = source.paths[origin]
                if (offered == column) if is_list else (first_unused(offered, used) == value):
                    counts.add(("hit", symbol, path, source_symbol, origin))
        if self.user_words and not is_list and isinstance(values[0], str):
            shape = value_shape(values[0])
            word = self.find_user_word(shape, used)
            if word is not None:
                counts.add(("said", symbol, path, shape))
                if word == value:
                    counts.add(("word", symbol, path, shape))

    def _possible_sources(self, symbol: str, path: str) -> dict[str, ValueSource] | None:
        """Return what an argument may come from, None for nothing ever: most arguments of a shell call may not."""
        if not symbol.startswith(SHELL_PREFIX):
            return self.sources
        if path in _WRITTEN_FOR_CALL:
            return None
        if path == "command":  # it comes from the same program only
            return {symbol: self.sources[symbol]} if symbol in self.sources else {}
        return self.sources

    def _count_constant(
        self, symbol: str, path: str, column: list[int], values: list[Scalar], *, is_given: bool
    ) -> None:
        kind = "given" if is_given else "const"
        key: CountKey = (kind, symbol, path, *column)
        if key not in self.counts:
            literal = encode_json(values if "[]" in path else values[0])
            if len(literal) <= (MAX_TEMPLATE if path[:1] == "$" else MAX_LITERAL):
                self.counts.set_text(key, f'["{kind}", {encode_json(symbol)}, {encode_json(path)}, {literal}]')
            else:
                self.counts.ignore(key)
        self.counts.add(key)

    def find_user_word(self, shape: str, used: Container[int]) -> int | None:
        """Return the user's last word of this shape that was not used yet, else the last one of this shape."""
        last: int | None = None
        for word_shape, value in reversed(self.user_words):
            if word_shape == shape:
                if value not in used:
                    return value
                if last is None:
                    last = value
        return last

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON: hashes only."""
        return {
            "sources": [[symbol, source.paths] for symbol, source in self.sources.items()],
            "used": [[name, list(values)] for name, values in self.used_values.items()],
            "words": self.user_words,
            "values": self.session_values.to_json(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `to_json` returned."""
        self.sources = {symbol: ValueSource(paths) for symbol, paths in state["sources"]}
        self.used_values = {name: dict.fromkeys(values) for name, values in state["used"]}
        self.user_words = [(shape, value) for shape, value in state["words"]]
        self.session_values.load(state["values"])


def _make_call_key(symbol: str, arguments: _GivenArguments) -> CountKey:
    parts: list[str | int] = ["call", symbol]
    for path in sorted(arguments.own_paths):
        parts.append(path)
        parts += arguments.hashed[path]
    return tuple(parts)


@lru_cache(maxsize=4)
def _salted_hashers(salt: bytes) -> tuple[_ValueHasher, _ValueHasher]:
    """Return the hasher of values, and the same with a cache that serves all sessions: they share words and values."""
    hash_value = _salted_hasher(salt)
    return hash_value, lru_cache(maxsize=1 << 14)(hash_value)


def _salted_hasher(salt: bytes) -> _ValueHasher:
    seed = hashlib.blake2b(digest_size=8, key=salt[:64])

    def hash_value(value: Hashable, kind: Hashable) -> int:  # the kind keeps 1, 1.0, True and "1" apart
        hasher = seed.copy()
        value = 0.0 if kind == "float" and value == 0 else value  # -0.0 == 0.0, so a cache may mix them up
        hasher.update(f"{kind}:{value}".encode("utf-8", "surrogatepass"))
        return int.from_bytes(hasher.digest(), "big", signed=True)

    return hash_value
