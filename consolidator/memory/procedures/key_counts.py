"""Count keys of one session: a sparse vector whose keys are tuples of words, stored as 64-bit hashes with texts.

Sums over sessions need only the hashes; the texts name the keys that are published.

Example. A session calls `get` twice and `put` once (real hashes have 64 bits; here they are 11 and 12):

    add(("step", "get")), add(("step", "get")), add(("step", "put"))
    to_arrays()          keys [11, 12], counts [2, 1]
    after commit_texts   texts {11: '["step", "get"]', 12: '["step", "put"]'}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

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
