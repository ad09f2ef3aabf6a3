"""Decides by code about the candidates of a model that are clear, and collects the others for a question to a model.

A decision says whether a candidate adds, reinforces, refines or supersedes a fact, or does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from consolidator.memory.facts.candidates import Candidate, trust_tier
from consolidator.memory.facts.reconcile import Scope, fact_id, normalize_value, scope_of
from consolidator.memory.facts.relations import canonical_relation, is_single_valued
from consolidator.memory.text import similarity
from consolidator.models.fact import ExistingFact

OPERATIONS = ("add", "reinforce", "refine", "supersede", "noop")
BY_CODE = "code"  # who decided, where it was no model
MAX_REASON_CHARS = 200
MAX_OPTIONS = 6  # facts that are shown with one candidate
CLOSE_VALUES = 0.5  # share of the shorter value's words that the other has, from which both may be the same
CLOSE_WORDS = 0.5  # word overlap from which sentences of other relations are compared, the subject's name left out


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done with a candidate. Subject, predicate and value are those it counts for; None: its own."""

    candidate_id: str
    operation: str  # one of OPERATIONS
    target_id: str | None  # the fact that it is about
    decided_by: str  # BY_CODE, or the model
    why: str
    flagged: str | None = None  # why both were kept
    subject: str | None = None
    predicate: str | None = None
    value: str | None = None


def own_fact_id(candidate: Candidate) -> str:
    """Return the id of the fact that a candidate makes by itself."""
    return fact_id(scope_of(candidate), candidate.subject, candidate.predicate, candidate.value)


def decided_fact_id(decision: Decision, candidate: Candidate) -> str:
    """Return the id of the fact that a candidate counts for by a decision, at the first time that its value holds."""
    if decision.subject is None:
        return own_fact_id(candidate)
    return fact_id(scope_of(candidate), decision.subject, str(decision.predicate), str(decision.value))


def decide_onto(
    candidate: Candidate, target: ExistingFact, operation: str, by: str, why: str, *, value: str | None = None
) -> Decision:
    """Return the decision that a candidate counts for its target's attribute, with the target's value or another."""
    value = target.value if value is None else value
    is_own = (target.subject, target.predicate, value) == (candidate.subject, candidate.predicate, candidate.value)
    counts_for = (None, None, None) if is_own else (target.subject, target.predicate, value)
    return Decision(candidate.id, operation, target.id, by, why[:MAX_REASON_CHARS], None, *counts_for)


def keep_beside(candidate: Candidate, flag: str, *, by: str = BY_CODE) -> Decision:
    """Return the decision to keep a candidate beside what it resembles."""
    return Decision(candidate.id, "add", None, by, "kept beside what it resembles", flag[:MAX_REASON_CHARS])


def follow_moved_targets(candidates: Mapping[str, Candidate], decisions: Sequence[Decision]) -> list[Decision]:
    """Return decisions in the same order, with targets that still exist when all of them hold.

    A target may be the own fact of a candidate that another decision moved to another fact: then both count for that.
    """
    moved: dict[str, Decision] = {}  # by the fact that the candidate would have made
    followed = []
    for decision in decisions:
        move = moved.get(decision.target_id or "")
        if move is not None:
            candidate = candidates[decision.candidate_id]
            value = candidate.value if decision.operation == "supersede" else move.value
            # A candidate that superseded its target made a fact of its own; any other made none.
            target_id = decided_fact_id(move, candidate) if move.operation == "supersede" else move.target_id
            decision = replace(
                decision, target_id=target_id, subject=move.subject, predicate=move.predicate, value=value
            )
        if decision.subject is not None:
            moved[own_fact_id(candidates[decision.candidate_id])] = decision
        followed.append(decision)
    return followed


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
            # What resembles a forgotten fact is for a person to decide; its words are repeated and shown to no model.
            alike = next((fact.id for fact in facts if fact.forgotten and _is_related(candidate, fact, 0.0)), None)
            flag = alike and f"it resembles what a person had forgotten or corrected: {alike}"[:MAX_REASON_CHARS]
            decision = Decision(candidate.id, "add", None, BY_CODE, "nothing like it is known", flag)
        if decision is None:
            triage.unclear.append(UnclearCandidate(candidate, options))
        else:
            triage.decided.append(decision)
        if decision is None or decision.operation in ("add", "supersede"):
            earlier_here.append(_as_fact(candidate))
    return triages


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
        valid_from=candidate.valid_from,
        valid_to=candidate.valid_to,
        said_at=candidate.occurred_at,
    )


def _decide_by_code(candidate: Candidate, facts: Sequence[ExistingFact]) -> Decision | None:
    """Decide a candidate that says what a fact says, or that gives a single-valued attribute another value."""
    same_subject = [fact for fact in facts if has_same_subject(candidate, fact)]
    for fact in same_subject:
        is_above = trust_tier(fact.trust) > trust_tier(candidate.trust) and not fact.forgotten
        if is_above and has_same_predicate(candidate, fact) and has_same_value(candidate, fact):
            return decide_onto(candidate, fact, "noop", BY_CODE, "said already by a more trusted source")
    same_subject = [fact for fact in same_subject if may_merge(candidate, fact)]
    for fact in same_subject:
        if has_same_predicate(candidate, fact) and has_same_value(candidate, fact):
            return decide_onto(candidate, fact, "reinforce", BY_CODE, "the same words")
    same_value = [fact for fact in same_subject if similarity.is_same_value(fact.value, candidate.value)]
    for fact in same_value:
        if fact.forgotten and (has_same_predicate(candidate, fact) or _says_the_same(candidate, fact)):
            return decide_onto(candidate, fact, "reinforce", BY_CODE, "what a person had forgotten or corrected")
    for fact in same_value:
        # One more word in the fact may make it another fact: "the user's wife is", "the staging database runs".
        is_whole = has_same_predicate(candidate, fact) or similarity.adds_no_word(fact.sentence, candidate.sentence)
        if is_whole and similarity.adds_no_word(candidate.sentence, fact.sentence) and _says_the_same(candidate, fact):
            return decide_onto(candidate, fact, "reinforce", BY_CODE, "the same value in much the same words")
    return _decide_other_value(candidate, same_subject)


