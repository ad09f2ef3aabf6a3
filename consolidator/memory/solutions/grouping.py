"""Turns failed calls of many sessions into solutions: what fails, what fixed it, how often, and the evidence.

Pure and order-free: sums over records, sorted by content, so that nights and batch publish the same.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from consolidator.memory.calls.argument_diff import ArgumentChange
from consolidator.memory.solutions.error_tracker import ErrorRecord, FixStep
from consolidator.memory.solutions.fix_description import describe_fix, fix_shape, operation_name

CONFIRMED = 2  # sessions a fix must have worked in
MAX_FIXES = 5
MAX_EVIDENCE = 5
MAX_TRIED = 5


@dataclass(frozen=True, slots=True)
class SessionRef:
    """Where a record comes from; forks and resumes of one session share its root."""

    session_id: str
    root: str
    agent: str
    project: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """One occurrence, to be looked up in its session."""

    session_id: str
    seq: int
    resolver_seq: int | None
    quote: str
    occurred_at: str


@dataclass(frozen=True, slots=True)
class Fix:
    """One way in which an error was resolved."""

    description: str  # what a person or an agent does about it
    rule: str
    changes: tuple[ArgumentChange, ...]  # of the latest example: failing -> resolving
    steps: tuple[FixStep, ...]  # of the latest example
    failing: str
    resolving: str
    headline: str  # of the latest example
    worked: int  # times
    sessions: int  # lineage roots
    confirmed: bool
    evidence: tuple[Evidence, ...]  # the latest ones


@dataclass(frozen=True, slots=True)
class Solution:
    """An error and what is known of resolving it."""

    id: str  # stable: of agent, project and fingerprint
    agent: str
    project: str | None
    fingerprint: str
    tool: str
    failed: str  # "git push"
    headline: str
    occurrences: int
    resolved: int
    sessions: int  # lineage roots in which it occurred
    status: str  # confirmed | unconfirmed | unsolved
    fixes: tuple[Fix, ...]  # the best one first
    tried: tuple[str, ...]  # attempts that failed with the same error
    evidence: tuple[Evidence, ...]  # the latest occurrences
    last_at: str

    @property
    def confirmed(self) -> bool:
        """Whether a fix worked in several sessions."""
        return self.status == "confirmed"

    @property
    def line(self) -> str:
        """Say it in one line, as a person reads it."""
        what = f"{self.failed} failed: “{self.headline}”" if self.headline else f"{self.failed} failed without a word"
        if not self.fixes:
            times = "once" if self.occurrences == 1 else f"{self.occurrences} times"
            return f"{what} → no fix seen yet (met {times}, in {_sessions(self.sessions)})"
        fix = self.fixes[0]
        worked = f"worked {fix.worked} of {self.occurrences}, in {_sessions(fix.sessions)}"
        return f"{what} → {fix.description} ({worked}{'' if fix.confirmed else ', unconfirmed'})"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, the line included."""
        return {**asdict(self), "line": self.line}


def _sessions(count: int) -> str:
    return "1 session" if count == 1 else f"{count} sessions"


SourcedRecord = tuple[SessionRef, ErrorRecord]
RecordKey = tuple[str, int]  # session and seq
FixShape = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ErrorOccurrence:
    """What is counted of one sighting; of most, the whole record is never looked at."""

    ref: SessionRef
    seq: int
    fingerprint: str
    status: str
    occurred_at: str
    tool: str
    symbol: str
    headline: str
    tried: tuple[str, ...]
    shape: FixShape | None  # of what resolved it

    @property
    def record_key(self) -> RecordKey:
        """Where its record is."""
        return self.ref.session_id, self.seq

    @classmethod
    def of_record(cls, ref: SessionRef, record: ErrorRecord) -> ErrorOccurrence:
        """Return what is counted of a record."""
        one = record
        told = one.fingerprint, one.status, one.occurred_at, one.tool, one.symbol, one.headline, one.tried
        return cls(ref, record.seq, *told, shape_if_resolved(record))


def shape_if_resolved(record: ErrorRecord) -> FixShape | None:
    """Return the shape of what resolved an error; None where nothing did."""
    return fix_shape(record) if record.status == "resolved" else None


def solution_id(agent: str, project: str | None, fingerprint: str) -> str:
    """Return the stable name of a solution: tomorrow's night updates what today's published."""
    parts = "\x00".join([agent, project or "", fingerprint])
    return "sol_" + hashlib.blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def build_solutions(records: Iterable[SourcedRecord]) -> list[Solution]:
    """Group records by agent, project and fingerprint; the most certain and most frequent first, noise left out."""
    found = list(records)
    told = {(ref.session_id, record.seq): record for ref, record in found}
    return OccurrenceGroups(ErrorOccurrence.of_record(*one) for one in found).build_solutions(told)


