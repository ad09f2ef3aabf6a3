"""Lessons of a person's projects: how commands are run, what always fails, and what then works; of all agents."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from consolidator.database import Connection, Database
from consolidator.errors import NotFound, UsageError
from consolidator.memory.calls.shell_words import program_name
from consolidator.memory.lessons.lesson import (
    HOME,
    OTHERS,
    WORKED_CALL,
    Lesson,
    home_folder,
    read_calls,
    told_elsewhere,
)
from consolidator.memory.text.words import query_words
from consolidator.models import audience
from consolidator.models.memory_filter import LessonFilter, MemoryScope, SolutionFilter
from consolidator.models.solution import SolutionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.scope import narrow_scope
from consolidator.store.memory import lessons
from consolidator.store.memory.lessons import LESSON_PREFIX as LESSON_PREFIX
from consolidator.store.memory.lessons import LessonRow as LessonRow

COMMAND_KINDS = ("command", "always_fails")
FAILING_KINDS = ("always_fails", "first_run_fails")  # that a call can be guarded against
FRICTION_KINDS = (*FAILING_KINDS, "harness")
ERROR_KIND = "error"  # of friction that no lesson is about
MAX_ERRORS_READ = 200
MIN_FRICTION_SESSIONS = 3  # in which something failed, before it counts as friction
MIN_SHARED_WITH_CALL = 2  # words of a question that a call has, where the question has so many
MAX_TOLD = 500  # of a project, of which some are told
_ALL = 100_000


def read_lesson(row: LessonRow) -> Lesson:
    """Return what a row holds."""
    return Lesson.from_json(row.body)


def describe_worth(row: LessonRow) -> str:
    """Return in words what came of telling a lesson, or why no figure says that."""
    if row.kind == ERROR_KIND:
        return ""
    from consolidator.memory.lessons.worth import Worth

    worth = Worth.from_json(row.body.get("worth", {}))
    is_measured = worth.told.sessions + worth.untold.sessions > 0
    return ", ".join(filter(None, [worth.describe(), "" if is_measured else "no figure: its situation did not come"]))


async def load_lessons(database: Database, scope: MemoryScope, kinds: Sequence[str] | None = None) -> dict[str, Lesson]:
    """Return the lessons that may be told in a project, the most helpful first, by id."""
    place = scope.project or ""
    is_shared = scope.shared_in is None or place in scope.shared_in  # as of facts
    alone = None if database.share_between_agents and is_shared else scope.agent
    async with database.connection() as conn:
        rows = await lessons.list_lessons(
            conn, scope.peer or audience.OWNER, place, kinds=kinds, limit=MAX_TOLD, agent_alone=alone
        )
    return {row.id: read_lesson(row) for row in rows if row.withheld is None}


async def load_machine_lessons(database: Database, scope: MemoryScope) -> dict[str, Lesson]:
    """Return what other projects taught of the machine: what the shell refused, and programs that are not there.

    What worked in any project is not among it. Whoever may see one project alone is told nothing that others taught,
    and a viewer of one agent nothing that other agents' sessions had a part in.
    """
    if scope.project_alone:
        return {}
    alone = None if database.share_between_agents and scope.shared_in is None else scope.agent
    async with database.connection() as conn:
        rows = await lessons.list_of_machine(conn, scope.peer or audience.OWNER, HOME, alone, MAX_TOLD)
    here = home_folder(scope.project or "")
    told = {row.id: read_lesson(row) for row in rows if here == home_folder(row.project) != ""}
    return {id: told_elsewhere(lesson) for id, lesson in told.items()}


async def list_lessons(
    database: Database, filters: LessonFilter = LessonFilter(), *, viewer: Viewer = OWNER
) -> list[LessonRow]:
    """Return lessons, the most helpful first: of the peer that is named, else of the owner of the machine.

    A viewer of one agent gets those that no other agent's sessions had a part in.
    """
    async with database.connection() as conn:
        scope = await narrow_scope(conn, viewer, filters)
        return await lessons.list_lessons(
            conn,
            scope.peer or "",
            scope.project or None,
            kinds=scope.kinds,
            agent=scope.agent,
            agent_alone=viewer.agent,
            query=scope.query,
            limit=scope.limit,
        )


async def list_commands(
    database: Database, filters: LessonFilter = LessonFilter(), *, viewer: Viewer = OWNER
) -> list[LessonRow]:
    """Return how commands are run here, and which calls always fail."""
    return await list_lessons(database, replace(filters, kinds=COMMAND_KINDS), viewer=viewer)


async def list_friction(
    database: Database, filters: LessonFilter = LessonFilter(), *, viewer: Viewer = OWNER
) -> list[LessonRow]:
    """Return what failed in several sessions, what failed in most of them first."""
    from consolidator.service.memory.solutions import list_solutions  # loads what reads errors: no answer needs it

    frictions = replace(filters, kinds=FRICTION_KINDS, limit=_ALL)
    rows = await list_lessons(database, frictions, viewer=viewer)
    failing = [row for row in rows if row.body["failures"]]
    errors = SolutionFilter(
        agent=filters.agent,
        project=filters.project,
        peer=filters.peer,
        query=filters.query,
        limit=MAX_ERRORS_READ,
        include_unsolved=True,
    )
    met = [
        row for row in await list_solutions(database, errors, viewer=viewer) if row.sessions >= MIN_FRICTION_SESSIONS
    ]
    everything = replace(filters, kinds=None, query=None, limit=_ALL)
    lessons = [read_lesson(row) for row in await list_lessons(database, everything, viewer=viewer)] if met else []
    failing += [_friction_of(row) for row in met if not is_said(row, lessons)]
    failing = [row for row in failing if row.body["sessions"] >= MIN_FRICTION_SESSIONS]
    failing.sort(key=lambda row: (-row.body["sessions"], -row.body["failures"], row.id))
    return failing[: filters.limit]


def _friction_of(row: SolutionRow) -> LessonRow:
    """Return an error that no lesson is about as one."""
    counts = {"sessions": row.sessions, "failures": row.occurrences, "successes": row.body.get("resolved", 0)}
    return LessonRow(
        id=row.id,
        person="",
        project=row.project or "",
        kind=ERROR_KIND,
        key=row.fingerprint,
        line=row.body["line"],
        score=0.0,
        harm=None,
        body={**counts, "agents": [row.agent]},
        learned_at=row.learned_at,
        updated_at=row.updated_at,
        retired_at=row.retired_at,
        forgotten_at=None,
        run_id=row.run_id,
        cause=row.cause,
    )


def is_said(row: SolutionRow, lessons: Iterable[Lesson]) -> bool:
    """Whether a lesson is about a solution's error, or says the call that resolved it, or what is done about it."""
    fixes: list[dict[str, Any]] = row.body["fixes"]
    resolving, error = str(fixes[0].get("resolving") or "") if fixes else "", _masked(row.headline)
    tool, _, signature = row.fingerprint.partition("|")
    _, is_of_shell, program = tool.partition(":sh:")

    def is_about(lesson: Lesson) -> bool:
        named, _, reason = str(lesson.match.get("headline", "")).partition(": ")
        # Two programs may say the same sentence.
        is_others = is_of_shell and named and program_name(named) not in (program, "shell")
        return not is_others and (error in _masked(lesson.line) or signature == reason)

    return any(
        (resolving and (resolving == lesson.instead or resolving in lesson.line)) or is_about(lesson)
        for lesson in lessons
        if lesson.key != OTHERS  # that a call is often run does not say what it mends
    )


