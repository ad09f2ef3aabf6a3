"""Count keys of sessions and sum them: sparse vectors whose keys are tuples of words, as 64-bit hashes with texts.

Sums need only the hashes, are exact, and are the same in any order; the texts name the keys that are published.

Example. A session calls `get` twice and `put` once (real hashes have 64 bits; here they are 11 and 12):

    add(("step", "get")), add(("step", "get")), add(("step", "put"))
    to_arrays()          keys [11, 12], counts [2, 1]
    after commit_texts   texts {11: '["step", "get"]', 12: '["step", "put"]'}

Three sessions count the keys 11, 12 and 13; the first two are forks of one root:

    session  root  keys      counts          KeySums.of_sessions
    s1       r1    11 12     2  1            keys    11 12 13
    s2       r1    11        3               totals   6  1  4     2 + 3 + 1, 1, 4
    s3       r2    11 13     1  4            roots    2  1  1     11 in r1 and r2, 12 in r1, 13 in r2

`recurring()` keeps key 11 alone: two roots have it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
CountKey: TypeAlias = tuple[str | int, ...]  # a kind, then what is counted: ("arg", tool, path)

encode_json = json.JSONEncoder(ensure_ascii=False).encode  # created once: json.dumps creates an encoder for each call

MAX_KEYS = 50_000  # distinct keys of one session; later ones are not counted
_IGNORED = 0  # the hash of a key that is not counted


def hash_text(text: str) -> int:
    """Return a 64-bit hash that is the same on every machine and day."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def hash_key(key: CountKey) -> int:
    """Return the hash of a key."""
    return hash_text("\x1f".join(map(str, key)))


_hash_key_cached = lru_cache(maxsize=1 << 14)(hash_key)  # sessions share most keys


@lru_cache(maxsize=4)
def _public_texts(redact: Callable[[str], str]) -> Callable[[CountKey | str], str | None]:
    """Return what finds a key or symbol as text, None where redaction would change it; all sessions share its cache."""

    def find_public_text(key_or_text: CountKey | str) -> str | None:
        text = key_or_text if isinstance(key_or_text, str) else encode_json(key_or_text)
        return text if redact(text) == text else None

    return lru_cache(maxsize=1 << 14)(find_public_text)


class KeyCounts:
    """Counts keys, also across nights: earlier counts come back by hash and are added to."""

    def __init__(self, counts: Mapping[int, int] | None = None, texts: Mapping[int, str] | None = None) -> None:
        self.counts: dict[int, int] = dict(counts or {})  # by key hash
        self.texts: dict[int, str] = dict(texts or {})  # by key hash or symbol hash
        self._hashes: dict[CountKey, int] = {}  # of the keys met by this object
        self._hashes_by_last: dict[CountKey, dict[str, int]] = {}  # of keys by all parts but the last, and it
        self._pending_texts: dict[int, CountKey | str] = {}  # of new keys, until `commit_texts`
        self._pending_symbols: dict[int, str] = {}

    def add(self, key: CountKey, times: int = 1) -> None:
        """Count a key."""
        hashed = self._hashes.get(key)
        if hashed is None:
            hashed = self._register(key)
        if hashed:
            self.counts[hashed] += times

    def add_each(self, first: CountKey, lasts: Iterable[str]) -> None:
        """Count the keys that begin alike, one for each last part."""
        counts, hashes = self.counts, self._hashes_by_last.setdefault(first, {})
        for last in lasts:
            hashed = hashes.get(last)
            if hashed is None:
                hashed = hashes[last] = self._register((*first, last))
            if hashed:
                counts[hashed] += 1

    def ignore(self, key: CountKey) -> None:
        """Never count this key."""
        self._hashes[key] = _IGNORED

    def set_text(self, key: CountKey, text: str) -> None:
        """Set the text of a key whose JSON is not its text. Call it before the key is counted for the first time."""
        hashed = hash_key(key)
        if hashed not in self.texts:
            self._pending_texts[hashed] = text

    def set_symbol_text(self, symbol_hash: int, symbol: str) -> None:
        """Set the text of a symbol of the session's sequence, which is not counted here."""
        if symbol_hash not in self.texts:
            self._pending_symbols[symbol_hash] = symbol

    def __contains__(self, key: CountKey) -> bool:
        return key in self._hashes

    def _register(self, key: CountKey) -> int:
        hashed = _hash_key_cached(key)
        if hashed not in self.counts:
            if len(self.counts) >= MAX_KEYS:
                hashed = _IGNORED
            else:
                self.counts[hashed] = 0
        if hashed and hashed not in self.texts:
            self._pending_texts.setdefault(hashed, key)
        self._hashes[key] = hashed
        return hashed

    def commit_texts(self, redact: Callable[[str], str]) -> None:
        """Store the pending texts. A text that redaction would change is dropped, so its key is never published."""
        find_public_text = _public_texts(redact)
        for hashed, key_or_text in self._pending_texts.items():
            if hashed not in self.counts:
                continue
            text = find_public_text(key_or_text)
            if text is not None:
                self.texts[hashed] = text
        self._pending_texts.clear()
        for symbol_hash, symbol in self._pending_symbols.items():
            if find_public_text(symbol) is not None:
                self.texts[symbol_hash] = symbol
        self._pending_symbols.clear()

    def to_arrays(self) -> tuple[Ints, Ints]:
        """Return the key hashes, ascending, and the count of each."""
        keys = np.fromiter(self.counts.keys(), np.int64, len(self.counts))
        counts = np.fromiter(self.counts.values(), np.int64, len(self.counts))
        order = np.argsort(keys)
        return keys[order], counts[order]