class OccurrenceGroups:
    """Sightings by agent, project and fingerprint, and in each group by what resolved them; noise left out."""

    def __init__(self, met: Iterable[ErrorOccurrence]) -> None:
        groups: dict[tuple[str, str | None, str], list[ErrorOccurrence]] = defaultdict(list)
        for one in met:
            if one.status != "noise":
                groups[one.ref.agent, one.ref.project, one.fingerprint].append(one)
        self._groups = {key: _latest_first(group) for key, group in groups.items()}
        self._clusters = {key: _clusters(group) for key, group in self._groups.items()}

    def cited_records(self) -> set[RecordKey]:
        """Return the places of the records that solutions tell of: the latest of each group."""
        groups = [*self._groups.values(), *(cluster for found in self._clusters.values() for cluster in found)]
        return {one.record_key for group in groups for one in group[:MAX_EVIDENCE]}

    def build_solutions(self, records: Mapping[RecordKey, ErrorRecord]) -> list[Solution]:
        """Return the solutions, given the cited records; the most certain and most frequent first."""
        found = [_solution(key, group, self._clusters[key], records) for key, group in self._groups.items()]
        return sorted(found, key=solution_sort_key)


def solution_sort_key(solution: Solution) -> tuple[int, int, int, str, str, str]:
    """Order solutions: confirmed first, then by sessions, then by occurrences."""
    certainty = ("confirmed", "unconfirmed", "unsolved").index(solution.status)
    where = (solution.fingerprint, solution.agent, solution.project or "")
    return (certainty, -solution.sessions, -solution.occurrences, *where)


def _latest_first(group: Iterable[ErrorOccurrence]) -> list[ErrorOccurrence]:
    return sorted(group, key=lambda one: (one.occurred_at, one.ref.session_id, one.seq), reverse=True)


def _clusters(group: Iterable[ErrorOccurrence]) -> list[list[ErrorOccurrence]]:
    """Return what was resolved, by the shape of what resolved it."""
    clusters: dict[FixShape, list[ErrorOccurrence]] = defaultdict(list)
    for one in group:
        if one.shape is not None:
            clusters[one.shape].append(one)
    return list(clusters.values())


def _solution(
    key: tuple[str, str | None, str],
    group: Sequence[ErrorOccurrence],
    clusters: Iterable[Sequence[ErrorOccurrence]],
    records: Mapping[RecordKey, ErrorRecord],
) -> Solution:
    agent, project, fingerprint = key
    fixes = _fixes(clusters, records)
    status = "unsolved"
    if fixes:
        status = "confirmed" if any(fix.confirmed for fix in fixes) else "unconfirmed"
    return Solution(
        id=solution_id(agent, project, fingerprint),
        agent=agent,
        project=project,
        fingerprint=fingerprint,
        tool=_commonest(one.tool for one in group),
        failed=operation_name(_commonest(one.symbol for one in group)),
        headline=fixes[0].headline if fixes else _commonest(one.headline for one in group),
        occurrences=len(group),
        resolved=sum(one.status == "resolved" for one in group),
        sessions=len({one.ref.root for one in group}),
        status=status,
        fixes=tuple(fixes[:MAX_FIXES]),
        tried=_tried(group),
        evidence=_evidence(group, records),
        last_at=group[0].occurred_at,
    )


def _fixes(clusters: Iterable[Sequence[ErrorOccurrence]], records: Mapping[RecordKey, ErrorRecord]) -> list[Fix]:
    """Return what resolved an error: confirmed before not, a success before another error, then by sessions."""
    return sorted((_fix(cluster, records) for cluster in clusters), key=_preferred)


def _preferred(fix: Fix) -> tuple[bool, bool, int, int, int, str]:
    certainty = not fix.confirmed, fix.rule == "superseded"
    return (*certainty, -fix.sessions, -fix.worked, len(fix.description), fix.description)


def _fix(cluster: Sequence[ErrorOccurrence], records: Mapping[RecordKey, ErrorRecord]) -> Fix:
    example = records[cluster[0].record_key]
    sessions = len({one.ref.root for one in cluster})
    return Fix(
        description=describe_fix(example),
        rule=example.rule or "",
        changes=example.fix,
        steps=example.between,
        failing=example.failing,
        resolving=example.resolving or "",
        headline=example.headline,
        worked=len(cluster),
        sessions=sessions,
        confirmed=sessions >= CONFIRMED,
        evidence=_evidence(cluster, records),
    )


def _evidence(group: Sequence[ErrorOccurrence], records: Mapping[RecordKey, ErrorRecord]) -> tuple[Evidence, ...]:
    latest = [(one.ref.session_id, records[one.record_key]) for one in group[:MAX_EVIDENCE]]
    return tuple(Evidence(session, r.seq, r.resolver_seq, r.quote, r.occurred_at) for session, r in latest)


def _tried(group: Iterable[ErrorOccurrence]) -> tuple[str, ...]:
    counts = Counter(attempt for one in group for attempt in dict.fromkeys(one.tried))
    return tuple(sorted(counts, key=lambda attempt: (-counts[attempt], attempt))[:MAX_TRIED])


def _commonest(values: Iterable[str]) -> str:
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))
