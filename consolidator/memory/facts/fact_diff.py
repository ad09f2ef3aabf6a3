"""Compares the facts before and after a change: which are added, lost, or say the same thing otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from consolidator.memory.facts.reconcile import normalize_value
from consolidator.memory.text.similarity import SIMILAR, word_overlap
from consolidator.models.fact import BelievedFact


@dataclass(frozen=True, slots=True)
class FactDiff:
    """The lines of facts that differ, sorted, and the number of those that stay."""

    kept: int
    added: list[str]
    lost: list[str]
    changed: list[tuple[str, str]]  # before, after


def diff_facts(before: Iterable[BelievedFact], after: Iterable[BelievedFact]) -> FactDiff:
    """Compare facts; a lost one is paired with an added one only where both are about the same thing."""
    old, new = ({fact.id: fact for fact in facts} for facts in (before, after))
    lost = {fact_id: fact for fact_id, fact in old.items() if fact_id not in new}
    added = {fact_id: fact for fact_id, fact in new.items() if fact_id not in old}
    changed = [
        (old[fact_id].line, fact.line)
        for fact_id, fact in new.items()
        if fact_id in old and fact.line != old[fact_id].line
    ]
    for first, second in _rank_pairs(lost, added):
        if first in lost and second in added:
            changed.append((lost.pop(first).line, added.pop(second).line))
    return FactDiff(
        kept=len(old) - len(lost) - len(changed),
        added=sorted(fact.line for fact in added.values()),
        lost=sorted(fact.line for fact in lost.values()),
        changed=sorted(changed),
    )


def _attribute(fact: BelievedFact) -> tuple[str, str, str, str, str]:
    """Return what a fact answers, and whose it is."""
    return fact.agent, fact.level, fact.owner, fact.subject.casefold(), normalize_value(fact.predicate)


def _rank_pairs(lost: Mapping[str, BelievedFact], added: Mapping[str, BelievedFact]) -> list[tuple[str, str]]:
    """Return the pairs of ids that may be one fact, the likeliest first.

    Two values of one attribute are two facts ("likes tea", "likes snow"), unless the same turn proves them or their
    words are close. Facts of two attributes are one only with the same turn and close words.
    """
    by_attribute: dict[object, list[BelievedFact]] = {}
    by_turn: dict[object, list[BelievedFact]] = {}
    for fact in added.values():
        by_attribute.setdefault(_attribute(fact), []).append(fact)
        for turn in fact.turns:
            by_turn.setdefault((fact.agent, turn), []).append(fact)
    ranked = set()
    for fact in lost.values():
        same_turn = {other.id for turn in fact.turns for other in by_turn.get((fact.agent, turn), ())}
        same_attribute = {other.id for other in by_attribute.get(_attribute(fact), ())}
        for other_id in same_turn | same_attribute:
            overlap = word_overlap(fact.sentence, added[other_id].sentence)
            is_both = other_id in same_turn and other_id in same_attribute
            if is_both or overlap > SIMILAR:
                ranked.add((-is_both, -overlap, fact.id, other_id))
    return [(first, second) for _, _, first, second in sorted(ranked)]
