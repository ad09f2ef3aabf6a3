"""The rules on labelled sentences: how many facts they find, and how many of them are right.

Each line of labelled_sentences.jsonl has a sentence, its context (to an agent in a project or in a chat, or to other
people), the predicate that a reader expects (null: no fact), and, where the rules miss that, the predicate that they
find today.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from consolidator.memory.facts.rules import RULES, Rule
from consolidator.memory.facts.statements import Statement, find_statements
from consolidator.memory.text.sentences import split_sentences

PRECISION, RECALL = 152 / 155, 152 / 197  # of the rules as they are; raise them when a rule becomes better


@dataclass(frozen=True, slots=True)
class LabelledSentence:
    """A sentence, and the predicate of the fact that it states."""

    sentence: str
    context: str  # project | chat | people
    expected: str | None
    today: str | None

    def find_fact(self) -> Statement | None:
        """Return the fact that the rules find in it, as in a message."""
        at_work, among_people = self.context == "project", self.context == "people"
        statements = (
            statement
            for part in split_sentences(self.sentence)
            for statement in find_statements(part, at_work=at_work, among_people=among_people)
        )
        return next((statement for statement in statements if statement.rejected is None), None)


def read_sentences() -> list[LabelledSentence]:
    lines = (Path(__file__).parent / "labelled_sentences.jsonl").read_text(encoding="utf-8").splitlines()
    return [LabelledSentence(**{"today": entry["expected"], **entry}) for entry in map(json.loads, lines)]


SENTENCES = read_sentences()


def found_predicate(labelled: LabelledSentence) -> str | None:
    fact = labelled.find_fact()
    return None if fact is None else fact.predicate


def test_the_rules_find_no_fewer_facts_than_before_and_no_more_wrong_ones() -> None:
    found = [(found_predicate(labelled), labelled.expected) for labelled in SENTENCES]
    right = sum(predicate is not None and predicate == expected for predicate, expected in found)
    assert right / sum(predicate is not None for predicate, _ in found) >= PRECISION
    assert right / sum(expected is not None for _, expected in found) >= RECALL


def test_the_known_misses_are_up_to_date() -> None:
    different = {
        labelled.sentence: (labelled.today, found_predicate(labelled))
        for labelled in SENTENCES
        if found_predicate(labelled) != labelled.today
    }
    assert different == {}


def test_each_rule_finds_a_fact_in_one_of_the_sentences() -> None:
    facts = [labelled.find_fact() for labelled in SENTENCES]
    assert {rule.name for rule in RULES} == {fact.rule for fact in facts if fact is not None}


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.name) for rule in RULES])
def test_a_rule_finds_the_fact_in_its_own_example(rule: Rule) -> None:
    (fact,) = find_statements(rule.example, at_work=True)
    assert (fact.rule, fact.rejected) == (rule.name, None)


def test_sentences_and_names_of_rules_are_unique() -> None:
    assert len({(labelled.sentence, labelled.context) for labelled in SENTENCES}) == len(SENTENCES)
    assert len({rule.name for rule in RULES}) == len(RULES)
