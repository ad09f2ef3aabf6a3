"""Sums that were added to and taken from are what summing all at once gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from consolidator.memory.procedures.key_counts import Ints
from consolidator.memory.procedures.key_sums import EMPTY_SUMS, KeySums, hash_lineage


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
    assert sums.minus(KeySums.of_sessions([other])).to_dict() == {11: (5, 1), 12: (1, 1)}


@given(st.lists(SESSIONS, min_size=1, max_size=6))
def test_what_changed_roots_bring_leads_where_summing_all_anew_does(states: list[dict[int, CountedSession]]) -> None:
    kept, before = EMPTY_SUMS, dict[int, CountedSession]()
    for after in states:  # sessions come, grow, shrink, go, and move to another root
        moved = {number for number in before.keys() | after.keys() if before.get(number) != after.get(number)}
        roots = {state[number].root_id for state in (before, after) for number in moved if number in state}
        old, new = ([session for session in state.values() if session.root_id in roots] for state in (before, after))
        kept = kept.plus(KeySums.of_sessions(new).minus(KeySums.of_sessions(old)))
        kept, before = KeySums.unpack(**kept.pack()), after
    assert kept.to_dict() == brute_force(list(before.values()))


@given(SESSIONS)
def test_a_change_tells_whether_it_takes_anything_away(sessions: dict[int, CountedSession]) -> None:
    whole = KeySums.of_sessions(sessions.values())
    assert not whole.has_decrease
    assert EMPTY_SUMS.minus(whole).has_decrease == bool(len(whole))


def test_a_total_that_is_not_there_is_nothing() -> None:
    sums = KeySums.of_sessions([CountedSession("a", {1: 2, 5: 3})])
    assert sums.totals_of([5, 2, 1, 9]) == [3, 0, 2, 0]
    assert EMPTY_SUMS.totals_of([1]) == [0]


def test_sums_too_large_for_half_the_bytes_are_stored_in_all_of_them() -> None:
    for large in (1, (1 << 31) - 1, 1 << 31, 1 << 40):
        sums = KeySums.of_sessions([CountedSession("a", {1: large, 5: 3})])
        assert KeySums.unpack(**sums.pack()).to_dict() == {1: (large, 1), 5: (3, 1)}
    assert KeySums.unpack(**EMPTY_SUMS.pack()).to_dict() == {}


def test_a_lineage_moves_with_each_part_of_it() -> None:
    sessions = [("s1", "r1", "p"), ("s2", "r1", "p")]
    changed = [sessions[:1], [("s1", "r2", "p"), sessions[1]], [sessions[0], ("s2", "r1", "q")], []]
    assert len({hash_lineage(sessions), *map(hash_lineage, changed)}) == 5
    assert hash_lineage(iter(sessions)) == hash_lineage(sessions)
