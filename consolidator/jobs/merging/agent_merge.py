"""Merges an agent: publishes what its sessions taught as procedures, solutions, facts, and lessons of its projects.

It is made from digests, records and candidates, so their order does not matter and a merge can be repeated.
What several projects share belongs to the agent. Lessons are of a person, over all agents that worked in a project:
several merges meet there, so each locks it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime

from consolidator.database import Connection
from consolidator.jobs.merging.procedure_merge import merge_procedures
from consolidator.jobs.merging.reconciling import reconcile_agent
from consolidator.jobs.merging.solution_merge import merge_solutions
from consolidator.memory.lessons import learning
from consolidator.memory.lessons.harm import lesson_harm
from consolidator.memory.lessons.history import MAX_CALLS_LEARNED, History
from consolidator.memory.lessons.lesson import WORKED_CALL, Lesson
from consolidator.memory.lessons.measuring import measure_lessons, without_corrected
from consolidator.memory.lessons.trace import Trace
from consolidator.memory.lessons.worked_calls import learn_worked_calls
from consolidator.memory.text.invisible import strip_invisible, strip_invisible_in
from consolidator.models.digest import ScopeRow
from consolidator.models.injection import TellingRow
from consolidator.models.provenance import Cause, Changes, Provenance
from consolidator.settings import Settings
from consolidator.store.calls import scopes
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
    measured = [*measure_lessons(learned, ids, traces, tellings), *learn_worked_calls(History.of(traces))]
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