MIN_RECURRING_ROOTS = 2  # roots that must have a key before anything is published about it


class SessionCounts(Protocol):
    """What one session counts."""

    @property
    def root_id(self) -> str:
        """The lineage root: forks and resumes of one session share it, and count once."""

    @property
    def keys(self) -> Ints:
        """Key hashes, each once."""

    @property
    def counts(self) -> Ints:
        """The count of each key."""


@dataclass(frozen=True, slots=True)
class KeySums:
    """Total and number of roots of each key."""

    keys: Ints  # key hashes, ascending
    totals: Ints  # times counted, by key
    roots: Ints  # distinct lineage roots, by key

    @classmethod
    def of_sessions(cls, sessions: Iterable[SessionCounts]) -> KeySums:
        """Sum sessions, in any order. Frees each large array as soon as it is not needed."""
        counted = list(sessions)
        root_numbers = {root: n for n, root in enumerate(sorted({session.root_id for session in counted}))}
        all_keys = concatenate([session.keys for session in counted])
        if not len(all_keys):
            return EMPTY_SUMS
        order = np.argsort(all_keys, kind="stable")
        all_keys = all_keys[order]
        starts = np.flatnonzero(run_starts(all_keys))
        keys = all_keys[starts]
        del all_keys
        totals = np.add.reduceat(concatenate([session.counts for session in counted])[order], starts)
        # One number for each pair of key and root; the distinct pairs of a key are its roots.
        pairs = np.repeat(np.arange(len(keys)) * len(root_numbers), np.diff(starts, append=len(order)))
        root_of_session = np.asarray([root_numbers[session.root_id] for session in counted], np.int64)
        pairs += np.repeat(root_of_session, [len(session.keys) for session in counted])[order]
        del order
        roots: Ints = np.bincount(sort_unique(pairs) // len(root_numbers), minlength=len(keys)).astype(np.int64)
        return cls(keys, totals, roots)

    def __len__(self) -> int:
        return len(self.keys)

    def recurring(self, min_roots: int = MIN_RECURRING_ROOTS) -> KeySums:
        """Return the sums of the keys that at least `min_roots` roots have."""
        recurring = self.roots >= min_roots
        return KeySums(self.keys[recurring], self.totals[recurring], self.roots[recurring])

    def totals_of(self, keys: list[int]) -> list[int]:
        """Return the total of each key; 0 where it was not counted."""
        if not len(self.keys) or not keys:
            return [0] * len(keys)
        looked_up = np.asarray(keys, np.int64)
        at = np.minimum(np.searchsorted(self.keys, looked_up), len(self.keys) - 1)
        totals: list[int] = np.where(self.keys[at] == looked_up, self.totals[at], 0).tolist()
        return totals

    def to_dict(self) -> dict[int, tuple[int, int]]:
        """Return total and roots by key."""
        totals_and_roots = zip(self.totals.tolist(), self.roots.tolist(), strict=True)
        return dict(zip(self.keys.tolist(), totals_and_roots, strict=True))


EMPTY_SUMS = KeySums(*(np.zeros(0, np.int64) for _ in range(3)))


def concatenate(arrays: list[Ints]) -> Ints:
    """Return arrays one after another; empty where there are none."""
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)


def run_starts(ordered: Ints) -> npt.NDArray[np.bool_]:
    """Mark in an ordered array where each distinct value stands first."""
    starts = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=starts[1:])
    return starts


def sort_unique(values: Ints) -> Ints:
    """Return the distinct values in order. Sorts in place: much faster than `np.unique`, which hashes."""
    values.sort()
    return values[run_starts(values)]
