"""The texts of what sums count, each with the group in which it competes, so that only the best need be read.

Pure: which are chosen depends on sums and texts alone, and on no order.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from consolidator.memory.procedures.key_counts import Ints, hash_key
from consolidator.memory.procedures.key_sums import KeySums

ALWAYS, NEVER = 0, 1  # groups: every one is told; told of no one by itself
_LOOKED_UP = ("use", "said", "after", "task")  # by their keys, from what they belong to
_PLACES = {"const": slice(0, 3), "call": slice(0, 2), "shape": slice(0, 2), "next": slice(0, -1)}


class KeyTexts:
    """Texts by key."""

    __slots__ = ("_known", "groups", "keys", "texts")

    def __init__(self, keys: Ints, groups: Ints, texts: npt.NDArray[np.object_]) -> None:
        order = np.argsort(keys, kind="stable")
        self.keys: Ints = keys[order]
        self.groups: Ints = groups[order]
        self.texts = texts[order]
        self._known: dict[int, str | None] = {}

    @classmethod
    def from_dict(cls, terms: Mapping[int, str]) -> KeyTexts:
        """Return the names of these terms; "" is a key that has none."""
        groups = np.fromiter((_group(text) for text in terms.values()), np.int64, len(terms))
        return cls(np.fromiter(terms, np.int64, len(terms)), groups, _texts(terms.values(), len(terms)))

    @classmethod
    def unpack(cls, parts: Iterable[Mapping[str, bytes]]) -> KeyTexts:
        """Read several of what `packed` returned, of different keys."""
        keys, groups, texts = [], [], []
        for part in parts:
            keys.append(np.frombuffer(part["keys"], np.int64))
            groups.append(np.frombuffer(part["groups"], np.int64))
            texts += json.loads(zlib.decompress(part["texts"]))
        if not keys:
            return cls.from_dict({})
        return cls(np.concatenate(keys), np.concatenate(groups), _texts(texts, len(texts)))

    def pack(self) -> dict[str, bytes]:
        """Return the names as they are stored."""
        told = json.dumps(self.texts.tolist(), separators=(",", ":")).encode()
        return {"keys": self.keys.tobytes(), "groups": self.groups.tobytes(), "texts": zlib.compress(told, 1)}

    def __len__(self) -> int:
        return len(self.keys)

    def plus(self, other: KeyTexts) -> KeyTexts:
        """Return these names and others, of different keys."""
        if not len(other):
            return self
        parts = ((self.keys, other.keys), (self.groups, other.groups), (self.texts, other.texts))
        return KeyTexts(*(np.concatenate(part) for part in parts))  # type: ignore[arg-type]

    def missing_keys(self, wanted: Ints) -> Ints:
        """Return the distinct keys that are not known here, ascending."""
        found = np.unique(wanted)
        return found[~self._at(found)[1]]

    def text(self, key: int) -> str | None:
        """Return the text of a key, or None where it has none."""
        if key not in self._known:
            at, known = self._at(np.asarray([key], np.int64))
            self._known[key] = (self.texts[at[0]] or None) if known[0] else None
        return self._known[key]

    def most_frequent(self, sums: KeySums, most: int) -> Iterator[tuple[list[Any], int, int]]:
        """Yield each term that has a name, with its sums; of a group only the `most` frequent and their ties."""
        at, known = self._at(sums.keys)
        known &= self.groups[at] != NEVER
        at, totals, roots = at[known], sums.totals[known], sums.roots[known]
        if not len(at):
            return
        kept = np.flatnonzero(_best(self.groups[at], totals, most))
        texts = self.texts[at[kept]].tolist()
        terms = json.loads(f"[{','.join(texts)}]")
        yield from zip(terms, totals[kept].tolist(), roots[kept].tolist(), strict=True)

    def _at(self, keys: Ints) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return where keys stand, and whether they do."""
        if not len(self.keys):
            return np.zeros(len(keys), np.intp), np.zeros(len(keys), np.bool_)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        known: npt.NDArray[np.bool_] = self.keys[at] == keys
        return at, known


def _texts(texts: Iterable[str], count: int) -> npt.NDArray[np.object_]:
    """Return texts as an array."""
    found = np.empty(count, np.object_)
    found[:] = list(texts)
    return found


def _group(text: str) -> int:
    """Return in which group a term competes."""
    if text[:1] != "[":
        return NEVER  # a symbol, or nothing
    try:
        term = json.loads(text)
        if term[0] in _LOOKED_UP:
            return NEVER
        place = _PLACES.get(term[0])
    except (ValueError, TypeError, IndexError):
        return NEVER  # a symbol as well: of a tool that is called "[mcp] search"
    return ALWAYS if place is None else hash_key(tuple(term[place])) | 2  # neither of the two above


def _best(groups: Ints, totals: Ints, most: int) -> npt.NDArray[np.bool_]:
    """Tell which have one of the `most` largest totals of their group; ties are kept, so that no order decides."""
    order = np.lexsort((-totals, groups))
    ordered = groups[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    sizes = np.diff(begins, append=len(ordered))
    least = totals[order[begins + np.minimum(sizes, most) - 1]]  # the last that is kept, of each group
    kept = np.empty(len(groups), np.bool_)
    kept[order] = totals[order] >= np.repeat(least, sizes)
    kept |= groups == ALWAYS
    return kept
