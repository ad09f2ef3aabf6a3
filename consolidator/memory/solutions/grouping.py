"""Group the error records of many sessions into solutions: what fails, what fixed it, how often, with evidence.

Pure and independent of order: sums over records, sorted by content, so that nights and batch publish the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, TypeAlias

from consolidator.memory.calls.symbols import display_name
from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.memory.solutions.fix_cases import FixCase, case_of_record, steps_before
from consolidator.memory.solutions.fix_description import (
    attempt_shapes,
    describe_fix,
    fix_shape,
    is_transferable,
    own_attempt_shape,
)
from consolidator.memory.solutions.fix_harm import fix_harm, quote_harm
from consolidator.memory.solutions.fix_learning import learn_templates
from consolidator.memory.solutions.fix_suggestion import describe_template
from consolidator.memory.solutions.fix_template import FixTemplate
from consolidator.memory.solutions.sharing import most_common_of_people, share_solution, share_templates
from consolidator.memory.solutions.solution import (
    Evidence,
    Fix,
    Solution,
    solution_id,
    solution_sort_key,
    split_withheld,
)
from consolidator.models.audience import ALL, SHARED

DEFAULT_MIN_PEOPLE = 3  # of whom a template must be known before everybody is told
MIN_CONFIRMING_SESSIONS = 2  # lineage roots in which a fix must have worked
MIN_CONFIRMING_RATE = 0.5  # of the times that it was tried
MIN_CONFIRMING_SHARE = 0.25  # of all occurrences of the error
MAX_CASES = 40  # the latest ones, from which templates are learned
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
    audience: str = ALL  # for whom it is counted; for everybody, `root` is the person
    person: str = ""  # whose session it is; "" for the owner of the machine


SourcedRecord: TypeAlias = tuple[SessionRef, ErrorRecord]
RecordKey: TypeAlias = tuple[str, int]  # session and seq
FixShape: TypeAlias = tuple[str, ...]
GroupKey: TypeAlias = tuple[str, str | None, str, str]  # agent, project, fingerprint, audience


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
    failed_shapes: tuple[FixShape, ...] = ()  # of what was tried in vain

    @property
    def record_key(self) -> RecordKey:
        """The key of its record."""
        return self.ref.session_id, self.seq

    @classmethod
    def of_record(cls, ref: SessionRef, record: ErrorRecord) -> ErrorOccurrence:
        """Return what is counted of a record."""
        outcome = FixOutcome.of_record(record)
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
            fix_shape=outcome.worked,
            failed_shapes=outcome.failed,
        )


@dataclass(frozen=True, slots=True)
class FixOutcome:
    """What was tried about one error, by the shape of the fix; what led only to another error did not work."""

    worked: FixShape | None
    failed: tuple[FixShape, ...]

    @classmethod
    def of_record(cls, record: ErrorRecord) -> FixOutcome:
        """Return the outcome of a record."""
        works = record.status == "resolved" and record.rule != "superseded"
        return cls(fix_shape(record) if works else None, tuple(attempt_shapes(record)))

    def to_json(self) -> dict[str, object]:
        """Return it as JSON."""
        return {"worked": self.worked, "failed": self.failed}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FixOutcome:
        """Read what `to_json` returned."""
        return cls(None if data["worked"] is None else tuple(data["worked"]), tuple(map(tuple, data["failed"])))


def build_solutions(records: Iterable[SourcedRecord]) -> list[Solution]:
    """Group records by agent, project and fingerprint, without noise; the most certain and most frequent first."""
    sourced = list(records)
    records_by_key = {(ref.session_id, record.seq): record for ref, record in sourced}
    return OccurrenceGroups(ErrorOccurrence.of_record(*pair) for pair in sourced).build_solutions(records_by_key)


class OccurrenceGroups:
    """Occurrences by agent, project and fingerprint, and in each group by what resolved them; without noise."""

    def __init__(self, occurrences: Iterable[ErrorOccurrence], min_people: int = DEFAULT_MIN_PEOPLE) -> None:
        groups: dict[GroupKey, list[ErrorOccurrence]] = defaultdict(list)
        for occurrence in occurrences:
            if occurrence.status != "noise":
                groups[group_key(occurrence)].append(occurrence)
        self._min_people = min_people
        self._groups = {key: latest_first(group) for key, group in groups.items()}
        self._clusters = {key: _cluster_by_fix(group) for key, group in self._groups.items()}

    def cited_records(self) -> set[RecordKey]:
        """Return the keys of the records that solutions cite: the latest of each group and cluster.

        Of a cluster those are left out that turn out to have failed, which only those tell that templates are learned
        from: as many more may be cited.
        """
        cited: set[RecordKey] = set()
        for key, group in self._groups.items():
            read = {occurrence.record_key for occurrence in _latest_resolved(group)}
            cited |= read | {occurrence.record_key for occurrence in group[:MAX_EVIDENCE]}
            for cluster in self._clusters[key]:
                left_out = sum(occurrence.record_key in read for occurrence in cluster)
                cited |= {occurrence.record_key for occurrence in cluster[: left_out + MAX_EVIDENCE]}
        return cited

    def build_solutions(self, records: Mapping[RecordKey, ErrorRecord]) -> list[Solution]:
        """Return the solutions, from the cited records; the most certain and most frequent first."""
        solutions = [
            _build_solution(key, group, self._clusters[key], records, self._min_people)
            for key, group in self._groups.items()
        ]
        # What is shared tells a fix; that others met an error is nobody's business.
        worth_keeping = (solution for solution in solutions if solution.audience != SHARED or solution.fixes)
        return sorted(worth_keeping, key=solution_sort_key)


def group_key(occurrence: ErrorOccurrence) -> GroupKey:
    """Return the solution that an occurrence belongs to."""
    return occurrence.ref.agent, occurrence.ref.project, occurrence.fingerprint, occurrence.ref.audience


def latest_first(group: Iterable[ErrorOccurrence]) -> list[ErrorOccurrence]:
    """Return occurrences, the latest first, whatever their order was."""
    return sorted(group, key=lambda o: (o.occurred_at, o.ref.session_id, o.seq), reverse=True)


def _cluster_by_fix(group: Iterable[ErrorOccurrence]) -> list[list[ErrorOccurrence]]:
    """Return the resolved occurrences by the shape of their fix."""
    clusters: dict[FixShape, list[ErrorOccurrence]] = defaultdict(list)
    for occurrence in group:
        if occurrence.fix_shape is not None:
            clusters[occurrence.fix_shape].append(occurrence)
    return list(clusters.values())


def _latest_resolved(group: Iterable[ErrorOccurrence]) -> list[ErrorOccurrence]:
    """Return the occurrences from which templates are learned."""
    return [occurrence for occurrence in group if occurrence.fix_shape is not None][:MAX_CASES]


def _build_solution(
    key: GroupKey,
    group: Sequence[ErrorOccurrence],
    clusters: Sequence[Sequence[ErrorOccurrence]],
    records: Mapping[RecordKey, ErrorRecord],
    min_people: int,
) -> Solution:
    agent, project, fingerprint, audience = key
    shared_by = min_people if audience == SHARED else None
    built = sorted(_build_fixes(group, clusters, records, shared_by), key=_fix_sort_key)
    fixes, withheld = split_withheld(built, project)
    status = "unsolved"
    if fixes:
        status = "confirmed" if any(fix.confirmed for fix in fixes) else "unconfirmed"
    solution = Solution(
        id=solution_id(agent, project, fingerprint, audience),
        agent=agent,
        project=project,
        fingerprint=fingerprint,
        tool=_most_common(occurrence.tool for occurrence in group),
        failed=display_name(_most_common(occurrence.symbol for occurrence in group)),
        headline=fixes[0].headline if fixes else _most_common(occurrence.headline for occurrence in group),
        occurrences=len(group),
        resolved=sum(occurrence.fix_shape is not None for occurrence in group),
        sessions=_count_roots(group),
        people=count_people(group),
        status=status,
        fixes=tuple(fixes[:MAX_FIXES]),
        tried=_most_common_attempts(group),
        evidence=_latest_evidence(group, records),
        last_at=group[0].occurred_at,
        audience=audience,
        withheld=withheld[:MAX_FIXES],
    )
    if shared_by is None:
        return solution
    program, _, masked = fingerprint.partition(":")[2].partition("|")
    return replace(
        share_solution(solution, masked),
        tool=most_common_of_people(((o.ref.root, o.tool) for o in group), shared_by, program),
        failed=display_name(most_common_of_people(((o.ref.root, o.symbol) for o in group), shared_by, program)),
    )


def _build_fixes(
    group: Sequence[ErrorOccurrence],
    clusters: Sequence[Sequence[ErrorOccurrence]],
    records: Mapping[RecordKey, ErrorRecord],
    shared_by: int | None,
) -> list[Fix]:
    """Return a fix for each template, made of the clusters that it explains, and for each other cluster.

    With `shared_by` the templates alone are told, if so many people's cases prove them.
    """
    cases: dict[RecordKey, FixCase] = {}
    for occurrence in _latest_resolved(group):
        session = occurrence.ref.session_id
        case = case_of_record(occurrence.ref.root, session, records[occurrence.record_key])
        if case is not None:
            cases[occurrence.record_key] = case
    in_vain = _failed_attempts(group, records)
    clusters = [kept for cluster in clusters if (kept := [o for o in cluster if o.record_key not in in_vain])]
    explained: dict[int, list[ErrorOccurrence]] = defaultdict(list)
    templates = learn_templates(cases.values())
    if shared_by is not None:
        templates = share_templates(templates, cases.values(), shared_by)
    fixes = []
    for cluster in clusters:
        resolvers = [cases[occurrence.record_key].resolver for occurrence in cluster if occurrence.record_key in cases]
        shares = [sum(resolver in learned.hits for resolver in resolvers) for learned in templates]
        best = max(range(len(shares)), key=lambda n: (shares[n], -n)) if shares else None
        if best is not None and 2 * shares[best] >= len(resolvers) > 0:
            explained[best] += cluster
        elif shared_by is None:
            fixes.append(_build_fix(cluster, group, records, in_vain))
    for number, merged in explained.items():
        by_latest = latest_first(merged)
        hits = templates[number].hits
        covered = [learned.template for learned in templates if learned is templates[number] or learned.hits <= hits]
        examples = [o for o in by_latest if o.record_key in cases and cases[o.record_key].resolver in hits]
        fixes.append(_build_fix(by_latest, group, records, in_vain, covered, examples[0] if examples else None))
    return fixes


def _failed_attempts(
    group: Iterable[ErrorOccurrence], records: Mapping[RecordKey, ErrorRecord]
) -> dict[RecordKey, FixShape]:
    """Return what was done about the failures that came again before one call resolved all of them, by its shape."""
    streaks: dict[tuple[str, int | None], list[tuple[RecordKey, ErrorRecord]]] = defaultdict(list)
    for occurrence in _latest_resolved(group):
        record = records[occurrence.record_key]
        streaks[occurrence.ref.session_id, record.resolver_seq].append((occurrence.record_key, record))
    shapes: dict[RecordKey, FixShape] = {}
    for streak in streaks.values():
        ordered = sorted(streak, key=lambda keyed: keyed[0])
        for (key, record), (_, following) in pairwise(ordered):
            if any(attempt.same_error for attempt in record.attempts):
                shapes[key] = own_attempt_shape(record, steps_before(record.between, following.between))
    return shapes


def _fix_sort_key(fix: Fix) -> tuple[object, ...]:
    """Order fixes: confirmed advice first, then by the rate at which they worked, then by sessions and times."""
    rate = (fix.worked + 1) / (fix.tried + 2)
    is_advice = fix.confirmed and fix.transfers
    return (not is_advice, not fix.confirmed, -round(rate, 6), -fix.sessions, len(fix.description), fix.description)


def _build_fix(
    cluster: Sequence[ErrorOccurrence],
    group: Iterable[ErrorOccurrence],
    records: Mapping[RecordKey, ErrorRecord],
    own_attempts: Mapping[RecordKey, FixShape],
    templates: Sequence[FixTemplate] = (),
    latest: ErrorOccurrence | None = None,
) -> Fix:
    example = records[(latest or cluster[0]).record_key]
    sessions, worked = _count_roots(cluster), len(cluster)
    shapes = {occurrence.fix_shape for occurrence in cluster}
    repeats = {("again",)} if any(shape is not None and shape[:1] == ("again",) for shape in shapes) else set()
    in_vain = shapes | repeats
    occurrences = failed = 0
    for occurrence in group:
        occurrences += 1
        own = own_attempts.get(occurrence.record_key)
        failed += own in shapes if own is not None else bool(in_vain.intersection(occurrence.failed_shapes))
    often = worked >= MIN_CONFIRMING_RATE * (worked + failed) and worked >= MIN_CONFIRMING_SHARE * occurrences
    return Fix(
        description=describe_template(_plainest(templates)) if templates else describe_fix(example),
        rule=example.rule or "",
        changes=example.fix,
        steps=example.between,
        failing=example.failing,
        resolving=example.resolving or "",
        headline=example.headline,
        worked=worked,
        tried=worked + failed,
        sessions=sessions,
        confirmed=sessions >= MIN_CONFIRMING_SESSIONS and often,
        evidence=_latest_evidence(cluster, records),
        templates=tuple(template.to_json() for template in templates),
        last_time=describe_fix(example),
        people=count_people(cluster),
        transfers=bool(templates) or all(shape is not None and is_transferable(shape) for shape in shapes),
        harm=fix_harm(example, templates, cluster[0].ref.project),
    )


def _plainest(templates: Sequence[FixTemplate]) -> FixTemplate:
    """Return the template to show to people: a whole call rather than a change of the failed one."""
    return next((template for template in templates if template.texts and not template.keeps), templates[0])


def count_people(group: Iterable[ErrorOccurrence]) -> int:
    """Return how many people's sessions they are of."""
    return len({occurrence.ref.person for occurrence in group})


def _count_roots(group: Iterable[ErrorOccurrence]) -> int:
    return len({occurrence.ref.root for occurrence in group})


def _latest_evidence(
    group: Sequence[ErrorOccurrence], records: Mapping[RecordKey, ErrorRecord]
) -> tuple[Evidence, ...]:
    latest = [(occurrence.ref.session_id, records[occurrence.record_key]) for occurrence in group[:MAX_EVIDENCE]]
    return tuple(Evidence(session, r.seq, r.resolver_seq, r.quote, r.occurred_at) for session, r in latest)


def _most_common_attempts(group: Iterable[ErrorOccurrence]) -> tuple[str, ...]:
    counts = Counter(attempt for occurrence in group for attempt in dict.fromkeys(occurrence.tried))
    ordered = sorted(counts, key=lambda attempt: (-counts[attempt], attempt))
    return tuple(islice((attempt for attempt in ordered if quote_harm(attempt) is None), MAX_TRIED))


def _most_common(values: Iterable[str]) -> str:
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))
