"""What a model is asked about a candidate: only what code cannot decide, with what it needs to decide it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from consolidator.memory.facts.candidates import Candidate
from consolidator.memory.facts.questions.merge_question import SYSTEM, MergeQuestion
from consolidator.memory.facts.reconcile import reconcile_candidates, scope_of
from consolidator.memory.facts.triage import CandidateTriage, Decision, UnclearCandidate, triage_candidates
from consolidator.models.fact import ExistingFact
from tests.unit.facts.test_decisions import NOON, make_candidate, make_fact

SPOT = make_fact("f-spot", "a spot for the studio", "Jon looks for a spot for his studio.", predicate="looking_for")
SPOT = replace(SPOT, subject="Jon", single_valued=False)


def triage_one(candidate: Candidate, *facts: ExistingFact, **near: Any) -> CandidateTriage:
    return triage_candidates([candidate], {candidate.id: facts}, **near)[scope_of(candidate)]


def decide(candidate: Candidate, *facts: ExistingFact) -> Decision:
    triage = triage_one(candidate, *facts)
    assert not triage.unclear
    return triage.decided[0]


def many_valued(value: str, sentence: str, predicate: str, **changes: Any) -> Candidate:
    return make_candidate(
        "a", value, sentence, predicate=predicate, **{"subject": "Jon", "single_valued": False, **changes}
    )


@pytest.mark.parametrize(
    "candidate",
    [
        many_valued("a spot for the studio", "Gina looks for a spot for her studio.", "looking_for", subject="Gina"),
        many_valued("investors", "Jon looks for investors.", "looking_for"),
        many_valued("temp job", "Jon took a temp job to pay for his studio.", "took"),
    ],
    ids=["another subject", "another of many values", "another relation and value"],
)
def test_what_can_be_no_repetition_is_added_without_a_question(candidate: Candidate) -> None:
    assert decide(candidate, SPOT).operation == "add"


@pytest.mark.parametrize(
    "candidate",
    [
        many_valued("a place for the studio", "Jon looks for a place for his studio.", "searching_for"),
        many_valued("spot for studio, by the water", "Jon looks for a spot by the water.", "looking_for"),
    ],
    ids=["close words of another relation", "a closer value"],
)
def test_what_may_be_a_repetition_is_asked(candidate: Candidate) -> None:
    (unclear,) = triage_one(candidate, SPOT).unclear
    assert unclear.options == (SPOT,)


def test_a_near_fact_of_another_subject_is_no_target() -> None:
    candidate = many_valued("mornings", "Gina warms up early.", "likes", subject="Gina")
    triage = triage_one(candidate, SPOT, near={"a": {SPOT.id: 0.9}})
    assert [decision.operation for decision in triage.decided] == ["add"]


def test_what_a_person_had_forgotten_is_never_shown() -> None:
    forgotten = replace(SPOT, id="f-gone", value="a spot for his studio", forgotten=True)
    candidate = many_valued("a place for the studio", "Jon looks for a place for his studio.", "searching_for")
    decision = decide(candidate, forgotten)
    assert decision.flagged is not None
    assert forgotten.sentence not in decision.flagged
    (unclear,) = triage_one(candidate, forgotten, SPOT).unclear
    assert unclear.options == (SPOT,)


SERVER = make_fact("f-a", "db1", "The staging server is db1.", predicate="package_manager", said_at=NOON)


@pytest.mark.parametrize(
    ("predicate", "old", "new"),
    [("package_manager", "npm", "uv"), ("database_version", "PostgreSQL 15", "PostgreSQL 16")],
    ids=["another value", "another version"],
)
def test_a_later_value_of_a_single_valued_attribute_takes_its_place_without_a_question(
    predicate: str, old: str, new: str
) -> None:
    fact = replace(SERVER, predicate=predicate, value=old, sentence=f"The staging server has {old}.")
    later = make_candidate("b", new, f"Staging now has {new}.", predicate=predicate)
    decision = decide(later, fact)
    assert (decision.operation, decision.target_id, decision.decided_by) == ("supersede", "f-a", "code")
    first = make_candidate("z", old, fact.sentence, predicate=predicate, occurred_at=NOON)
    believed = [fact.value for fact in reconcile_candidates([later, first]) if fact.superseded_by is None]
    assert believed == [new]


def test_an_earlier_value_that_is_read_later_takes_no_place() -> None:
    earlier = make_candidate(
        "b", "atlas", "Staging is atlas.", predicate="package_manager", occurred_at=NOON - timedelta(days=9)
    )
    assert (decide(earlier, SERVER).operation, decide(earlier, SERVER).flagged) == ("add", None)
    last = make_candidate("z", "db1", SERVER.sentence, predicate="package_manager", occurred_at=NOON)
    believed = [fact.value for fact in reconcile_candidates([earlier, last]) if fact.superseded_by is None]
    assert believed == ["db1"]


@pytest.mark.parametrize(
    ("fact", "changes"),
    [
        ({"single_valued": False}, {"value": "db1 in Bern"}),
        ({"predicate": "looking_for"}, {"predicate": "looking_for"}),
        ({"said_at": None}, {}),
        ({"said_at": NOON + timedelta(days=1)}, {}),
        ({"trust": "person"}, {}),
        ({}, {"value": "db1 in Bern"}),
        ({}, {"sentence": "The staging server is not db1."}),
        ({}, {"valid_to": NOON}),
    ],
    ids=[
        "not single",
        "by a model's word alone",
        "no date",
        "the same date",
        "a person's",
        "a closer value",
        "a denial",
        "over",
    ],
)
def test_what_the_guards_do_not_allow_is_asked(fact: dict[str, Any], changes: dict[str, Any]) -> None:
    fields = {"value": "atlas", "sentence": "The staging server is atlas.", "predicate": "package_manager", **changes}
    (unclear,) = triage_one(make_candidate("b", **fields), replace(SERVER, **fact)).unclear
    assert len(unclear.options) == 1


def test_a_question_shows_dates_and_what_has_one_value_at_a_time() -> None:
    fact = replace(SERVER, valid_from=NOON - timedelta(days=400), valid_to=NOON)
    candidate = make_candidate("b", "atlas", "Staging is atlas.", single_valued=False, valid_from=NOON)
    lines = MergeQuestion((UnclearCandidate(candidate, (fact,)),)).render().splitlines()
    shown = {line[:2]: json.loads(line[3:]) for line in lines if line[:2] in ("f1", "c1")}
    assert (
        shown["f1"] | {"single_valued": True, "said": "2026-05-01", "since": "2025-03-27", "until": "2026-05-01"}
        == (shown["f1"])
    )
    assert shown["c1"] | {"said": "2026-05-02", "since": "2026-05-01", "may_target": ["f1"]} == shown["c1"]
    assert "single_valued" not in shown["c1"]
    assert "until" not in shown["c1"]
    assert all(f"`{word}`" in SYSTEM for word in ("said", "since", "until", "single_valued", "may_target"))
