"""Know which values a session gave before they were used: what its user said, and what results returned.

A person's name, an order's number or a branch is given by the session that it belongs to; a tool's usual option is not.
So a value that sessions mostly give is never carried from one session to another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from consolidator.memory.calls.columns import Scalar

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
