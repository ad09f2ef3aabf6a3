"""Decides by code about the candidates of a model that are clear, and collects the others for a question to a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from consolidator.memory.facts.candidates import TRUST_RANK, Candidate
from consolidator.memory.facts.decisions import BY_CODE, Decision, ExistingFact, decide_onto, own_fact_id
from consolidator.memory.facts.reconcile import Scope, normalize_value, scope_of
from consolidator.memory.text import similarity

MAX_OPTIONS = 6  # facts that are shown with one candidate


@dataclass(frozen=True, slots=True)
class UnclearCandidate:
    """A candidate that code cannot decide, and the facts that it may be about, the likeliest first."""

    candidate: Candidate
    options: tuple[ExistingFact, ...]


@dataclass(slots=True)
class CandidateTriage:
    """What code decided about the candidates of one scope, and what it could not, both in the order of time."""

    decided: list[Decision]
    unclear: list[UnclearCandidate]


def triage_candidates(
    candidates: Iterable[Candidate],
    existing: Mapping[str, Sequence[ExistingFact]],
    near: Mapping[str, Mapping[str, float]] | None = None,
) -> dict[Scope, CandidateTriage]:
    """Decide what is clear; `existing` are the facts that each candidate may be about, by the candidate's id.

    `near` are cosines, by candidate and fact: a fact near by vector is an option whatever its words are.
    """
    triages: dict[Scope, CandidateTriage] = {}
    earlier: dict[Scope, list[ExistingFact]] = {}
    for candidate in sorted(candidates, key=lambda item: (item.occurred_at, item.session_id, item.seq, item.id)):
        scope = scope_of(candidate)
        triage = triages.setdefault(scope, CandidateTriage([], []))
        earlier_here = earlier.setdefault(scope, [])
        facts = [*existing.get(candidate.id, ()), *earlier_here]
        decision = _decide_by_code(candidate, facts)
        options = () if decision else _likely_options(candidate, facts, (near or {}).get(candidate.id, {}))
        if decision is None and not options:
            decision = Decision(candidate.id, "add", None, BY_CODE, "nothing like it is known")
        if decision is None:
            triage.unclear.append(UnclearCandidate(candidate, options))
        else:
            triage.decided.append(decision)
        if decision is None or decision.operation == "add":
            earlier_here.append(_as_fact(candidate))
    return triages


def has_same_attribute(candidate: Candidate, fact: ExistingFact) -> bool:
    """Tell whether a candidate and a fact answer the same attribute: subject and predicate."""
    return _has_same_subject(candidate, fact) and _has_same_predicate(candidate, fact)


def _as_fact(candidate: Candidate) -> ExistingFact:
    """Return a candidate as the fact that it makes by itself."""
    return ExistingFact(
        own_fact_id(candidate),
        candidate.subject,
        candidate.predicate,
        candidate.value,
        candidate.sentence,
        candidate.single_valued,
        candidate.trust,
    )


def _decide_by_code(candidate: Candidate, facts: Sequence[ExistingFact]) -> Decision | None:
    """Decide a candidate that says what a fact says: in the same words, or the same value in much the same words."""
    same_subject = [fact for fact in facts if _has_same_subject(candidate, fact)]
    for fact in same_subject:
        if _has_same_predicate(candidate, fact) and normalize_value(fact.value) == normalize_value(candidate.value):
            return decide_onto(candidate, fact, "reinforce", BY_CODE, "the same words")
    same_value = [fact for fact in same_subject if similarity.is_same_value(fact.value, candidate.value)]
    for fact in same_value:
        if fact.forgotten and (_has_same_predicate(candidate, fact) or _says_the_same(candidate, fact)):
            return decide_onto(candidate, fact, "reinforce", BY_CODE, "what a person had forgotten or corrected")
    for fact in same_value:
        # One more word in the fact may make it another fact: "the user's wife is", "the staging database runs".
        is_whole = _has_same_predicate(candidate, fact) or similarity.adds_no_word(fact.sentence, candidate.sentence)
        if (
            is_whole
            and similarity.adds_no_word(candidate.sentence, fact.sentence)
            and _says_the_same(candidate, fact)
            and TRUST_RANK[candidate.trust] >= TRUST_RANK[fact.trust]
        ):
            return decide_onto(candidate, fact, "reinforce", BY_CODE, "the same value in much the same words")
    return None


def _has_same_subject(candidate: Candidate, fact: ExistingFact) -> bool:
    return fact.subject.casefold() == candidate.subject.casefold()


def _has_same_predicate(candidate: Candidate, fact: ExistingFact) -> bool:
    return normalize_value(fact.predicate) == normalize_value(candidate.predicate)


def _says_the_same(candidate: Candidate, fact: ExistingFact) -> bool:
    overlap = similarity.word_overlap(candidate.sentence, fact.sentence)
    return overlap >= similarity.SAME and similarity.details_agree(candidate.sentence, fact.sentence)


def _likely_options(
    candidate: Candidate, facts: Sequence[ExistingFact], near: Mapping[str, float]
) -> tuple[ExistingFact, ...]:
    """Return the facts that a candidate may be about, the likeliest first."""
    ranked: list[tuple[float, int, ExistingFact]] = []
    for position, fact in enumerate(facts):
        likeness = max(similarity.word_overlap(candidate.sentence, fact.sentence), near.get(fact.id, 0.0))
        same_attribute = has_same_attribute(candidate, fact)
        same_value = _has_same_subject(candidate, fact) and similarity.is_same_value(fact.value, candidate.value)
        if same_attribute or same_value or likeness >= similarity.SIMILAR:
            ranked.append((-(likeness + same_attribute + same_value), position, fact))
    ranked.sort(key=lambda item: item[:2])
    return tuple(fact for _, _, fact in ranked[:MAX_OPTIONS])
