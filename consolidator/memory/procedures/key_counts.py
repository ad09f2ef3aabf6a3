"""A sparse vector of whatever is counted: each key is a tuple of words, kept as a 64-bit hash with its text.

Sums over digests need only the hashes; the texts name the winners.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
CountKey: TypeAlias = tuple[str | int, ...]

encode_json = json.JSONEncoder(ensure_ascii=False).encode  # made once: json.dumps makes an encoder for each call

MAX_KEYS = 50_000  # distinct keys of one session; later ones are not counted


def hash_text(text: str) -> int:
    """Return a 64-bit hash that is the same on every machine and day."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def hash_key(key: CountKey) -> int:
    """Return the hash of a key."""
    return hash_text("\x1f".join(map(str, key)))


class KeyCounts:
    """Counts keys; what was counted before a cut comes back as hashes, and goes on."""

    def __init__(self, totals: Mapping[int, int] | None = None, texts: Mapping[int, str] | None = None) -> None:
        self.totals: dict[int, int] = dict(totals or {})
        self.terms: dict[int, str] = dict(texts or {})
        self._slots: dict[CountKey, int] = {}
        self._new: dict[int, CountKey | str] = {}  # counted, but not yet named
        self._labels: dict[int, str] = {}

    def add(self, key: CountKey, often: int = 1) -> None:
        """Count a key."""
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slot(key)
        if slot:
            self.totals[slot] += often

    def reserve(self, key: CountKey) -> None:
        """Give a key its place now, while there is room; what it counts is added later."""
        if key not in self._slots:
            self._slot(key)

    def ignore(self, key: CountKey) -> None:
        """Never count this key."""
        self._slots[key] = 0

    def set_text(self, key: CountKey, text: str) -> None:
        """Name a key that does not say it all by itself; before it is counted for the first time."""
        slot = hash_key(key)
        if slot not in self.terms:
            self._new[slot] = text

    def set_symbol_text(self, value: int, text: str) -> None:
        """Name a hash that is not counted here, such as a symbol of the sequence."""
        if value not in self.terms:
            self._labels[value] = text

    def __contains__(self, key: CountKey) -> bool:
        return key in self._slots

    def _slot(self, key: CountKey) -> int:
        slot = hash_key(key)
        if slot not in self.totals:
            if len(self.totals) >= MAX_KEYS:
                slot = 0
            else:
                self.totals[slot] = 0
        if slot and slot not in self.terms:
            self._new.setdefault(slot, key)
        self._slots[key] = slot
        return slot

    def commit_texts(self, redact: Callable[[str], str]) -> None:
        """Turn new names into terms; what redaction would change stays without a name, and is never published."""
        for slot, name in self._new.items():
            if slot not in self.totals:
                continue
            text = name if isinstance(name, str) else encode_json(name)
            if redact(text) == text:
                self.terms[slot] = text
        self._new.clear()
        for value, text in self._labels.items():
            if redact(text) == text:
                self.terms[value] = text
        self._labels.clear()

    def to_arrays(self) -> tuple[Ints, Ints]:
        """Return keys in ascending order, and how often each was counted."""
        keys = np.fromiter(self.totals.keys(), np.int64, len(self.totals))
        counts = np.fromiter(self.totals.values(), np.int64, len(self.totals))
        order = np.argsort(keys)
        return keys[order], counts[order]
