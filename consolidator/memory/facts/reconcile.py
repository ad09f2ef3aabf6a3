"""Turns candidates into facts: the same sayings reinforce one another, a later value takes the place of an earlier one.

Pure and free of order: the facts are a function of the set of candidates. Nothing is deleted: what was superseded keeps
the time in which it was true.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from consolidator.memory.facts.candidates import Candidate

LONG_AGO = datetime(1, 1, 2, tzinfo=UTC)  # since when what is over was true, where nobody said; in every zone a date
_RANK = {"tool": 0, "agent": 1, "user": 2}
STANDING = 3  # answers to approvals, and sessions with the same steer, before they are a standing preference


@dataclass(frozen=True, slots=True)
class Fact:
    """What is believed, when it was true, and what it rests on."""

    id: str
    agent: str
    project: str | None
    peer: str | None
    level: str  # peer | project | agent: whom it belongs to
    subject: str
    predicate: str
    value: str
    sentence: str
    kind: str
    confidence: str  # explicit | inferred
    trust: str  # user | agent | tool
    valid_from: datetime
    valid_to: datetime | None
    superseded_by: str | None  # the fact that took its place; of a standing preference, the candidate that ended it
    sessions: int  # distinct lineage roots that say so
    evidence: tuple[str, ...]  # ids of candidates, in the order of what happened


Scope = tuple[str, str, str | None, str | None]  # agent, level, project, peer


def scope_of(candidate: Candidate) -> Scope:
    """Return to whom a candidate's fact belongs; what is not of that level is left out."""
    project = candidate.project if candidate.level == "project" else None
    peer = candidate.peer if candidate.level == "peer" else None
    return candidate.agent, candidate.level, project, peer


def reconcile(candidates: Iterable[Candidate]) -> list[Fact]:
    """Return the facts of all candidates of some (scope, subject, predicate) groups, in any order; each group whole."""
    groups: dict[tuple[Scope, str, str], list[Candidate]] = defaultdict(list)
    for candidate in {one.id: one for one in candidates}.values():
        predicate = candidate.predicate
        if predicate == "approval":
            predicate = f"approval {_operation(candidate)}"
        groups[(scope_of(candidate), candidate.subject, normal(predicate))].append(candidate)
    facts: list[Fact] = []
    for group in groups.values():
        ordered = sorted(group, key=_order)
        if ordered[0].predicate == "approval":
            facts += _standing_approvals(ordered)
        elif ordered[0].predicate == "steer":
            facts += _standing_steers(ordered)
        else:
            facts += _values(ordered)
    return sorted(facts, key=lambda fact: (fact.valid_from, fact.id))


def normal(value: str) -> str:
    """Return a value as it is compared: case, white space, quotes and final stops do not tell values apart."""
    return re.sub(r"\s+", " ", value.replace("’", "'")).strip(" \t.,;:!?\"'`").casefold()


