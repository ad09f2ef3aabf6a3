"""Of the texts of a group the most frequent are chosen; a symbol is never taken for a key."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.memory.procedures.key_counts import KeySums, hash_text
from consolidator.memory.procedures.key_texts import KeyTexts
from tests.unit.procedures.test_key_sums import CountedSession


def test_the_documented_example() -> None:
    totals = {"main": 9, "dev": 7, "fix": 5, "wip": 5, "tmp": 1}
    texts = {n: json.dumps(["const", "git", "branch", name]) for n, name in enumerate(totals)}
    counts = dict(enumerate(totals.values()))
    key_texts = KeyTexts.from_dict(texts | {5: '["arg", "git", "branch"]'})
    chosen = key_texts.most_frequent(KeySums.of_sessions([CountedSession("a", counts | {5: 8})]), 3)
    assert [key[-1] for key, _, _ in chosen] == ["main", "dev", "fix", "wip", "branch"]


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
