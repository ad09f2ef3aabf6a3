"""Families of errors: one error with other names (modules, commands, options) in it, and the fix that they share.

`No module named 'requests'` is resolved by `pip install requests`; of a family it is known that `pip install ⟨name⟩`
resolves it, whatever the module. A fix that does not use the name says nothing about another name, and is left out.
Pure and independent of order, as `grouping` is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from consolidator.memory.calls.symbols import display_name
from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.memory.solutions.fingerprint import FAMILY_NAME, error_names, family_headline, missing_command
from consolidator.memory.solutions.fix_cases import FixCase, case_of_record
from consolidator.memory.solutions.fix_description import describe_fix
from consolidator.memory.solutions.fix_harm import fix_harm
from consolidator.memory.solutions.fix_learning import LearnedTemplate, learn_templates
from consolidator.memory.solutions.fix_suggestion import describe_template
from consolidator.memory.solutions.grouping import (
    DEFAULT_MIN_PEOPLE,
    MAX_CASES,
    MAX_EVIDENCE,
    MIN_CONFIRMING_RATE,
    MIN_CONFIRMING_SESSIONS,
    ErrorOccurrence,
    GroupKey,
    RecordKey,
    count_people,
    group_key,
    latest_first,
)
from consolidator.memory.solutions.sharing import most_common_of_people, share_solution, share_templates
from consolidator.memory.solutions.solution import Evidence, Fix, Solution, solution_id, split_withheld
from consolidator.models.audience import SHARED

MIN_NAMES = 2  # different names for which a fix must have worked
MIN_TRUST = 0.6  # expected share of right answers; below that of one error, since each case has another name
MAX_CASES_OF_NAME = 5  # so that one name does not stand for its family


class FamilyGroups:
    """Occurrences by agent, project and family; `ErrorOccurrence.fingerprint` is the family's."""

    def __init__(self, occurrences: Iterable[ErrorOccurrence], min_people: int = DEFAULT_MIN_PEOPLE) -> None:
        groups: dict[GroupKey, list[ErrorOccurrence]] = defaultdict(list)
        for occurrence in occurrences:
            if occurrence.status != "noise":
                groups[group_key(occurrence)].append(occurrence)
        self._min_people = min_people
        self._groups = {key: latest_first(group) for key, group in groups.items()}

    def cited_records(self) -> set[RecordKey]:
        """Return the keys of the records from which templates are learned: the latest of each name."""
        return {occurrence.record_key for group in self._groups.values() for occurrence in _latest_of_names(group)}

    def build_solutions(self, records: Mapping[RecordKey, ErrorRecord]) -> list[Solution]:
        """Return the families of which a fix is known for any name, from the cited records."""
        built = (_build_solution(key, group, records, self._min_people) for key, group in self._groups.items())
        return sorted((solution for solution in built if solution is not None), key=lambda solution: solution.id)


def _latest_of_names(group: Sequence[ErrorOccurrence]) -> list[ErrorOccurrence]:
    counts: Counter[tuple[str, ...]] = Counter()
    chosen = []
    for occurrence in group:
        names = error_names(occurrence.headline)
        if occurrence.fix_shape is not None and counts[names] < MAX_CASES_OF_NAME:
            counts[names] += 1
            chosen.append(occurrence)
    return chosen[:MAX_CASES] if len(counts) >= MIN_NAMES else []


def _build_solution(
    key: GroupKey,
    group: Sequence[ErrorOccurrence],
    records: Mapping[RecordKey, ErrorRecord],
    min_people: int,
) -> Solution | None:
    agent, project, family, audience = key
    cases: list[FixCase] = []
    for occurrence in _latest_of_names(group):
        case = case_of_record(occurrence.ref.root, occurrence.ref.session_id, records[occurrence.record_key])
        if case is not None:
            cases.append(replace(case, names=error_names(occurrence.headline)))
    learned_fixes = [fix for fix in learn_templates(cases, min_trust=MIN_TRUST) if _is_of_family(fix, cases)]
    if audience == SHARED:
        learned_fixes = share_templates(learned_fixes, cases, min_people)
    headline = family_headline(family)
    fixes, _ = split_withheld((_build_fix(fix, headline, group, records) for fix in learned_fixes), None)
    if not fixes:
        return None
    names = {case.names for case in cases if any(case.resolver in fix.hits for fix in learned_fixes)}
    symbol = group[0].symbol if not missing_command(group[0].headline) else FAMILY_NAME
    solution = Solution(
        id=solution_id(agent, project, family, audience),
        agent=agent,
        project=project,
        fingerprint=family,
        tool=group[0].tool,
        failed=display_name(symbol),
        headline=headline,
        occurrences=len(group),
        resolved=sum(occurrence.fix_shape is not None for occurrence in group),
        sessions=len({occurrence.ref.root for occurrence in group}),
        status="confirmed",
        fixes=tuple(fixes),
        tried=(),
        evidence=_evidence(group, records),
        last_at=group[0].occurred_at,
        names=len(names),
        people=count_people(group),
        audience=audience,
    )
    if audience != SHARED:
        return solution
    program = family.partition(":")[2].partition("|")[0]
    symbols = ((occurrence.ref.root, occurrence.symbol) for occurrence in group)
    return replace(
        share_solution(solution, headline),
        tool=most_common_of_people(((o.ref.root, o.tool) for o in group), min_people, program),
        failed=display_name(symbol if symbol == FAMILY_NAME else most_common_of_people(symbols, min_people, program)),
    )


def _is_of_family(learned: LearnedTemplate, cases: Iterable[FixCase]) -> bool:
    """Whether a template writes the error's name, and worked for several names, in half of its tries."""
    names = {case.names for case in cases if case.resolver in learned.hits}
    works = len(learned.hits) >= MIN_CONFIRMING_RATE * (learned.applied + learned.failed)
    enough = len(names) >= MIN_NAMES and learned.roots >= MIN_CONFIRMING_SESSIONS
    return enough and works and learned.template.needs_name and learned.template.same_call_only is None


def _build_fix(
    learned: LearnedTemplate,
    headline: str,
    group: Sequence[ErrorOccurrence],
    records: Mapping[RecordKey, ErrorRecord],
) -> Fix:
    hits = [
        occurrence
        for occurrence in group
        if (record := records.get(occurrence.record_key)) is not None
        and (occurrence.ref.session_id, record.resolver_seq) in learned.hits
    ]
    example = records[hits[0].record_key]
    return Fix(
        description=describe_template(learned.template),
        rule=example.rule or "",
        changes=example.fix,
        steps=example.between,
        failing=example.failing,
        resolving=example.resolving or "",
        headline=headline,
        worked=len(learned.hits),
        tried=learned.applied + learned.failed,
        sessions=learned.roots,
        confirmed=True,
        evidence=_evidence(hits, records),
        templates=(learned.template.to_json(),),
        last_time=describe_fix(example),
        people=count_people(hits),
        harm=fix_harm(example, [learned.template], group[0].ref.project),
    )


def _evidence(group: Iterable[ErrorOccurrence], records: Mapping[RecordKey, ErrorRecord]) -> tuple[Evidence, ...]:
    cited = [(o.ref.session_id, records[o.record_key]) for o in group if o.record_key in records][:MAX_EVIDENCE]
    return tuple(Evidence(session, r.seq, r.resolver_seq, r.quote, r.occurred_at) for session, r in cited)
