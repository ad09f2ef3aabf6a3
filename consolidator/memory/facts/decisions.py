"""A decision about a model's candidate: whether it adds, reinforces, refines or supersedes a fact, or does nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from consolidator.memory.facts.candidates import Candidate
from consolidator.memory.facts.reconcile import fact_id, scope_of
from consolidator.models.fact import ExistingFact

OPERATIONS = ("add", "reinforce", "refine", "supersede", "noop")
BY_CODE = "code"  # who decided, where it was no model
MAX_REASON_CHARS = 200


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