def _decide_other_value(candidate: Candidate, same_subject: Sequence[ExistingFact]) -> Decision | None:
    """Decide a candidate with quite another value of a single-valued attribute: the later of the two holds."""
    rivals = [
        (fact.said_at, fact)
        for fact in same_subject
        if fact.said_at is not None and not fact.forgotten and has_same_predicate(candidate, fact)
    ]
    said_at, fact = max(rivals, key=lambda rival: rival[0], default=(None, None))
    if said_at is None or fact is None or said_at == candidate.occurred_at or not _excludes(candidate, fact):
        return None
    if said_at < candidate.occurred_at:
        return decide_onto(candidate, fact, "supersede", BY_CODE, "a later value", value=candidate.value)
    return Decision(candidate.id, "add", None, BY_CODE, "an earlier value")


def _excludes(candidate: Candidate, fact: ExistingFact) -> bool:
    """Tell whether a candidate and a fact of one attribute cannot both hold, and either may take the other's place.

    Models call many a relation single-valued that is not ("is looking for"), so their word alone does not end a fact.
    """
    values_differ = similarity.is_same_but_numbers(candidate.value, fact.value) or (
        is_single_valued(candidate.predicate)
        and not similarity.content_words(candidate.value) & similarity.content_words(fact.value)
    )
    is_denial = similarity.is_negated(candidate.sentence) or similarity.is_negated(fact.sentence)
    is_over = candidate.valid_to is not None or fact.valid_to is not None
    return (
        candidate.single_valued
        and fact.single_valued
        and candidate.trust == fact.trust
        and values_differ
        and not is_denial
        and not is_over
    )


def may_merge(candidate: Candidate, fact: ExistingFact) -> bool:
    """Tell whether a candidate may count for a fact: it is as trusted, or a person does not want the fact believed.

    Otherwise a tool's words would pass for a person's, either way round.
    """
    return fact.forgotten or trust_tier(candidate.trust) == trust_tier(fact.trust)


def has_same_value(candidate: Candidate, fact: ExistingFact) -> bool:
    """Tell whether the values of a candidate and a fact are the same words."""
    return normalize_value(fact.value) == normalize_value(candidate.value)


def has_same_subject(candidate: Candidate, fact: ExistingFact) -> bool:
    """Tell whether a candidate and a fact are about the same subject."""
    return fact.subject.casefold() == candidate.subject.casefold()


def has_same_predicate(candidate: Candidate, fact: ExistingFact) -> bool:
    """Tell whether the predicates of a candidate and a fact are one relation."""
    names = [normalize_value(canonical_relation(predicate)) for predicate in (fact.predicate, candidate.predicate)]
    return names[0] == names[1]


def _says_the_same(candidate: Candidate, fact: ExistingFact) -> bool:
    overlap = similarity.word_overlap(candidate.sentence, fact.sentence)
    return overlap >= similarity.SAME and similarity.details_agree(candidate.sentence, fact.sentence)


def _likely_options(
    candidate: Candidate, facts: Sequence[ExistingFact], near: Mapping[str, float]
) -> tuple[ExistingFact, ...]:
    """Return the facts that a candidate may be about, the likeliest first; never those of another subject.

    What a person told memory to forget is compared by code alone: it is not shown to a model.
    """
    ranked: list[tuple[float, int, ExistingFact]] = []
    for position, fact in enumerate(facts):
        cosine = near.get(fact.id, 0.0)
        if not fact.forgotten and may_merge(candidate, fact) and _is_related(candidate, fact, cosine):
            likeness = max(similarity.word_overlap(candidate.sentence, fact.sentence), cosine)
            is_close = has_same_predicate(candidate, fact) + _value_closeness(candidate, fact)
            ranked.append((-(likeness + is_close), position, fact))
    ranked.sort(key=lambda item: item[:2])
    return tuple(fact for _, _, fact in ranked[:MAX_OPTIONS])


def _is_related(candidate: Candidate, fact: ExistingFact, cosine: float) -> bool:
    """Tell whether a candidate may be about a fact: the same subject, and close values, sentences or vectors.

    Two values of one relation that share few words hold beside each other, unless the relation is single-valued.
    """
    if not has_same_subject(candidate, fact):
        return False
    if cosine or similarity.is_same_value(fact.value, candidate.value):
        return True
    is_close = _value_closeness(candidate, fact) >= CLOSE_VALUES
    # The name of their subject both have anyway.
    subject = similarity.content_words(candidate.subject)
    first, second = (similarity.content_words(each.sentence) - subject for each in (candidate, fact))
    overlap = len(first & second) / len(first | second) if first and second else 0.0
    if has_same_predicate(candidate, fact):
        return (candidate.single_valued and fact.single_valued) or is_close or overlap >= CLOSE_WORDS
    return overlap >= CLOSE_WORDS or (is_close and overlap >= similarity.SIMILAR)


def _value_closeness(candidate: Candidate, fact: ExistingFact) -> float:
    """Return the share of the shorter value's content words that the other value has, too: 0 to 1."""
    first, second = similarity.content_words(candidate.value), similarity.content_words(fact.value)
    return len(first & second) / min(len(first), len(second)) if first and second else 0.0
