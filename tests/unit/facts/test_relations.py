"""One relation has one name: what a rule and a model say of it is one fact, by whatever name it was stored."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from consolidator.memory.facts.candidates import Candidate, FactExtractor, SessionContext
from consolidator.memory.facts.questions.model_extraction import read_facts
from consolidator.memory.facts.questions.session_lines import transcript_lines
from consolidator.memory.facts.questions.transcript import TranscriptChunk
from consolidator.memory.facts.reconcile import fact_id, reconcile_candidates, scope_of
from consolidator.memory.facts.relations import canonical_relation, spellings_of
from consolidator.memory.facts.rule_extraction import propose_candidates
from consolidator.memory.facts.rules import RULES
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from tests.oracle import fact_json

SESSION = SessionContext("s1", "s1", "coder", project="/src/shop", peer="mara")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SAID = [
    ("I live in Gothenburg.", "lives_in", "Gothenburg", "profile"),
    ("My name is Priya Raman.", "full_name", "Priya Raman", "profile"),
    ("I love jazz.", "loves", "jazz", "preference"),
    ("My favorite color is teal.", "favourite_color", "teal", "preference"),
    ("We use Terraform.", "uses_technology", "Terraform", "environment"),
]


def read_by_both(text: str, predicate: str, value: str, kind: str) -> tuple[Candidate, Candidate]:
    """Return what the rules and a model make of a message."""
    event = Event("s1", 1, EventType.USER_MESSAGE, {"text": text}, NOON)
    (by_rule,) = propose_candidates([event], SESSION, str).candidates
    chunk = TranscriptChunk(tuple(transcript_lines([event], SESSION, str)))
    answer = {"facts": [fact_json("P1", text, predicate, value, text, kind)]}
    (by_model,) = read_facts(chunk, answer, FactExtractor(SESSION, "model:m:1", 1)).candidates
    return by_rule, by_model


@pytest.mark.parametrize(("text", "predicate", "value", "kind"), SAID)
def test_a_rule_and_a_model_that_say_the_same_make_one_fact(text: str, predicate: str, value: str, kind: str) -> None:
    by_rule, by_model = read_by_both(text, predicate, value, kind)
    (fact,) = reconcile_candidates([by_rule, by_model])
    assert len(fact.evidence) == 2
    assert fact.predicate == by_rule.predicate


@pytest.mark.parametrize("stored", ["lives_in", "Lives in", "residence", "home"])
def test_what_was_stored_by_another_name_has_the_same_identity(stored: str) -> None:
    by_rule, _ = read_by_both(*SAID[0])
    scope = scope_of(by_rule)
    assert fact_id(scope, "user", stored, "Gothenburg") == fact_id(scope, "user", "home", "Gothenburg")
    assert {"home", "lives_in", stored} <= {*spellings_of(stored), *spellings_of("lives_in")}


@pytest.mark.parametrize("predicate", ["owns_dog", "phone", "requires", "deploys_to", "gpu", "allergic_to", "role"])
def test_what_the_table_does_not_know_keeps_its_name(predicate: str) -> None:
    assert canonical_relation(predicate) == predicate
    assert spellings_of(predicate) == [predicate]


def test_names_are_their_own_and_those_of_the_rules() -> None:
    for rule in RULES:
        if "{" not in rule.predicate:
            assert canonical_relation(rule.predicate) == rule.predicate
    for predicate in ("employer", "home", "favorite color", "date of birth"):
        assert {canonical_relation(spelling) for spelling in spellings_of(predicate)} == {predicate}
