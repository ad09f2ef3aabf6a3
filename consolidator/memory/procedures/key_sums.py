"""Sum what digests count: how often each key was counted, and in how many lineage roots.

Pure and exact, in any order.

Example. Three sessions count the keys 11, 12 and 13; the first two are forks of one root:

    session  root  keys      counts          KeySums.of_sessions
    s1       r1    11 12     2  1            keys    11 12 13
    s2       r1    11        3               totals   6  1  4     2 + 3 + 1, 1, 4
    s3       r2    11 13     1  4            roots    2  1  1     11 in r1 and r2, 12 in r1, 13 in r2

`recurring()` keeps key 11 alone: two roots have it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from consolidator.memory.procedures.key_counts import Ints

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
