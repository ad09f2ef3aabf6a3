"""Sums that were added to and taken from are what summing all at once gives; names are those of the most frequent."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.memory.procedures.key_counts import Ints, hash_text
from consolidator.memory.procedures.key_sums import EMPTY_SUMS, KeySums, hash_lineage
from consolidator.memory.procedures.key_texts import KeyTexts


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


def test_of_a_group_the_most_frequent_are_told_with_their_ties() -> None:
    texts = {n: json.dumps(["const", "git", "branch", f"b{n}"]) for n in range(6)}
    texts |= {10: '["arg", "git", "branch"]', 11: '["use", "git", "branch", "ls"]', 12: "git", 13: ""}
    counts = {0: 9, 1: 7, 2: 5, 3: 5, 4: 1, 5: 1, 10: 1, 11: 4, 12: 4, 13: 4, 99: 4}
    chosen = list(KeyTexts.from_dict(texts).most_frequent(KeySums.of_sessions([CountedSession("a", counts)]), limit=3))
    assert sorted(key[-1] for key, _, _ in chosen) == ["b0", "b1", "b2", "b3", "branch"]
    assert {key[-1]: total for key, total, _ in chosen}["b1"] == 7


@pytest.mark.parametrize("tool", ["[mcp] search", "[", "[]", "[1]", "[[1]]", "[{}]", '["next"]', '["use", "git"]'])
def test_a_tool_whose_name_looks_like_a_term_is_a_tool(tool: str) -> None:
    texts = KeyTexts.from_dict({hash_text(tool): tool, 1: '["tool", "git", "bash"]'})
    assert texts.text(hash_text(tool)) == tool
    assert [key for key, _, _ in texts.most_frequent(KeySums.of_sessions([CountedSession("a", {1: 2})]), limit=3)] == [
        ["tool", "git", "bash"]
    ]


@given(st.dictionaries(st.integers(-9, 9), st.sampled_from(["", "git", '["arg", "git", "é"]'])), st.integers(-9, 9))
def test_names_that_came_in_parts_are_one(texts: dict[int, str], cut: int) -> None:
    parts = [
        KeyTexts.from_dict({key: text for key, text in texts.items() if (key < cut) is is_below})
        for is_below in (True, False)
    ]
    for joined in (parts[0].plus(parts[1]), KeyTexts.unpack(part.pack() for part in parts)):
        assert {key: joined.text(key) for key in texts} == {key: text or None for key, text in texts.items()}
        assert joined.text(77) is None
        assert joined.missing_keys(np.arange(-9, 10)).tolist() == [key for key in range(-9, 10) if key not in texts]
