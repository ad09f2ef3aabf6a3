"""Merges an agent: publishes what its sessions taught as procedures, solutions, facts, and lessons of its projects.

It is made from digests, records and candidates, so their order does not matter and a merge can be repeated.
What several projects share belongs to the agent. Lessons are of a person, over all agents that worked in a project:
several merges meet there, so each locks it. Solutions are made of the latest error records of every fingerprint with
news, read and grouped in batches, so that memory does not grow with the night.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from consolidator.database import Connection
from consolidator.jobs.merging.procedure_merge import merge_procedures
from consolidator.jobs.merging.reconciling import reconcile_agent
from consolidator.memory.lessons import learning
from consolidator.memory.lessons.harm import lesson_harm
from consolidator.memory.lessons.history import MAX_CALLS_LEARNED, History
from consolidator.memory.lessons.lesson import WORKED_CALL, Lesson
from consolidator.memory.lessons.measuring import measure_lessons, without_corrected
from consolidator.memory.lessons.trace import Trace
from consolidator.memory.lessons.worked_calls import learn_worked_calls
from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.memory.solutions.grouping import ErrorOccurrence, FixOutcome, OccurrenceGroups, RecordKey, SessionRef
from consolidator.memory.solutions.solution import Solution
from consolidator.memory.text.invisible import strip_invisible, strip_invisible_in
from consolidator.models.audience import ALL, OWNER, SHARED, audience_of_only, own_audience
from consolidator.models.digest import ScopeRow
from consolidator.models.injection import TellingRow
from consolidator.models.provenance import Cause, Changes, Provenance
from consolidator.models.solution import SolutionRow
from consolidator.settings import Settings
from consolidator.store.calls import error_records, scopes
from consolidator.store.calls.error_records import RecordSummary
from consolidator.store.memory import injections, lessons
from consolidator.store.memory.lessons import LessonRow, TraceRow, lesson_id
from consolidator.store.sessions import projects


async def merge_agent(
    conn: Connection, agent: str, *, run_id: str | None, now: datetime, settings: Settings, cause: Cause = "run"
) -> Changes:
    """Publish what has news for an agent, in the caller's transaction."""
    await scopes.lock_agents(conn, [agent])
    changes = Changes()
    provenance = Provenance(run_id, cause, now)
    published = await merge_procedures(conn, agent, provenance, changes, min_support=settings.min_support)
    await merge_solutions(conn, agent, provenance, changes, min_support=settings.min_support)
    await reconcile_agent(conn, agent, provenance, changes)
    await merge_lessons(conn, published, provenance, changes)
    return changes


async def lock_lessons(conn: Connection, agents: Iterable[str]) -> None:
    """Lock the projects that have news for some agents: for a transaction that merges several, before the first."""
    changed = [row for agent in agents for row in await scopes.list_changed(conn, agent)]
    await lessons.lock_scopes(conn, _places(changed))


async def merge_lessons(
    conn: Connection, changed: Sequence[ScopeRow], provenance: Provenance, changes: Changes
) -> None:
    """Learn the lessons of some scopes again, in the caller's transaction that holds the agent's lock."""
    places = _places(changed)
    await lessons.lock_scopes(conn, places)
    for person, project in places:
        rows = await lessons.list_traces(conn, person, project, limit=learning.MAX_TRACES)
        tellings = await injections.list_tellings(conn, [row.session_id for row in rows])
        published = await asyncio.to_thread(_learn, rows, tellings, person, project, provenance)
        published = await _drop_forgotten(conn, published)
        await lessons.save_each(conn, [row for row in published if row.kind == WORKED_CALL])
        for outcome in await lessons.save_each(conn, [row for row in published if row.kind != WORKED_CALL]):
            changes.add("lessons", outcome)
        retired = await lessons.retire_others(conn, person, project, [row.id for row in published], provenance)
        changes.add("lessons", "retired", retired)


