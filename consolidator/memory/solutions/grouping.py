"""Group the error records of many sessions into solutions: what fails, what fixed it, how often, with evidence.

Pure and independent of order: sums over records, sorted by content, so that nights and batch publish the same.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from consolidator.memory.calls.symbols import display_name
from consolidator.memory.plain import Plain
from consolidator.memory.solutions.call_edit import CallEdit
from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.memory.solutions.fix_description import describe_fix, fix_harm, mending_steps, quote_harm
from consolidator.memory.solutions.fix_form import (
    AGAIN,
    FixForm,
    form_of_attempt,
    forms_of_record,
    forms_of_steps,
    is_of_one_case,
    is_only_repeated,
)
from consolidator.memory.solutions.solution import (
    Evidence,
    Fix,
    Solution,
    solution_id,
    solution_sort_key,
    split_withheld,
)
from consolidator.models.audience import ALL, SHARED

DEFAULT_MIN_PEOPLE = 3  # of whom a form must be known before everybody is told
MIN_CONFIRMING_SESSIONS = 2  # lineage roots in which a fix must have worked
MIN_CONFIRMING_RATE = 1 / 2  # of the times that it was tried
MIN_CONFIRMING_SHARE = 1 / 3  # of the sessions that met the error
MAX_CASES = 40  # the latest ones, whose records are read
MAX_FIXES = 5
MAX_EVIDENCE = 5
MAX_TRIED = 5
MAX_VALUES = 20  # of a slot that are kept
_PLACEHOLDER = re.compile(r"sh:\W?redacted", re.IGNORECASE)  # of a program that was left out
NO_FORM = ""  # what was done says nothing for another case: an edit, or a text of its own


@dataclass(frozen=True, slots=True)
class SessionRef:
    """The session of a record; forks and resumes of one session share its root."""

    session_id: str
    root: str
    agent: str
    project: str | None = None
    audience: str = ALL  # for whom it is counted; for everybody, `root` is the person
    person: str = ""  # whose session it is; "" for the owner of the machine


RecordKey: TypeAlias = tuple[str, int]  # session and seq
GroupKey: TypeAlias = tuple[str, str | None, str, str]  # agent, project, fingerprint, audience


@dataclass(frozen=True, slots=True)
class FixOutcome(Plain):
    """What was tried about one error, by the keys of its forms; what led only to another error did not work."""

    worked: tuple[str, ...] | None  # None: nothing resolved it
    failed: tuple[str, ...]

    @classmethod
    def of_record(cls, record: ErrorRecord) -> FixOutcome:
        """Return the outcome of a record."""
        forms: tuple[str, ...] = ()
        if record.status == "resolved" and not any(attempt.same_error for attempt in record.attempts):
            # what resolved an error that came back is counted where it came last
            forms = tuple(case.form.key for case in forms_of_record(record))
            if not forms and describe_fix(record):
                forms = (NO_FORM,)
        in_vain = [form_of_attempt(record, a.arguments, a.directory, a.place, a.edits) for a in record.attempts]
        in_vain += [forms_of_steps(record, attempt.steps) for attempt in record.attempts]
        failed = {case.form.key for cases in in_vain for case in cases}
        same = [attempt for attempt in record.attempts if attempt.arguments == record.arguments]
        failed |= {AGAIN.key for attempt in same if is_only_repeated(attempt.steps)}
        works = record.status == "resolved" and record.outcome == "worked"
        return cls(forms if works else None, tuple(sorted(failed if works else failed.union(forms) - {NO_FORM})))


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
    outcome: FixOutcome

    @property
    def record_key(self) -> RecordKey:
        """The key of its record."""
        return self.ref.session_id, self.seq

    @property
    def group_key(self) -> GroupKey:
        """The solution that it belongs to."""
        return self.ref.agent, self.ref.project, self.fingerprint, self.ref.audience


class OccurrenceGroups:
    """Occurrences by agent, project and fingerprint, without noise and unnamed programs, the latest first."""

    def __init__(self, occurrences: Iterable[ErrorOccurrence], min_people: int = DEFAULT_MIN_PEOPLE) -> None:
        groups: dict[GroupKey, list[ErrorOccurrence]] = defaultdict(list)
        for occurrence in occurrences:
            if occurrence.status != "noise" and not _PLACEHOLDER.match(occurrence.symbol):
                groups[occurrence.group_key].append(occurrence)
        self._min_people = min_people
        self._groups = {
            key: sorted(group, key=lambda o: (o.occurred_at, o.ref.session_id, o.seq), reverse=True)
            for key, group in groups.items()
        }
        self._chosen = {key: _choose_fixes(group) for key, group in self._groups.items()}

    def cited_records(self) -> set[RecordKey]:
        """Return the keys of the records that solutions cite: the latest of each group and fix."""
        cited = {o.record_key for group in self._groups.values() for o in group[:MAX_EVIDENCE]}
        for chosen in self._chosen.values():
            cited.update(o.record_key for counted in chosen for o in counted.hits[:MAX_CASES])
        return cited

    def build_solutions(self, records: Mapping[RecordKey, ErrorRecord]) -> list[Solution]:
        """Return the solutions, from the cited records; the most certain and most frequent first."""
        solutions = [
            _build_solution(key, group, self._chosen[key], records, self._min_people)
            for key, group in self._groups.items()
        ]
        # What is shared tells a fix; that others met an error is nobody's business.
        worth_keeping = (solution for solution in solutions if solution.audience != SHARED or solution.fixes)
        return sorted(worth_keeping, key=solution_sort_key)


@dataclass(frozen=True, slots=True)
class _CountedFix:
    """A form, the occurrences in which it worked, and how often it was tried in vain."""

    key: str
    hits: list[ErrorOccurrence]  # the latest first
    failed: int
    sessions: int
    confirmed: bool

    @property
    def order(self) -> tuple[object, ...]:
        """Confirmed first, then by the rate at which they worked, by sessions, and those that say most."""
        rate = (len(self.hits) + 1) / (len(self.hits) + self.failed + 2)
        return (not self.confirmed, self.key == NO_FORM, -round(rate, 6), -self.sessions)


def _choose_fixes(group: Sequence[ErrorOccurrence]) -> list[_CountedFix]:
    """Return the forms that resolved a group's occurrences, the best supported first, without those they explain."""
    by_key: dict[str, list[ErrorOccurrence]] = defaultdict(list)
    for occurrence in group:
        for key in occurrence.outcome.worked or ():
            by_key[key].append(occurrence)
    failed = Counter(key for occurrence in group for key in occurrence.outcome.failed)
    met = _count_roots(group)
    met_by_others = _count_roots(o for o in group if o.outcome.worked != (NO_FORM,))

    counted = []
    for key, hits in sorted(by_key.items()):
        sessions = _count_roots(hits)
        of = met if failed[key] else met_by_others  # an edit of the agent's own is no vote against what always worked
        is_often = (
            len(hits) >= MIN_CONFIRMING_RATE * (len(hits) + failed[key]) and sessions >= MIN_CONFIRMING_SHARE * of
        )
        is_seen = sessions >= MIN_CONFIRMING_SESSIONS or _is_named(key, hits[0].headline)
        confirmed = key != NO_FORM and is_seen and is_often
        if confirmed or key != AGAIN.key:  # that it passed once says nothing
            counted.append(_CountedFix(key, hits, failed[key], sessions, confirmed))

    chosen: list[_CountedFix] = []
    explained: set[RecordKey] = set()
    counted.sort(key=lambda fix: fix.hits[0].occurred_at, reverse=True)  # of equals the latest
    for fix in sorted(counted, key=lambda fix: fix.order):
        keys = {occurrence.record_key for occurrence in fix.hits}
        if keys - explained:
            chosen.append(fix)
            explained |= keys
    return chosen[:MAX_FIXES]


