"""Sums of what digests count: how often each key was counted, and in how many lineage roots.

Pure and exact: sums of some roots can be added to and taken from those of others, and come out as if summed at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from consolidator.memory.procedures.key_counts import Ints, hash_text

MIN_RECURRING_ROOTS = 2  # roots that must have a key before anything is told of it


class SessionCounts(Protocol):
    """What is summed of one session."""

    @property
    def root_id(self) -> str:
        """Forks and resumes of one session share it, and count once."""

    @property
    def keys(self) -> Ints:
        """What is counted, each once."""

    @property
    def counts(self) -> Ints:
        """How often."""


@dataclass(frozen=True, slots=True)
class KeySums:
    """How often each key was counted, and in how many roots."""

    keys: Ints  # ascending
    totals: Ints
    roots: Ints

    @classmethod
    def of_sessions(cls, sessions: Iterable[SessionCounts]) -> KeySums:
        """Sum sessions, in whatever order. Large: what is done with is let go at once."""
        found = list(sessions)
        numbers = {root: n for n, root in enumerate(sorted({one.root_id for one in found}))}
        keys = concatenate([one.keys for one in found])
        if not len(keys):
            return EMPTY_SUMS
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        begins = np.flatnonzero(run_starts(keys))
        names = keys[begins]
        del keys
        totals = np.add.reduceat(concatenate([one.counts for one in found])[order], begins)
        pairs = np.repeat(np.arange(len(names)) * len(numbers), np.diff(begins, append=len(order)))
        root_of = np.asarray([numbers[one.root_id] for one in found], np.int64)
        pairs += np.repeat(root_of, [len(one.keys) for one in found])[order]
        del order
        roots: Ints = np.bincount(sort_unique(pairs) // len(numbers), minlength=len(names)).astype(np.int64)
        return cls(names, totals, roots)

    @classmethod
    def unpack(cls, keys: bytes, totals: bytes, roots: bytes) -> KeySums:
        """Read what `packed` returned."""
        names = np.frombuffer(keys, np.int64)
        wide = 8 * len(names)  # bytes of the wider of the two forms
        to_dict = (np.frombuffer(one, np.int64 if len(one) == wide else np.int32) for one in (totals, roots))
        return cls(names, *(one.astype(np.int64) for one in to_dict))

    def pack(self) -> dict[str, bytes]:
        """Return the sums as they are stored: in half the bytes, but where they are larger than any should be."""
        told = {"totals": self.totals, "roots": self.roots}
        small = {name: one.astype(np.int32) for name, one in told.items() if not len(one) or one.max() < 1 << 31}
        return {"keys": self.keys.tobytes(), **{name: small.get(name, one).tobytes() for name, one in told.items()}}

    def __len__(self) -> int:
        return len(self.keys)

    def plus(self, other: KeySums, sign: int = 1) -> KeySums:
        """Return these sums with those of other roots added, or taken away; what no root has any more is gone."""
        if not len(other):
            return self
        if not len(self):
            return KeySums(other.keys, sign * other.totals, sign * other.roots)
        at = np.searchsorted(self.keys, other.keys)
        known = self.keys[np.minimum(at, len(self.keys) - 1)] == other.keys
        totals, roots = self.totals.copy(), self.roots.copy()
        totals[at[known]] += sign * other.totals[known]
        roots[at[known]] += sign * other.roots[known]
        new = ~known
        keys = np.insert(self.keys, at[new], other.keys[new])
        totals = np.insert(totals, at[new], sign * other.totals[new])
        roots = np.insert(roots, at[new], sign * other.roots[new])
        left = (roots != 0) | (totals != 0)
        return KeySums(keys, totals, roots) if left.all() else KeySums(keys[left], totals[left], roots[left])

    def minus(self, other: KeySums) -> KeySums:
        """Return these sums without those of other roots."""
        return self.plus(other, -1)

    @property
    def has_decrease(self) -> bool:
        """Whether these, as a change, take anything away."""
        return bool((self.totals < 0).any() or (self.roots < 0).any())

    def recurring(self, least: int = MIN_RECURRING_ROOTS) -> KeySums:
        """Return the sums of the keys that enough roots have."""
        kept = self.roots >= least
        return KeySums(self.keys[kept], self.totals[kept], self.roots[kept])

    def totals_of(self, wanted: list[int]) -> list[int]:
        """Return how often each key was counted; 0 where it was not."""
        if not len(self.keys) or not wanted:
            return [0] * len(wanted)
        keys = np.asarray(wanted, np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        found: list[int] = np.where(self.keys[at] == keys, self.totals[at], 0).tolist()
        return found

    def told(self) -> dict[int, tuple[int, int]]:
        """Return total and roots by key."""
        both = zip(self.totals.tolist(), self.roots.tolist(), strict=True)
        return dict(zip(self.keys.tolist(), both, strict=True))


EMPTY_SUMS = KeySums(*(np.zeros(0, np.int64) for _ in range(3)))


def hash_lineage(sessions: Iterable[tuple[str, ...]]) -> int:
    """Return one number for a list of sessions, each with what places it: it moves when any of them does."""
    return hash_text("\x1e".join(map("\x1f".join, sessions)))


def concatenate(arrays: list[Ints]) -> Ints:
    """Return arrays one after another."""
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)


def run_starts(ordered: Ints) -> npt.NDArray[np.bool_]:
    """Tell of an ordered array where each value stands for the first time."""
    begins = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    return begins


def sort_unique(values: Ints) -> Ints:
    """Return the distinct values in order; sorts in place, and much faster than `np.unique`, which hashes."""
    values.sort()
    return values[run_starts(values)]