def fact_id(scope: Scope, subject: str, predicate: str, value: str, number: int = 0) -> str:
    """Return the id of a fact: the same for the same words; `number` tells apart the times that a value held."""
    agent, level, project, peer = scope
    key = (agent, level, project or "", peer or "", subject, normal(predicate), normal(value), str(number))
    return hashlib.blake2b("\x1f".join(key).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def worded(facts: Iterable[Fact], refined: Mapping[str, tuple[str, str]]) -> list[Fact]:
    """Give facts the words of the latest evidence that refines them; `refined` are value and sentence by candidate."""
    found = []
    for fact in facts:
        words = next((refined[one] for one in reversed(fact.evidence) if one in refined), None)
        found.append(fact if words is None else replace(fact, value=words[0], sentence=words[1]))
    return found


def _order(candidate: Candidate) -> tuple[datetime, str, int, str]:
    return candidate.occurred_at, candidate.session_id, candidate.seq, candidate.id


def _values(ordered: Sequence[Candidate]) -> list[Fact]:
    """Let the values of a single-valued predicate take each other's place; what is kept beside them holds, too."""
    in_turn = {normal(one.value) for one in ordered if one.single_valued and not one.beside and not _is_over(one)}
    chained = [one for one in ordered if normal(one.value) in in_turn]
    rest = [one for one in ordered if normal(one.value) not in in_turn]
    return (_chain(chained) if chained else []) + _several(rest)


def _is_over(candidate: Candidate) -> bool:
    """Tell whether a saying speaks of what is over: it neither begins when it is said nor takes another's place."""
    return candidate.valid_to is not None and candidate.valid_to <= candidate.occurred_at


def _several(ordered: Sequence[Candidate]) -> list[Fact]:
    """Keep each value: they hold beside one another."""
    by_value: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in ordered:
        by_value[normal(candidate.value)].append(candidate)
    return [_fact(said) for said in by_value.values()]


def _chain(ordered: Sequence[Candidate]) -> list[Fact]:
    """Let each value hold until another one is stated."""
    runs: list[list[Candidate]] = []
    for candidate in (one for one in ordered if not _is_over(one)):
        if runs and normal(runs[-1][0].value) == normal(candidate.value):
            runs[-1].append(candidate)
        else:
            runs.append([candidate])
    past: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in filter(_is_over, ordered):  # of the time that its value held last, else of one before all told
        value = normal(candidate.value)
        before = [run for run in runs if normal(run[0].value) == value and _order(run[0]) < _order(candidate)]
        (before[-1] if before else past[value]).append(candidate)
    for run in runs:
        run.sort(key=_order)
    times: dict[str, int] = defaultdict(int, dict.fromkeys(past, 1))
    facts = [_fact(said) for said in past.values()]
    following: Fact | None = None
    numbers = []
    for run in runs:
        value = normal(run[0].value)
        numbers.append(times[value])
        times[value] += 1
    for run, number in zip(reversed(runs), reversed(numbers), strict=True):
        ended = (following.valid_from, following.id) if following else None
        following = _fact(run, number=number, ended=ended)
        facts.append(following)
    return facts


def _standing_approvals(ordered: Sequence[Candidate]) -> list[Fact]:
    """Make a fact of each run of at least three equal answers; the opposite answer ends it."""
    facts: list[Fact] = []
    run: list[Candidate] = []
    number = 0
    for candidate in [*ordered, None]:
        if candidate is not None and (not run or normal(candidate.value) == normal(run[0].value)):
            run.append(candidate)
            continue
        answers = sum(not one.extractor.startswith("model:") for one in run)  # what a model read is none
        if answers >= STANDING:
            ended = (candidate.occurred_at, candidate.id) if candidate is not None else None
            answer = "denied" if run[0].value.startswith("denied:") else "granted"
            sentence = f"The user {answer} `{_operation(run[0])}` {answers} times in a row."
            facts.append(_fact(run, number=number, ended=ended, sentence=sentence))
            number += 1
        run = [candidate] if candidate is not None else []
    return facts


def _standing_steers(ordered: Sequence[Candidate]) -> list[Fact]:
    """Make a fact of each steer that was given in at least three sessions."""
    facts = []
    for fact in _several(ordered):
        if fact.sessions >= STANDING:
            facts.append(fact)
    return facts


def _operation(candidate: Candidate) -> str:
    return candidate.value.partition(":")[2]


def _fact(
    said: Sequence[Candidate],
    *,
    number: int = 0,
    ended: tuple[datetime, str] | None = None,
    sentence: str | None = None,
) -> Fact:
    """Make a fact of candidates that say the same, in order; `number` tells apart the times that a value held."""
    first = said[0]
    agent, level, project, peer = scope_of(first)
    starts = [one.valid_from or one.occurred_at for one in said if one.valid_from or not _is_over(one)]
    since, until = min(starts, default=LONG_AGO), said[-1].valid_to
    if until is not None and until <= since and not any(one.valid_from for one in said):
        since = LONG_AGO
    ends = [end for end in (until, ended and ended[0]) if end is not None]
    best = max(said, key=lambda one: _RANK[one.trust])
    explicit = any(candidate.confidence == "explicit" for candidate in said)
    return Fact(
        id=fact_id((agent, level, project, peer), first.subject, first.predicate, first.value, number),
        agent=agent,
        project=project,
        peer=peer,
        level=level,
        subject=first.subject,
        predicate=first.predicate,
        value=first.value,
        sentence=sentence or best.sentence,
        kind=first.kind,
        confidence="explicit" if explicit else "inferred",
        trust=best.trust,
        valid_from=since,
        valid_to=max(min(ends), since) if ends else None,
        superseded_by=ended[1] if ended else None,
        sessions=len({candidate.root_id for candidate in said}),
        evidence=tuple(candidate.id for candidate in said),
    )
