"""Sum what digests count: how often each key was counted, and in how many lineage roots.

Pure and exact: sums of some roots can be added to and subtracted from others, with the same result as summing at once.

Example. Three sessions count the keys 11, 12 and 13; the first two are forks of one root:

    session  root  keys      counts          KeySums.of_sessions
    s1       r1    11 12     2  1            keys    11 12 13
    s2       r1    11        3               totals   6  1  4     2 + 3 + 1, 1, 4
    s3       r2    11 13     1  4            roots    2  1  1     11 in r1 and r2, 12 in r1, 13 in r2

`recurring()` keeps key 11 alone: two roots have it. `minus` the sums of s3 leaves keys 11 12, totals 5 1, roots 1 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from consolidator.memory.procedures.key_counts import Ints, hash_text

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

    @classmethod
    def unpack(cls, keys: bytes, totals: bytes, roots: bytes) -> KeySums:
        """Read what `pack` returned."""
        key_array = np.frombuffer(keys, np.int64)
        wide = 8 * len(key_array)  # bytes of an int64 array; an int32 array has half
        arrays = (np.frombuffer(data, np.int64 if len(data) == wide else np.int32) for data in (totals, roots))
        return cls(key_array, *(array.astype(np.int64) for array in arrays))

    def pack(self) -> dict[str, bytes]:
        """Return the sums as they are stored: int64 keys; totals and roots as int32 where they fit, else int64."""
        return {
            "keys": self.keys.tobytes(),
            "totals": _narrow_bytes(self.totals),
            "roots": _narrow_bytes(self.roots),
        }

    def __len__(self) -> int:
        return len(self.keys)

    def plus(self, other: KeySums, sign: int = 1) -> KeySums:
        """Add the sums of other roots (subtract with `sign` -1); keys that no root has any more are dropped."""
        if not len(other):
            return self
        if not len(self):
            return KeySums(other.keys, sign * other.totals, sign * other.roots)
        at = np.searchsorted(self.keys, other.keys)
        exists = self.keys[np.minimum(at, len(self.keys) - 1)] == other.keys
        totals, roots = self.totals.copy(), self.roots.copy()
        totals[at[exists]] += sign * other.totals[exists]
        roots[at[exists]] += sign * other.roots[exists]
        new = ~exists
        keys = np.insert(self.keys, at[new], other.keys[new])
        totals = np.insert(totals, at[new], sign * other.totals[new])
        roots = np.insert(roots, at[new], sign * other.roots[new])
        kept = (roots != 0) | (totals != 0)
        return KeySums(keys, totals, roots) if kept.all() else KeySums(keys[kept], totals[kept], roots[kept])

    def minus(self, other: KeySums) -> KeySums:
        """Subtract the sums of other roots."""
        return self.plus(other, -1)

    def as_one_person(self, before: KeySums) -> KeySums:
        """Return a change of one person's sums as a change of sums that count people.

        `before` are the person's sums without the change: a key that they have not has one more person now.
        """
        if not len(before):
            return KeySums(self.keys, self.totals, np.ones(len(self), np.int64))
        at = np.minimum(np.searchsorted(before.keys, self.keys), len(before) - 1)
        return KeySums(self.keys, self.totals, (before.keys[at] != self.keys).astype(np.int64))

    @property
    def has_decrease(self) -> bool:
        """Whether these sums, as a change, take anything away."""
        return bool((self.totals < 0).any() or (self.roots < 0).any())

    def recurring(self, min_roots: int = MIN_RECURRING_ROOTS) -> KeySums:
        """Return the sums of the keys that at least `min_roots` roots have."""
        kept = self.roots >= min_roots
        return KeySums(self.keys[kept], self.totals[kept], self.roots[kept])

    def totals_of(self, keys: list[int]) -> list[int]:
        """Return the total of each key; 0 where it was not counted."""
        if not len(self.keys) or not keys:
            return [0] * len(keys)
        wanted = np.asarray(keys, np.int64)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        totals: list[int] = np.where(self.keys[at] == wanted, self.totals[at], 0).tolist()
        return totals

    def to_dict(self) -> dict[int, tuple[int, int]]:
        """Return total and roots by key."""
        totals_and_roots = zip(self.totals.tolist(), self.roots.tolist(), strict=True)
        return dict(zip(self.keys.tolist(), totals_and_roots, strict=True))


EMPTY_SUMS = KeySums(*(np.zeros(0, np.int64) for _ in range(3)))


def _narrow_bytes(values: Ints) -> bytes:
    fits = not len(values) or values.max() < 1 << 31
    return values.astype(np.int32).tobytes() if fits else values.tobytes()


def hash_lineage(sessions: Iterable[tuple[str, ...]]) -> int:
    """Return one hash of a list of sessions, each with the fields that place it: it changes when any of them does."""
    return hash_text("\x1e".join(map("\x1f".join, sessions)))


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
