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
class One:
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
SESSIONS = st.dictionaries(st.integers(0, 5), st.builds(One, st.sampled_from("abc"), COUNTED), max_size=6)


def brute_force(sessions: list[One]) -> dict[int, tuple[int, int]]:
    told: dict[int, tuple[int, set[str]]] = {}
    for one in sessions:
        for key, count in one.counted.items():
            total, roots = told.get(key, (0, set()))
            told[key] = (total + count, roots | {one.root_id})
    return {key: (total, len(roots)) for key, (total, roots) in told.items()}


@given(SESSIONS)
def test_sums_are_those_of_counting_one_by_one(sessions: dict[int, One]) -> None:
    assert KeySums.of_sessions(sessions.values()).to_dict() == brute_force(list(sessions.values()))


@given(st.lists(SESSIONS, min_size=1, max_size=6))
def test_what_changed_roots_bring_leads_where_summing_all_anew_does(states: list[dict[int, One]]) -> None:
    kept, before = EMPTY_SUMS, dict[int, One]()
    for after in states:  # sessions come, grow, shrink, go, and move to another root
        moved = {n for n in before.keys() | after.keys() if before.get(n) != after.get(n)}
        roots = {state[n].root_id for state in (before, after) for n in moved if n in state}
        old, new = ([one for one in state.values() if one.root_id in roots] for state in (before, after))
        kept = kept.plus(KeySums.of_sessions(new).minus(KeySums.of_sessions(old)))
        kept, before = KeySums.unpack(**kept.pack()), after
    assert kept.to_dict() == brute_force(list(before.values()))


@given(SESSIONS)
def test_a_change_tells_whether_it_takes_anything_away(sessions: dict[int, One]) -> None:
    whole = KeySums.of_sessions(sessions.values())
    assert not whole.has_decrease
    assert EMPTY_SUMS.minus(whole).has_decrease == bool(len(whole))


def test_a_total_that_is_not_there_is_nothing() -> None:
    sums = KeySums.of_sessions([One("a", {1: 2, 5: 3})])
    assert sums.totals_of([5, 2, 1, 9]) == [3, 0, 2, 0]
    assert EMPTY_SUMS.totals_of([1]) == [0]


def test_sums_too_large_for_half_the_bytes_are_stored_in_all_of_them() -> None:
    for large in (1, (1 << 31) - 1, 1 << 31, 1 << 40):
        sums = KeySums.of_sessions([One("a", {1: large, 5: 3})])
        assert KeySums.unpack(**sums.pack()).to_dict() == {1: (large, 1), 5: (3, 1)}
    assert KeySums.unpack(**EMPTY_SUMS.pack()).to_dict() == {}


def test_a_lineage_moves_with_each_part_of_it() -> None:
    told = [("s1", "r1", "p"), ("s2", "r1", "p")]
    others = [told[:1], [("s1", "r2", "p"), told[1]], [told[0], ("s2", "r1", "q")], []]
    assert len({hash_lineage(told), *map(hash_lineage, others)}) == 5
    assert hash_lineage(iter(told)) == hash_lineage(told)


def test_of_a_group_the_most_frequent_are_told_with_their_ties() -> None:
    terms = {n: json.dumps(["const", "git", "branch", f"b{n}"]) for n in range(6)}
    terms |= {10: '["arg", "git", "branch"]', 11: '["use", "git", "branch", "ls"]', 12: "git", 13: ""}
    counts = {0: 9, 1: 7, 2: 5, 3: 5, 4: 1, 5: 1, 10: 1, 11: 4, 12: 4, 13: 4, 99: 4}
    found = list(KeyTexts.from_dict(terms).most_frequent(KeySums.of_sessions([One("a", counts)]), limit=3))
    assert sorted(term[-1] for term, _, _ in found) == ["b0", "b1", "b2", "b3", "branch"]
    assert {term[-1]: total for term, total, _ in found}["b1"] == 7


@pytest.mark.parametrize("tool", ["[mcp] search", "[", "[]", "[1]", "[[1]]", "[{}]", '["next"]', '["use", "git"]'])
def test_a_tool_whose_name_looks_like_a_term_is_a_tool(tool: str) -> None:
    names = KeyTexts.from_dict({hash_text(tool): tool, 1: '["tool", "git", "bash"]'})
    assert names.text(hash_text(tool)) == tool
    assert [term for term, _, _ in names.most_frequent(KeySums.of_sessions([One("a", {1: 2})]), limit=3)] == [
        ["tool", "git", "bash"]
    ]


@given(st.dictionaries(st.integers(-9, 9), st.sampled_from(["", "git", '["arg", "git", "é"]'])), st.integers(-9, 9))
def test_names_that_came_in_parts_are_one(terms: dict[int, str], cut: int) -> None:
    parts = [
        KeyTexts.from_dict({key: text for key, text in terms.items() if (key < cut) is side}) for side in (True, False)
    ]
    for names in (parts[0].plus(parts[1]), KeyTexts.unpack(part.pack() for part in parts)):
        assert {key: names.text(key) for key in terms} == {key: text or None for key, text in terms.items()}
        assert names.text(77) is None
        assert names.missing_keys(np.arange(-9, 10)).tolist() == [key for key in range(-9, 10) if key not in terms]