def _is_named(key: str, headline: str) -> bool:
    """Whether an error itself says how to edit its call."""
    edit = FixForm.from_json(json.loads(key)).edit if key.startswith('{"kind": "edit"') else None
    if edit is None:
        return False
    return edit.is_named(headline) if not edit.is_replacement else CallEdit((), edit.new).is_named(headline)


def _build_solution(
    key: GroupKey,
    group: Sequence[ErrorOccurrence],
    chosen: Sequence[_CountedFix],
    records: Mapping[RecordKey, ErrorRecord],
    min_people: int,
) -> Solution:
    agent, project, fingerprint, audience = key
    built = [_build_fix(counted, records) for counted in chosen]
    fixes, withheld = split_withheld(sorted(built, key=lambda fix: not fix.confirmed), project)
    status = "unsolved"
    if fixes:
        status = "confirmed" if any(fix.confirmed for fix in fixes) else "unconfirmed"
    attempts = Counter(attempt for occurrence in group for attempt in dict.fromkeys(occurrence.tried))
    tried = (attempt for attempt in sorted(attempts, key=lambda a: (-attempts[a], a)) if quote_harm(attempt) is None)

    solution = Solution(
        id=solution_id(agent, project, fingerprint, audience),
        agent=agent,
        project=project,
        fingerprint=fingerprint,
        tool=_most_common(occurrence.tool for occurrence in group),
        failed=_name_failed(group, records),
        headline=fixes[0].headline if fixes else _most_common(occurrence.headline for occurrence in group),
        occurrences=len(group),
        resolved=sum(occurrence.outcome.worked is not None for occurrence in group),
        sessions=_count_roots(group),
        people=_count_people(group),
        status=status,
        fixes=tuple(fixes),
        tried=tuple(islice(tried, MAX_TRIED)),
        evidence=_latest_evidence(group[:MAX_EVIDENCE], records),
        last_at=group[0].occurred_at,
        audience=audience,
        withheld=withheld,
    )
    if audience != SHARED:
        return solution
    program, _, masked = fingerprint.partition(":")[2].partition("|")
    return replace(
        _share_solution(solution, masked, min_people),
        tool=_most_common_of_people(((o.ref.root, o.tool) for o in group), min_people, program),
        failed=display_name(_most_common_of_people(((o.ref.root, o.symbol) for o in group), min_people, program)),
    )