def _masked(text: str) -> str:
    return re.sub(r"\d+", "0", text)


async def forget_lesson(database: Database, lesson_id: str, *, viewer: Viewer = OWNER) -> LessonRow:
    """Forget a lesson for good: it is not learned again. Return it as it was; raise NotFound where there is none.

    `lesson_id` may be the beginning of an id.
    """
    async with _open_lesson(database, lesson_id, viewer) as (conn, row):
        await lessons.forget(conn, row.id, database.clock.now())
    return row


async def choose_lesson(
    database: Database, lesson_id: str, *, pinned: bool | None = None, corrects: bool | None = None
) -> LessonRow:
    """Have a lesson told whatever its figures say, or calls corrected by it, or no more so; return it.

    Raise NotFound where there is none, and UsageError for one by which no call can be corrected.
    """
    async with _open_lesson(database, lesson_id, OWNER) as (conn, row):
        if corrects and row.kind not in FAILING_KINDS:
            raise UsageError("calls are guarded only by what always fails here, or fails first")
        pinned, corrects = row.pinned if pinned is None else pinned, row.corrects if corrects is None else corrects
        await lessons.choose(conn, row.id, pinned, corrects)
    return replace(row, pinned=pinned, corrects=corrects)


@asynccontextmanager
async def _open_lesson(
    database: Database, lesson_id: str, viewer: Viewer
) -> AsyncIterator[tuple[Connection, LessonRow]]:
    """Yield a lesson that no merge changes meanwhile; `lesson_id` may be the beginning of an id."""
    viewer.check_may("write")
    async with database.transaction() as conn:
        row = await load_lesson(conn, lesson_id, viewer)
        await lessons.lock_scopes(conn, [(row.person, row.project)])
        yield conn, row


