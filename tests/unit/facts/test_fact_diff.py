"""What a draft would change: two facts are one that says the same otherwise, or one is lost and another added."""

from __future__ import annotations

from typing import Any

import pytest

from consolidator.memory.facts.fact_diff import diff_facts
from consolidator.models.fact import BelievedFact


def fact(name: str, sentence: str, **changes: Any) -> BelievedFact:
    fields = {"agent": "coder", "level": "peer", "owner": "mara", "subject": "user", "predicate": "likes"}
    return BelievedFact(id=name, sentence=sentence, **{**fields, "turns": (f"s1:{name}",), **changes})


TEA = fact("a", "The user likes tea in the morning.")


@pytest.mark.parametrize(
    "other",
    [
        fact("b", "The user likes tea in the office."),
        fact("b", "Coffee is what the user drinks.", turns=("s1:a",)),
        fact("b", "In the morning the user takes tea.", predicate="drinks", turns=("s1:a",)),
    ],
    ids=["the same attribute, close words", "the same attribute and turn", "the same turn, close words"],
)
def test_what_says_the_same_otherwise_is_a_change(other: BelievedFact) -> None:
    diff = diff_facts([TEA], [other])
    assert (diff.changed, diff.added, diff.lost) == ([(TEA.line, other.line)], [], [])


@pytest.mark.parametrize(
    "other",
    [
        fact("b", "The user likes tea in the morning, too.", predicate="drinks"),
        fact("b", "The user likes tea in the morning.", subject="Ben", predicate="likes"),
        fact("b", "The user likes tea in the morning.", owner="ben"),
        fact("b", "The user likes long walks."),
        fact("b", "The build needs Python 3.11.", predicate="needs", turns=("s1:a",)),
    ],
    ids=["another relation and turn", "another subject", "another person's", "another value", "the same turn alone"],
)
def test_facts_about_different_things_are_not_paired(other: BelievedFact) -> None:
    diff = diff_facts([TEA], [other])
    assert (diff.changed, diff.added, diff.lost, diff.kept) == ([], [other.line], [TEA.line], 0)


def test_a_fact_is_paired_once_with_the_likeliest() -> None:
    close = fact("c", "The user likes tea in the early morning.")
    closer = fact("d", "Tea in the morning, that is what the user likes.")
    diff = diff_facts([TEA, fact("x", "Stays.")], [close, closer, fact("x", "Stays.")])
    assert diff.changed == [(TEA.line, closer.line)]
    assert (diff.added, diff.kept) == ([close.line], 1)
