"""Group the error records of many sessions into solutions: what fails, what fixed it, how often, with evidence.

Pure and independent of order: sums over records, sorted by content, so that nights and batch publish the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from consolidator.memory.calls.symbols import display_name
from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.memory.solutions.fix_description import describe_fix, fix_shape
from consolidator.memory.solutions.solution import Evidence, Fix, Solution, solution_id, solution_sort_key

MIN_CONFIRMING_SESSIONS = 2  # lineage roots in which a fix must have worked
MAX_FIXES = 5
MAX_EVIDENCE = 5
MAX_TRIED = 5


@dataclass(frozen=True, slots=True)
class SessionRef:
    """The session of a record; forks and resumes of one session share its root."""

    session_id: str
    root: str
    agent: str
    project: str | None = None


SourcedRecord: TypeAlias = tuple[SessionRef, ErrorRecord]
RecordKey: TypeAlias = tuple[str, int]  # session and seq
FixShape: TypeAlias = tuple[str, ...]
_GroupKey: TypeAlias = tuple[str, str | None, str]  # agent, project, fingerprint


@dataclass(frozen=True, slots=True)
class ErrorOccurrence:
    """What is counted of one error record; most records are never read as a whole."""

    ref: SessionRef
    seq: int
    fingerprint: str
    status: str
    occurred_at: str
    tool: str
    symbol: str
    headline: str
    tried: tuple[str, ...]
    fix_shape: FixShape | None  # of what resolved it

    @property
    def record_key(self) -> RecordKey:
        """The key of its record."""
        return self.ref.session_id, self.seq

    @classmethod
    def of_record(cls, ref: SessionRef, record: ErrorRecord) -> ErrorOccurrence:
        """Return what is counted of a record."""
        return cls(
            ref=ref,
            seq=record.seq,
            fingerprint=record.fingerprint,
            status=record.status,
            occurred_at=record.occurred_at,
            tool=record.tool,
            symbol=record.symbol,
            headline=record.headline,
            tried=record.tried,
            fix_shape=resolved_fix_shape(record),
        )


def resolved_fix_shape(record: ErrorRecord) -> FixShape | None:
    """Return the shape of what resolved an error; None where nothing did."""
    return fix_shape(record) if record.status == "resolved" else None


def build_solutions(records: Iterable[SourcedRecord]) -> list[Solution]:
    """Group records by agent, project and fingerprint, without noise; the most certain and most frequent first."""
    sourced = list(records)
    records_by_key = {(ref.session_id, record.seq): record for ref, record in sourced}
    return OccurrenceGroups(ErrorOccurrence.of_record(*pair) for pair in sourced).build_solutions(records_by_key)


class OccurrenceGroups:
    """Occurrences by agent, project and fingerprint, and in each group by what resolved them; without noise."""

    def __init__(self, occurrences: Iterable[ErrorOccurrence]) -> None:
        groups: dict[_GroupKey, list[ErrorOccurrence]] = defaultdict(list)
        for occurrence in occurrences:
            if occurrence.status != "noise":
                groups[occurrence.ref.agent, occurrence.ref.project, occurrence.fingerprint].append(occurrence)
        self._groups = {key: _latest_first(group) for key, group in groups.items()}
        self._clusters = {key: _cluster_by_fix(group) for key, group in self._groups.items()}

    def cited_records(self) -> set[RecordKey]:
        """Return the keys of the records that solutions cite: the latest of each group and cluster."""
        clusters = [cluster for clusters in self._clusters.values() for cluster in clusters]
        groups = [*self._groups.values(), *clusters]
        return {occurrence.record_key for group in groups for occurrence in group[:MAX_EVIDENCE]}

    def build_solutions(self, records: Mapping[RecordKey, ErrorRecord]) -> list[Solution]:
        """Return the solutions, from the cited records; the most certain and most frequent first."""
        solutions = [_build_solution(key, group, self._clusters[key], records) for key, group in self._groups.items()]
        return sorted(solutions, key=solution_sort_key)


def _latest_first(group: Iterable[ErrorOccurrence]) -> list[ErrorOccurrence]:
    return sorted(group, key=lambda o: (o.occurred_at, o.ref.session_id, o.seq), reverse=True)


def _cluster_by_fix(group: Iterable[ErrorOccurrence]) -> list[list[ErrorOccurrence]]:
    """Return the resolved occurrences by the shape of their fix."""
    clusters: dict[FixShape, list[ErrorOccurrence]] = defaultdict(list)
    for occurrence in group:
        if occurrence.fix_shape is not None:
            clusters[occurrence.fix_shape].append(occurrence)
    return list(clusters.values())


def _build_solution(
    key: _GroupKey,
    group: Sequence[ErrorOccurrence],
    clusters: Iterable[Sequence[ErrorOccurrence]],
    records: Mapping[RecordKey, ErrorRecord],
) -> Solution:
    agent, project, fingerprint = key
    fixes = sorted((_build_fix(cluster, records) for cluster in clusters), key=_fix_sort_key)
    status = "unsolved"
    if fixes:
        status = "confirmed" if any(fix.confirmed for fix in fixes) else "unconfirmed"
    return Solution(
        id=solution_id(agent, project, fingerprint),
        agent=agent,
        project=project,
        fingerprint=fingerprint,
        tool=_most_common(occurrence.tool for occurrence in group),
        failed=display_name(_most_common(occurrence.symbol for occurrence in group)),
        headline=fixes[0].headline if fixes else _most_common(occurrence.headline for occurrence in group),
        occurrences=len(group),
        resolved=sum(occurrence.status == "resolved" for occurrence in group),
        sessions=_count_roots(group),
        status=status,
        fixes=tuple(fixes[:MAX_FIXES]),
        tried=_most_common_attempts(group),
        evidence=_latest_evidence(group, records),
        last_at=group[0].occurred_at,
    )


def _fix_sort_key(fix: Fix) -> tuple[bool, bool, int, int, int, str]:
    """Order fixes: confirmed first, a success before another error, then by sessions and times."""
    certainty = not fix.confirmed, fix.rule == "superseded"
    return (*certainty, -fix.sessions, -fix.worked, len(fix.description), fix.description)


def _build_fix(cluster: Sequence[ErrorOccurrence], records: Mapping[RecordKey, ErrorRecord]) -> Fix:
    example = records[cluster[0].record_key]
    sessions = _count_roots(cluster)
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
        confirmed=sessions >= MIN_CONFIRMING_SESSIONS,
        evidence=_latest_evidence(cluster, records),
    )


def _count_roots(group: Iterable[ErrorOccurrence]) -> int:
    return len({occurrence.ref.root for occurrence in group})


def _latest_evidence(
    group: Sequence[ErrorOccurrence], records: Mapping[RecordKey, ErrorRecord]
) -> tuple[Evidence, ...]:
    latest = [(occurrence.ref.session_id, records[occurrence.record_key]) for occurrence in group[:MAX_EVIDENCE]]
    return tuple(Evidence(session, r.seq, r.resolver_seq, r.quote, r.occurred_at) for session, r in latest)


def _most_common_attempts(group: Iterable[ErrorOccurrence]) -> tuple[str, ...]:
    counts = Counter(attempt for occurrence in group for attempt in dict.fromkeys(occurrence.tried))
    return tuple(sorted(counts, key=lambda attempt: (-counts[attempt], attempt))[:MAX_TRIED])


def _most_common(values: Iterable[str]) -> str:
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))