async def _drop_forgotten(conn: Connection, published: list[LessonRow]) -> list[LessonRow]:
    """Drop what a person forgot while another checkout of the project was a project of its own."""
    others = await projects.list_others(conn, published[0].project) if published else []
    ids = {lesson_id(row.person, place, row.kind, row.key): row.id for _, place in others for row in published}
    forgotten = {ids[each] for each in await lessons.list_forgotten(conn, list(ids))} if ids else set()
    return [row for row in published if row.id not in forgotten]


def _places(changed: Iterable[ScopeRow]) -> list[tuple[str, str]]:
    """Return the people's projects of some scopes, always in the same order."""
    return sorted({(row.peer, row.project) for row in changed if row.project})


def _learn(
    rows: Sequence[TraceRow], tellings: Sequence[TellingRow], person: str, project: str, provenance: Provenance
) -> list[LessonRow]:
    traces: list[Trace] = []
    room = MAX_CALLS_LEARNED
    for row in rows:  # the latest first; what no room is left for is not unpacked
        if room >= 0:
            traces.append(Trace.unpack(row.session_id, row.root_id, row.agent, row.trace))
            room -= len(traces[-1].calls)
    learned = learning.learn_lessons(without_corrected(traces, tellings))
    ids = [lesson_id(person, project, lesson.kind, lesson.key) for lesson in learned]
    failing = {lesson.key for lesson in learned if lesson.kind == "always_fails"}
    worked = learn_worked_calls(History.of(traces), failing)
    measured = [*measure_lessons(learned, ids, traces, tellings), *worked]
    return [_lesson_row(lesson, person, project, provenance) for lesson in measured]


def _lesson_row(lesson: Lesson, person: str, project: str, provenance: Provenance) -> LessonRow:
    return LessonRow(
        id=lesson_id(person, project, lesson.kind, lesson.key),
        person=person,
        project=project,
        kind=lesson.kind,
        key=strip_invisible(lesson.key),
        line=strip_invisible(lesson.line),
        score=lesson.score,
        harm=lesson_harm(lesson.line, lesson.instead, project),
        body=strip_invisible_in(lesson.to_json()),
        forgotten_at=None,
        **provenance.columns(),
    )


_RECORDS_AT_ONCE = 2000  # whole records in memory at once, as far as solutions do not cite more
# What a row has as the solution has it.
_SAME = ("id", "agent", "project", "fingerprint", "tool", "confirmed", "sessions", "occurrences", "audience")
_COUNTED = ("seq", "fingerprint", "status", "occurred_at", "tool", "symbol", "headline")  # of a record, likewise
_SUMMARIES_AT_ONCE = 10_000  # summaries of records in memory at once, unless one fingerprint has more


async def merge_solutions(
    conn: Connection, agent: str, provenance: Provenance, changes: Changes, *, min_support: int
) -> None:
    """Group the error records of every fingerprint that has news, and publish a solution for each group."""
    locked = await error_records.lock_unmerged(conn, agent)
    if not locked:
        return
    fix_shapes: dict[RecordKey, str] = {}
    for fingerprints in _batch_fingerprints(await error_records.count_with_news(conn, agent)):
        fix_shapes |= await _merge_fingerprints(conn, agent, fingerprints, provenance, changes, min_support)
    # Records that others committed meanwhile are counted, too, but stay unmerged: only locked ones cannot have changed.
    await error_records.mark_merged(conn, locked, fix_shapes)