async def load_lesson(conn: Connection, lesson_id: str, viewer: Viewer) -> LessonRow:
    """Return the lesson of an id, or of the beginning of one; raise NotFound where the viewer reaches none."""

    async def find(whole_id: str) -> LessonRow | None:
        row = await lessons.load_lesson(conn, whole_id, viewer.peer or "")
        return row if row is not None and is_reached(row, viewer) else None

    from consolidator.service.memory.ids import find_by_id

    row = await find_by_id(conn, lesson_id, ("lesson",), find)
    if row is None:
        raise NotFound(f"there is no lesson {lesson_id!r}")
    return row


def is_reached(row: LessonRow, viewer: Viewer) -> bool:
    """Tell whether a viewer sees a lesson: that of its person and project, which only its agent's sessions showed."""
    agents = set(row.body.get("agents", ()))
    return (
        (viewer.peer or "") == row.person
        and viewer.project in (None, row.project)
        and (viewer.agent is None or agents == {viewer.agent})
    )


async def find_lessons_about(
    database: Database, words: str | None, filters: LessonFilter = LessonFilter(), *, viewer: Viewer = OWNER
) -> list[LessonRow]:
    """Return the lessons about a purpose ("test") or other words, and calls that worked; most of the words first.

    Without words how commands are run here.
    """
    query = set(query_words(words or ""))
    if not query:
        return await list_commands(database, filters, viewer=viewer)
    every = replace(filters, query=None, limit=_ALL)
    rows = await list_lessons(database, every, viewer=viewer)
    shared = {
        row.id: len(query & set(query_words(f"{row.body.get('purpose') or ''} {row.key} {row.line}"))) for row in rows
    }
    for row in await list_lessons(database, replace(every, kinds=(WORKED_CALL,)), viewer=viewer):
        calls = {call: len(query & set(query_words(call.searched))) for call in read_calls(read_lesson(row))}
        if not calls:
            continue
        best = max(calls, key=lambda call: (calls[call], call.worked))
        shared[row.id] = calls[best] if calls[best] >= min(MIN_SHARED_WITH_CALL, len(query)) else 0
        rows.append(replace(row, line=f"A call that worked here: {best.line}"))
    rows = [row for row in rows if shared[row.id]]
    rows.sort(key=lambda row: (-shared[row.id], set(query_words(row.body.get("purpose") or "")).isdisjoint(query)))
    return rows[: filters.limit]
