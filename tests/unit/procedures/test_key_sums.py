"""Sums are what counting one by one gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from consolidator.memory.procedures.key_counts import EMPTY_SUMS, Ints, KeySums


@dataclass(frozen=True)
class CountedSession:
    """What one session counts."""

    root_id: str
    counted: dict[int, int]

    @property
    def keys(self) -> Ints:
        return np.asarray(list(self.counted), np.int64)

    @property
    def counts(self) -> Ints:
        return np.asarray(list(self.counted.values()), np.int64)


COUNTED = st.dictionaries(st.integers(-4, 4), st.integers(1, 3), max_size=5)
SESSIONS = st.dictionaries(st.integers(0, 5), st.builds(CountedSession, st.sampled_from("abc"), COUNTED), max_size=6)


def brute_force(sessions: list[CountedSession]) -> dict[int, tuple[int, int]]:
    sums: dict[int, tuple[int, set[str]]] = {}
    for session in sessions:
        for key, count in session.counted.items():
            total, roots = sums.get(key, (0, set()))
            sums[key] = (total + count, roots | {session.root_id})
    return {key: (total, len(roots)) for key, (total, roots) in sums.items()}


@given(SESSIONS)
def test_sums_are_those_of_counting_one_by_one(sessions: dict[int, CountedSession]) -> None:
    assert KeySums.of_sessions(sessions.values()).to_dict() == brute_force(list(sessions.values()))


def test_the_documented_example() -> None:
    first, fork, other = (
        CountedSession("r1", {11: 2, 12: 1}),
        CountedSession("r1", {11: 3}),
        CountedSession("r2", {11: 1, 13: 4}),
    )
    sums = KeySums.of_sessions([first, fork, other])
    assert sums.to_dict() == {11: (6, 2), 12: (1, 1), 13: (4, 1)}
    assert sums.recurring().to_dict() == {11: (6, 2)}


def test_a_total_that_is_not_there_is_nothing() -> None:
    sums = KeySums.of_sessions([CountedSession("a", {1: 2, 5: 3})])
    assert sums.totals_of([5, 2, 1, 9]) == [3, 0, 2, 0]
    assert EMPTY_SUMS.totals_of([1]) == [0]