def _batch_fingerprints(counts: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield fingerprints in batches with at most _SUMMARIES_AT_ONCE records, or with one fingerprint."""
    batch: list[str] = []
    records = 0
    for fingerprint, count in counts.items():
        if batch and records + count > _SUMMARIES_AT_ONCE:
            yield batch
            batch, records = [], 0
        batch.append(fingerprint)
        records += count
    if batch:
        yield batch


async def _merge_fingerprints(
    conn: Connection,
    agent: str,
    fingerprints: Sequence[str],
    provenance: Provenance,
    changes: Changes,
    min_support: int,
) -> dict[RecordKey, str]:
    """Publish the solutions of some fingerprints; return the shapes of fixes that were not stored yet."""
    summaries = await error_records.list_of_fingerprints(conn, agent, fingerprints)
    unread = [(summary.session_id, summary.seq) for summary in summaries if summary.fix_shape is None]
    fix_shapes: dict[RecordKey, str] = {}
    for first in range(0, len(unread), _RECORDS_AT_ONCE):
        records = await error_records.get_each(conn, unread[first : first + _RECORDS_AT_ONCE])
        fix_shapes |= await asyncio.to_thread(_read_fix_shapes, records)

    counted = _occurrences(summaries, agent, fix_shapes, min_support)
    groups = await asyncio.to_thread(OccurrenceGroups, counted, min_support)
    cited = _parse_records(await error_records.get_each(conn, sorted(groups.cited_records())))
    published = await asyncio.to_thread(groups.build_solutions, cited)
    rows = [_solution_row(solution, provenance) for solution in published]
    for row, outcome in zip(rows, await error_records.save_each(conn, rows), strict=True):
        if row.audience.startswith(ALL):
            changes.add("solutions", outcome)
    keep = [solution.id for solution in published]
    deleted = await error_records.delete_others(conn, agent, fingerprints, keep)
    changes.add("solutions", "retired", sum(audience.startswith(ALL) for audience in deleted))
    return fix_shapes


def _read_fix_shapes(stored: Mapping[RecordKey, dict[str, Any]]) -> dict[RecordKey, str]:
    return {key: json.dumps(FixOutcome.of_record(record).to_json()) for key, record in _parse_records(stored).items()}


def _parse_records(stored: Mapping[RecordKey, dict[str, Any]]) -> dict[RecordKey, ErrorRecord]:
    return {key: ErrorRecord.from_json(record) for key, record in stored.items()}


def _occurrences(
    summaries: Sequence[RecordSummary], agent: str, fix_shapes: Mapping[RecordKey, str], min_people: int
) -> Iterator[ErrorOccurrence]:
    """Yield what is counted of stored records, once for each audience; of noise nothing is counted."""
    by_fingerprint: dict[str, list[RecordSummary]] = defaultdict(list)
    for summary in summaries:
        if summary.status != "noise":
            by_fingerprint[summary.fingerprint].append(summary)
    for records in by_fingerprint.values():
        for audience, members in _by_audience(records, min_people):
            # A fingerprint of several projects belongs to the agent as a whole.
            projects = {summary.project for summary in members}
            project = members[0].project if len(projects) == 1 else None
            for summary in members:
                shape = summary.fix_shape or fix_shapes[summary.session_id, summary.seq]
                outcome = FixOutcome.from_json(json.loads(shape))
                root = summary.peer if audience == SHARED else summary.root_id
                yield ErrorOccurrence(
                    ref=SessionRef(summary.session_id, root, agent, project, audience, summary.peer),
                    tried=tuple(json.loads(summary.tried)) if summary.tried else (),
                    outcome=outcome,
                    **{name: getattr(summary, name) for name in _COUNTED},
                )


def _by_audience(records: Sequence[RecordSummary], min_people: int) -> Iterator[tuple[str, Sequence[RecordSummary]]]:
    """Yield to whom a solution is shown, and the records that it may be made of."""
    people = sorted({record.peer for record in records})
    if len(people) == 1:
        yield audience_of_only(people[0]), records
        return
    yield ALL, records
    if len(people) >= min_people:
        yield SHARED, records
    for person in people:
        if person != OWNER:
            yield own_audience(person), [record for record in records if record.peer == person]


def _solution_row(solution: Solution, provenance: Provenance) -> SolutionRow:
    search = [solution.failed, solution.headline, *(fix.description for fix in solution.fixes)]
    return SolutionRow(
        **{name: getattr(solution, name) for name in _SAME},
        headline=strip_invisible(solution.headline),
        search=strip_invisible(" ".join(search)),
        body=strip_invisible_in(solution.to_json()),
        **provenance.columns(),
    )
