"""Store the texts of summed keys, each with the group in which it competes, so that only the best must be parsed.

Pure: which texts are chosen depends on sums and texts alone, not on any order.

Example. Five keys compete as constants of git's argument `branch`, and one key is always chosen:

    totals   9 main   7 dev   5 fix   5 wip   1 tmp       group of ["const", "git", "branch", ...]
    total    8 ["arg", "git", "branch"]                   group ALWAYS

`most_frequent(sums, 3)` yields main, dev, fix, wip (it ties with the third) and the `arg` key.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from consolidator.memory.procedures.key_counts import Ints, KeySums, hash_key

ALWAYS, NEVER = 0, 1  # groups whose texts are all chosen, or never
_LOOKED_UP_KINDS = ("use", "said", "after", "task")  # never chosen: they are looked up by key, as chances of others
_GROUP_FIELDS = {"const": slice(0, 3), "given": slice(0, 3), "shape": slice(0, 2), "next": slice(0, -1)}  # by kind


class KeyTexts:
    """Texts by key hash: the JSON of a counted key, or a symbol; "" for a key without a text."""

    __slots__ = ("_cache", "groups", "keys", "texts")

    def __init__(self, keys: Ints, groups: Ints, texts: npt.NDArray[np.object_]) -> None:
        order = np.argsort(keys, kind="stable")
        self.keys: Ints = keys[order]  # ascending
        self.groups: Ints = groups[order]
        self.texts = texts[order]
        self._cache: dict[int, str | None] = {}

    @classmethod
    def from_dict(cls, texts: Mapping[int, str]) -> KeyTexts:
        """Return the texts of a dict by key hash; "" marks a key without a text."""
        groups = np.fromiter((_group_of(text) for text in texts.values()), np.int64, len(texts))
        return cls(np.fromiter(texts, np.int64, len(texts)), groups, _object_array(texts.values(), len(texts)))

    @classmethod
    def unpack(cls, parts: Iterable[Mapping[str, bytes]]) -> KeyTexts:
        """Read several results of `pack`, whose keys are disjoint."""
        keys, groups, texts = [], [], []
        for part in parts:
            keys.append(np.frombuffer(part["keys"], np.int64))
            groups.append(np.frombuffer(part["groups"], np.int64))
            texts += json.loads(zlib.decompress(part["texts"]))
        if not keys:
            return cls.from_dict({})
        return cls(np.concatenate(keys), np.concatenate(groups), _object_array(texts, len(texts)))

    def pack(self) -> dict[str, bytes]:
        """Return the texts as they are stored."""
        texts = json.dumps(self.texts.tolist(), separators=(",", ":")).encode()
        return {"keys": self.keys.tobytes(), "groups": self.groups.tobytes(), "texts": zlib.compress(texts, 1)}

    def __len__(self) -> int:
        return len(self.keys)

    def plus(self, other: KeyTexts) -> KeyTexts:
        """Return these texts and others, whose keys are disjoint."""
        if not len(other):
            return self
        columns = ((self.keys, other.keys), (self.groups, other.groups), (self.texts, other.texts))
        return KeyTexts(*(np.concatenate(column) for column in columns))  # type: ignore[arg-type]

    def only(self, keys: Ints) -> KeyTexts:
        """Return the texts of some keys: distinct, ascending."""
        if not len(keys):
            return KeyTexts.from_dict({})
        at = np.minimum(np.searchsorted(keys, self.keys), len(keys) - 1)
        listed = keys[at] == self.keys
        return self if listed.all() else KeyTexts(self.keys[listed], self.groups[listed], self.texts[listed])

    def missing_keys(self, keys: Ints) -> Ints:
        """Return which of the keys are not here: distinct, ascending."""
        distinct = np.unique(keys)
        return distinct[~self._find(distinct)[1]]

    def text(self, key: int) -> str | None:
        """Return the text of a key, or None where it has none."""
        if key not in self._cache:
            at, exists = self._find(np.asarray([key], np.int64))
            self._cache[key] = (self.texts[at[0]] or None) if exists[0] else None
        return self._cache[key]

    def most_frequent(self, sums: KeySums, limit: int) -> Iterator[tuple[list[Any], int, int]]:
        """Yield keys as JSON lists with total and roots: of each group the `limit` largest totals and their ties."""
        at, exists = self._find(sums.keys)
        exists &= self.groups[at] != NEVER
        at, totals, roots = at[exists], sums.totals[exists], sums.roots[exists]
        if not len(at):
            return
        chosen = np.flatnonzero(_is_largest(self.groups[at], totals, limit))
        texts = self.texts[at[chosen]].tolist()
        keys = json.loads(f"[{','.join(texts)}]")
        yield from zip(keys, totals[chosen].tolist(), roots[chosen].tolist(), strict=True)

    def _find(self, keys: Ints) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return the index of each key, and whether it exists."""
        if not len(self.keys):
            return np.zeros(len(keys), np.intp), np.zeros(len(keys), np.bool_)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        exists: npt.NDArray[np.bool_] = self.keys[at] == keys
        return at, exists


def _object_array(texts: Iterable[str], length: int) -> npt.NDArray[np.object_]:
    array = np.empty(length, np.object_)
    array[:] = list(texts)
    return array


def _group_of(text: str) -> int:
    """Return the group in which a text competes."""
    if text[:1] != "[":
        return NEVER  # a symbol, or no text
    try:
        key = json.loads(text)
        if key[0] in _LOOKED_UP_KINDS:
            return NEVER
        fields = _GROUP_FIELDS.get(key[0])
    except (ValueError, TypeError, IndexError):
        return NEVER  # also a symbol: of a tool with a name such as "[mcp] search"
    return ALWAYS if fields is None else hash_key(tuple(key[fields])) | 2  # never 0 or 1


def _is_largest(groups: Ints, totals: Ints, limit: int) -> npt.NDArray[np.bool_]:
    """Mark the `limit` largest totals of each group; ties are included, so that no order decides."""
    order = np.lexsort((-totals, groups))
    ordered = groups[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    sizes = np.diff(starts, append=len(ordered))
    smallest_kept = totals[order[starts + np.minimum(sizes, limit) - 1]]  # by group
    largest = np.empty(len(groups), np.bool_)
    largest[order] = totals[order] >= np.repeat(smallest_kept, sizes)
    largest |= groups == ALWAYS
    return largest
