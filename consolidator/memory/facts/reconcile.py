"""Turns candidates into facts: equal values reinforce one another, a later value supersedes an earlier one.

The facts are a function of the set of candidates, in whatever order they come. Nothing is deleted: a superseded fact
keeps the time in which it was true.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from consolidator.memory.facts.candidates import (
    ENDINGS,
    EXPLICIT_EXTRACTORS,
    TRUST_RANK,
    Candidate,
    count_steers,
    hash_texts,
    trust_tier,
)
from consolidator.memory.facts.endings import drop_ended
from consolidator.memory.facts.instructions import is_same_order, order_key
from consolidator.memory.facts.relations import canonical_relation
from consolidator.models.fact import UNKNOWN_START, Assertion, CorrectionRow, SupersededReason

_CODE = re.compile(r"`[^`\n]+`")
STANDING_COUNT = 3  # equal answers in a row, or sessions with the same steer, that make a standing preference

Scope = tuple[str, str, str | None, str | None]  # agent, level, project, peer
Attribute = tuple[Scope, str, str]  # scope, subject, name of the relation: what a fact answers


@dataclass(frozen=True, slots=True)
class Fact(Assertion):
    """What is believed, when it was true, and what it rests on."""

    id: str
    valid_from: datetime
    valid_to: datetime | None
    superseded_by: str | None  # the fact that replaced it, or the candidate that ended a standing preference
    superseded_reason: SupersededReason | None
    sessions: int  # distinct lineage roots that support it
    evidence: tuple[str, ...]  # ids of candidates, in the order of time
    steers: int = 0  # that it was said in
    steers_succeeded: int = 0  # those of them whose task succeeded after it
    steers_failed: int = 0


def scope_of(assertion: Assertion | CorrectionRow) -> Scope:
    """Return whose memory an assertion belongs to; a project or peer that its level does not name is left out."""
    project = assertion.project if assertion.level == "project" else None
    peer = assertion.peer if assertion.level == "peer" else None
    return assertion.agent, assertion.level, project, peer


def attribute_of(assertion: Assertion | CorrectionRow) -> Attribute:
    """Return the attribute that an assertion answers."""
    return scope_of(assertion), assertion.subject, normalize_value(canonical_relation(assertion.predicate))


def reconcile_candidates(candidates: Iterable[Candidate]) -> list[Fact]:
    """Return the facts of candidates, in any order; each attribute of a scope must be complete, and so its endings."""
    groups: dict[Attribute, list[Candidate]] = defaultdict(list)
    endings: dict[Scope, list[Candidate]] = defaultdict(list)
    for candidate in {candidate.id: candidate for candidate in candidates}.values():
        attribute = attribute_of(candidate)
        if candidate.predicate in ENDINGS:
            endings[attribute[0]].append(candidate)
            continue
        if candidate.predicate == "approval":  # each operation is approved or denied on its own
            attribute = (*attribute[:2], normalize_value(f"approval {_operation_of(candidate)}"))
        elif candidate.kind == "observation":  # whatever else is said by the same name
            attribute = (*attribute[:2], f"observation {attribute[2]}")
        groups[attribute].append(candidate)
    facts: list[Fact] = []
    for group in groups.values():
        ordered = sorted(group, key=_time_order)
        if ordered[0].predicate == "approval":
            facts += _standing_approvals(ordered)
        elif ordered[0].predicate == "instruction":
            facts += _accepted_instructions(ordered)
        elif ordered[0].kind == "observation":
            facts += _observations(ordered, drop_ended(ordered, endings[scope_of(ordered[0])]))
        else:
            of_attribute = _facts_by_trust(_unify_orders(ordered))
            ended = _opposites(ordered) | drop_ended(ordered, endings[scope_of(ordered[0])])
            facts += [_end(fact, ended) for fact in of_attribute] if ended else of_attribute
    return sorted(facts, key=lambda fact: (fact.valid_from, fact.id))


def _end(fact: Fact, ended: Mapping[str, Candidate]) -> Fact:
    """Return a fact, over where all of its evidence was taken back later."""
    ends = [ended[cited] for cited in fact.evidence if cited in ended]
    if fact.superseded_reason is not None or len(ends) < len(fact.evidence):
        return fact
    last = max(ends, key=_time_order)
    until = max(last.occurred_at, fact.valid_from)
    return replace(fact, valid_to=until, superseded_by=last.id, superseded_reason="replaced")


def _opposites(ordered: Sequence[Candidate]) -> dict[str, Candidate]:
    """Return the later order to the contrary of each order that has one: "never" ends "always"."""
    orders = [candidate for candidate in ordered if candidate.kind == "constraint"]
    latest = {order_key(candidate.value): candidate for candidate in orders}
    opposites = {}
    for candidate in orders:
        key = order_key(candidate.value)
        later = latest.get(key[1:] if key[:1] == ("never",) else ("never", *key))
        if later is not None and _time_order(later) > _time_order(candidate):
            opposites[candidate.id] = later
    return opposites


def _unify_orders(ordered: Sequence[Candidate]) -> Sequence[Candidate]:
    """Return the candidates of one attribute; orders in other words have the value of the earliest of them."""
    values: dict[tuple[str, ...], str] = {}
    return [
        replace(candidate, value=values.setdefault(order_key(candidate.value), candidate.value))
        if candidate.kind == "constraint" and order_key(candidate.value)
        else candidate
        for candidate in ordered
    ]


def normalize_value(value: str) -> str:
    """Return a value as it is compared: without case, extra white space, quotes and punctuation at its ends."""
    return re.sub(r"\s+", " ", value.replace("’", "'")).strip(" \t.,;:!?\"'`").casefold()


def fact_id(scope: Scope, subject: str, predicate: str, value: str, occurrence: int = 0) -> str:
    """Return the id of a fact: equal for equal words; `occurrence` counts the times that the value held before."""
    agent, level, project, peer = scope
    whose, relation = (agent, level, project or "", peer or ""), normalize_value(canonical_relation(predicate))
    return hash_texts(*whose, subject, relation, normalize_value(value), str(occurrence))


def apply_refinements(facts: Iterable[Fact], refinements: Mapping[str, tuple[str, str]]) -> list[Fact]:
    """Give facts the words of the latest candidate that refines them; `refinements`: its value and sentence, by id."""
    refined_facts = []
    for fact in facts:
        words = next((refinements[cited] for cited in reversed(fact.evidence) if cited in refinements), None)
        refined_facts.append(fact if words is None else replace(fact, value=words[0], sentence=words[1]))
    return refined_facts


def unify_refined_values(
    candidates: Iterable[Candidate], refinements: Mapping[str, tuple[str, str]]
) -> list[Candidate]:
    """Return candidates, those with a refined value counting for the value that was refined: it is one fact.

    `refinements` are as for `apply_refinements`.
    """
    ordered = sorted(candidates, key=_time_order)
    origins: dict[tuple[Attribute, str], str] = {}  # what a refined value refines, by attribute and normalized value

    def find_origin(attribute: Attribute, value: str) -> str:
        while (origin := origins.get((attribute, normalize_value(value)))) is not None:
            value = origin
        return value

    for candidate in ordered:
        if candidate.id in refinements:
            attribute = attribute_of(candidate)
            origin = find_origin(attribute, candidate.value)
            refined = find_origin(attribute, refinements[candidate.id][0])
            if normalize_value(origin) != normalize_value(refined):
                origins[attribute, normalize_value(refined)] = origin
    return [
        replace(candidate, value=find_origin(attribute_of(candidate), candidate.value)) if origins else candidate
        for candidate in ordered
    ]


def _time_order(candidate: Candidate) -> tuple[datetime, str, int, str]:
    return candidate.occurred_at, candidate.session_id, candidate.seq, candidate.id


def _facts_by_trust(ordered: Sequence[Candidate]) -> list[Fact]:
    """Make facts of each trust by itself: what tools say neither supports nor replaces what a person says.

    A value that more trusted candidates have is theirs alone.
    """
    facts: list[Fact] = []
    values: set[str] = set()
    for tier in sorted({trust_tier(candidate.trust) for candidate in ordered}, reverse=True):
        of_tier = [
            candidate
            for candidate in ordered
            if trust_tier(candidate.trust) == tier and normalize_value(candidate.value) not in values
        ]
        facts += _facts_of_attribute(of_tier) if of_tier else []
        values |= {normalize_value(candidate.value) for candidate in of_tier}
    return facts


def _facts_of_attribute(ordered: Sequence[Candidate]) -> list[Fact]:
    """Let values that are single-valued replace each other; the others hold beside them."""
    replacing = _replacing_values(ordered)
    chained = [candidate for candidate in ordered if normalize_value(candidate.value) in replacing]
    others = [candidate for candidate in ordered if normalize_value(candidate.value) not in replacing]
    return (_chain_values(chained) if chained else []) + [_make_fact(group) for group in _by_value(others)]


def _replacing_values(ordered: Sequence[Candidate]) -> set[str]:
    """Return the values that may replace others: a rule or a decision says so; repetitions count where nobody does."""
    claims = [candidate for candidate in ordered if candidate.single_valued and not _is_over(candidate)]
    decided = {normalize_value(c.value) for c in claims if not c.is_additive and not c.is_repetition}
    repeated = {normalize_value(c.value) for c in claims if c.is_repetition}
    undecided = {normalize_value(c.value) for c in ordered if c.is_additive}
    return decided | (repeated - undecided)


def _is_over(candidate: Candidate) -> bool:
    """Tell whether a candidate speaks of the past: it neither begins when it is said nor replaces another value."""
    return candidate.valid_to is not None and candidate.valid_to <= candidate.occurred_at


def _by_value(ordered: Sequence[Candidate]) -> list[list[Candidate]]:
    """Return the candidates of each value: the values hold beside one another."""
    by_value: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in ordered:
        by_value[normalize_value(candidate.value)].append(candidate)
    return list(by_value.values())


def _chain_values(ordered: Sequence[Candidate]) -> list[Fact]:
    """Let each value hold until another one is stated."""
    runs: list[list[Candidate]] = []  # of equal values in a row
    for candidate in (candidate for candidate in ordered if not _is_over(candidate)):
        if runs and normalize_value(runs[-1][0].value) == normalize_value(candidate.value):
            runs[-1].append(candidate)
        else:
            runs.append([candidate])
    past: dict[str, list[Candidate]] = defaultdict(list)  # values that were over before any run of them began
    for candidate in filter(_is_over, ordered):  # it belongs to the last run of its value before it
        value = normalize_value(candidate.value)
        earlier = [
            run
            for run in runs
            if normalize_value(run[0].value) == value and _time_order(run[0]) < _time_order(candidate)
        ]
        (earlier[-1] if earlier else past[value]).append(candidate)
    for run in runs:
        run.sort(key=_time_order)
    times_held = Counter(past.keys())
    occurrences = []
    for run in runs:
        value = normalize_value(run[0].value)
        occurrences.append(times_held[value])
        times_held[value] += 1
    facts = [_make_fact(group) for group in past.values()]
    following: Fact | None = None
    for run, occurrence in zip(reversed(runs), reversed(occurrences), strict=True):
        ended = (following.valid_from, following.id) if following else None
        following = _make_fact(run, occurrence=occurrence, ended=ended)
        facts.append(following)
    return facts


def _standing_approvals(ordered: Sequence[Candidate]) -> list[Fact]:
    """Make a fact of each run of at least three equal answers; the opposite answer ends it."""
    facts: list[Fact] = []
    run: list[Candidate] = []
    occurrence = 0
    for candidate in [*ordered, None]:
        if candidate is not None and (not run or normalize_value(candidate.value) == normalize_value(run[0].value)):
            run.append(candidate)
            continue
        answers = sum(not cited.extractor.startswith("model:") for cited in run)  # a model's candidate is no answer
        if answers >= STANDING_COUNT:
            ended = (candidate.occurred_at, candidate.id) if candidate is not None else None
            answer = "denied" if run[0].value.startswith("denied:") else "granted"
            sentence = f"The user {answer} `{_operation_of(run[0])}` {answers} times in a row."
            facts.append(_make_fact(run, occurrence=occurrence, ended=ended, sentence=sentence))
            occurrence += 1
        run = [candidate] if candidate is not None else []
    return facts


def _accepted_instructions(ordered: Sequence[Candidate]) -> list[Fact]:
    """Make a fact of each instruction that a person accepted as a rule, in the words that they accepted last.

    Orders in other words that say the same support it.
    """
    accepted: dict[str, Candidate] = {}
    for candidate in ordered:
        if candidate.extractor in EXPLICIT_EXTRACTORS:
            accepted[normalize_value(candidate.value)] = candidate
    facts = []
    for rule in accepted.values():
        group = [candidate for candidate in ordered if is_same_order(candidate.value, rule.value)]
        group = [replace(candidate, value=rule.value) for candidate in group]
        facts.append(_make_fact(group, sentence=rule.sentence))
    return facts


def _observations(ordered: Sequence[Candidate], ended: Mapping[str, Candidate]) -> list[Fact]:
    """Make a fact of each observation: explicit after two sessions on different days since it was last ended, or one
    whose results prove it.

    `ended` are those that a person's words took back, by id.
    """
    facts = []
    for group in _by_value(ordered):
        ends = [number for number, each in enumerate(group) if _is_over(each) and each.trust != "tool"]
        since = group[ends[-1] + 1 if ends else 0 :]
        shown = [each for each in since if each.id not in ended and not _is_over(each)]
        observed = [each for each in shown if each.trust != "tool"]
        witnesses = observed + [each for each in shown if each.trust == "tool"][:1]  # one source, whoever read it
        is_proved = min(len({c.root_id for c in witnesses}), len({c.occurred_at.date() for c in witnesses})) >= 2
        is_proved = is_proved or any(candidate.confidence == "explicit" for candidate in shown)
        # It is counted what showed it; one that only ended it makes no fact.
        if any(not _is_over(candidate) for candidate in group):
            by_names = sorted(witnesses, key=lambda item: len(set(_CODE.findall(item.sentence))), reverse=True)
            best = max(by_names, key=lambda item: TRUST_RANK[item.trust], default=None)  # the most trusted, with names
            fact = _end(_make_fact(group, sentence=None if best is None else best.sentence), ended)
            roots = {candidate.root_id for candidate in witnesses or group}
            facts.append(replace(fact, confidence="explicit" if is_proved else "inferred", sessions=len(roots)))
    return facts


def _operation_of(approval: Candidate) -> str:
    return approval.value.partition(":")[2]


def _make_fact(
    group: Sequence[Candidate],
    *,
    occurrence: int = 0,
    ended: tuple[datetime, str] | None = None,
    sentence: str | None = None,
) -> Fact:
    """Make a fact of candidates with the same value, in the order of time; `ended`: when it ended, and by which id."""
    first = group[0]
    agent, level, project, peer = scope_of(first)
    starts = [cited.valid_from or cited.occurred_at for cited in group if cited.valid_from or not _is_over(cited)]
    since, until = min(starts, default=UNKNOWN_START), group[-1].valid_to
    if until is not None and until <= since and not any(cited.valid_from for cited in group):
        since = UNKNOWN_START
    ends = [end for end in (until, ended and ended[0]) if end is not None]
    most_trusted = max(group, key=lambda cited: TRUST_RANK[cited.trust])
    is_explicit = any(cited.confidence == "explicit" for cited in group)
    counts = count_steers(group)
    return Fact(
        id=fact_id((agent, level, project, peer), first.subject, first.predicate, first.value, occurrence),
        agent=agent,
        project=project,
        peer=peer,
        level=level,
        subject=first.subject,
        predicate=first.predicate,
        value=first.value,
        sentence=sentence or most_trusted.sentence,
        kind=first.kind,
        confidence="explicit" if is_explicit else "inferred",
        trust=most_trusted.trust,
        valid_from=since,
        valid_to=max(min(ends), since) if ends else None,
        superseded_by=ended[1] if ended else None,
        superseded_reason="replaced" if ended else None,
        sessions=len({cited.root_id for cited in group}),
        evidence=tuple(cited.id for cited in group),
        steers=counts.steers,
        steers_succeeded=counts.succeeded,
        steers_failed=counts.failed,
    )
