"""Turns failed calls of many sessions into solutions: what fails, what fixed it, how often, and the evidence.

Pure and order-free: sums over records, sorted by content, so that nights and batch publish the same.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from consolidator.memory.change import Change
from consolidator.memory.failures import ErrorRecord, Step
from consolidator.memory.remedy import described, failed, shape

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
    changes: tuple[Change, ...]  # of the latest example: failing -> resolving
    steps: tuple[Step, ...]  # of the latest example
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


Sighting = tuple[SessionRef, ErrorRecord]


def solution_id(agent: str, project: str | None, fingerprint: str) -> str:
    """Return the stable name of a solution: tomorrow's night updates what today's published."""
    parts = "\x00".join([agent, project or "", fingerprint])
    return "sol_" + hashlib.blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def solutions(records: Iterable[Sighting]) -> list[Solution]:
    """Group records by agent, project and fingerprint; the most certain and most frequent first, noise left out."""
    groups: dict[tuple[str, str | None, str], list[Sighting]] = defaultdict(list)
    for ref, record in records:
        if record.status != "noise":
            groups[ref.agent, ref.project, record.fingerprint].append((ref, record))
    found = [_solution(key, _latest_first(group)) for key, group in groups.items()]
    return sorted(found, key=rank)


def rank(solution: Solution) -> tuple[int, int, int, str, str, str]:
    """Order solutions: confirmed first, then by sessions, then by occurrences."""
    certainty = ("confirmed", "unconfirmed", "unsolved").index(solution.status)
    where = (solution.fingerprint, solution.agent, solution.project or "")
    return (certainty, -solution.sessions, -solution.occurrences, *where)


def _latest_first(group: Iterable[Sighting]) -> list[Sighting]:
    return sorted(group, key=lambda pair: (pair[1].occurred_at, pair[0].session_id, pair[1].seq), reverse=True)


def _solution(key: tuple[str, str | None, str], group: Sequence[Sighting]) -> Solution:
    agent, project, fingerprint = key
    records = [record for _, record in group]
    fixes = _fixes(group)
    status = "unsolved"
    if fixes:
        status = "confirmed" if any(fix.confirmed for fix in fixes) else "unconfirmed"
    return Solution(
        id=solution_id(agent, project, fingerprint),
        agent=agent,
        project=project,
        fingerprint=fingerprint,
        tool=_commonest(record.tool for record in records),
        failed=failed(_commonest(record.symbol for record in records)),
        headline=fixes[0].headline if fixes else _commonest(record.headline for record in records),
        occurrences=len(records),
        resolved=sum(record.status == "resolved" for record in records),
        sessions=len({ref.root for ref, _ in group}),
        status=status,
        fixes=tuple(fixes[:MAX_FIXES]),
        tried=_tried(records),
        evidence=_evidence(group),
        last_at=records[0].occurred_at,
    )


def _fixes(group: Sequence[Sighting]) -> list[Fix]:
    """Cluster what resolved an error by its shape; the one that worked in most sessions first."""
    clusters: dict[tuple[str, ...], list[Sighting]] = defaultdict(list)
    for ref, record in group:
        if record.status == "resolved":
            clusters[shape(record)].append((ref, record))
    fixes = [_fix(cluster) for cluster in clusters.values()]
    return sorted(
        fixes,
        key=lambda fix: (fix.rule == "superseded", -fix.sessions, -fix.worked, len(fix.description), fix.description),
    )


def _fix(cluster: Sequence[Sighting]) -> Fix:
    example = cluster[0][1]
    sessions = len({ref.root for ref, _ in cluster})
    return Fix(
        description=described(example),
        rule=example.rule or "",
        changes=example.fix,
        steps=example.between,
        failing=example.failing,
        resolving=example.resolving or "",
        headline=example.headline,
        worked=len(cluster),
        sessions=sessions,
        confirmed=sessions >= CONFIRMED,
        evidence=_evidence(cluster),
    )


def _evidence(group: Sequence[Sighting]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(ref.session_id, record.seq, record.resolver_seq, record.quote, record.occurred_at)
        for ref, record in group[:MAX_EVIDENCE]
    )


def _tried(records: Iterable[ErrorRecord]) -> tuple[str, ...]:
    counts = Counter(attempt for record in records for attempt in dict.fromkeys(record.tried))
    return tuple(sorted(counts, key=lambda attempt: (-counts[attempt], attempt))[:MAX_TRIED])


def _commonest(values: Iterable[str]) -> str:
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))