def _build_fix(counted: _CountedFix, records: Mapping[RecordKey, ErrorRecord]) -> Fix:
    hits = [o for o in counted.hits if o.record_key in records][:MAX_CASES]
    read = [records[occurrence.record_key] for occurrence in hits]
    cases = [case for record in read for case in forms_of_record(record) if case.form.key == counted.key]
    form = cases[0].form if cases else None
    columns = zip(*(case.values for case in cases), strict=True)
    values = tuple(tuple(sorted(set(column))[:MAX_VALUES]) for column in columns)  # of each slot
    project = hits[0].ref.project
    example = next((record for record in read if fix_harm(record, project) is None), read[0])
    last_time = describe_fix(example)
    is_general = form is not None and (not is_of_one_case(form) or len({str(r.arguments) for r in read}) > 1)
    return Fix(
        description=form.describe(values) if form is not None and is_general and counted.confirmed else last_time,
        rule=example.rule or "",
        steps=mending_steps(example),
        failing=example.failing,
        resolving=example.resolving or "",
        headline=example.headline,
        worked=len(counted.hits),
        tried=len(counted.hits) + counted.failed,
        sessions=counted.sessions,
        confirmed=counted.confirmed and is_general,
        evidence=_latest_evidence(hits[:MAX_EVIDENCE], records),
        form=form.to_json() if form is not None and is_general else None,
        values=values if is_general else (),
        last_time=last_time,
        people=_count_people(counted.hits),
        harm=fix_harm(example, project),
    )


def _count_people(group: Iterable[ErrorOccurrence]) -> int:
    return len({occurrence.ref.person for occurrence in group})


def _count_roots(group: Iterable[ErrorOccurrence]) -> int:
    return len({occurrence.ref.root for occurrence in group})


def _name_failed(group: Sequence[ErrorOccurrence], records: Mapping[RecordKey, ErrorRecord]) -> str:
    """Return what failed, with the wrapper that ran it in most of the latest cases: that may be what fails."""
    symbol = _most_common(occurrence.symbol for occurrence in group)
    program = group[0].fingerprint.partition(":")[2].partition("|")[0]
    symbol = symbol if symbol.split(" ", 1)[0] == program else program  # the error names another one
    lines = (records[o.record_key].arguments.get("command", "") for o in group[:MAX_EVIDENCE])
    return _most_common(display_name(symbol, line) for line in lines)


def _latest_evidence(
    group: Iterable[ErrorOccurrence], records: Mapping[RecordKey, ErrorRecord]
) -> tuple[Evidence, ...]:
    latest = [(occurrence.ref.session_id, records[occurrence.record_key]) for occurrence in group]
    return tuple(Evidence(session, r.seq, r.resolver_seq, r.quote, r.occurred_at) for session, r in latest)


def _most_common(values: Iterable[str]) -> str:
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))


def _share_solution(solution: Solution, headline: str, min_people: int) -> Solution:
    """Return what everybody may be told of what several people's sessions taught: forms, and nothing of a case.

    What a form writes and leaves out stands in every case that it explains. `headline` is the masked one, and its fixes
    count people as sessions.
    """
    fixes = tuple(
        _share_fix(fix, headline) for fix in solution.fixes if fix.form is not None and fix.sessions >= min_people
    )
    status = "confirmed" if any(fix.confirmed for fix in fixes) else "unconfirmed" if fixes else "unsolved"
    return replace(
        solution, headline=headline, status=status, fixes=fixes, tried=(), evidence=(), last_at="", withheld=()
    )


def _share_fix(fix: Fix, headline: str) -> Fix:
    assert fix.form is not None
    return replace(
        fix,
        description=FixForm.from_json(fix.form).describe(),
        steps=(),
        failing="",
        resolving="",
        headline=headline,
        evidence=(),
        last_time="",
        values=(),
    )


def _most_common_of_people(values: Iterable[tuple[str, str]], min_people: int, fallback: str) -> str:
    """Return the value that most people have, of pairs of person and value; the fallback where too few have any."""
    people: Mapping[str, set[str]] = defaultdict(set)
    for person, value in values:
        people[value].add(person)
    counts = Counter({value: len(named) for value, named in people.items() if len(named) >= min_people})
    return min(counts, key=lambda value: (-counts[value], value)) if counts else fallback
