"""Guards in our runtime: what is known of a call before it runs, counted in any case and acted upon after a yes.

Without a person's yes a guard only notes what it would have done (its shadow). The nights count whether that was right;
a guard that is wrong once in twenty acts no more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ulid import ULID

from consolidator.database import Database
from consolidator.memory.calls.harm import find_harm
from consolidator.memory.calls.symbols import shell_command
from consolidator.memory.lessons.before_call import correct
from consolidator.memory.lessons.harm import lesson_harm
from consolidator.memory.lessons.telling import warn_before
from consolidator.memory.lessons.worth import Worth
from consolidator.models.injection import Correction, InjectionRow
from consolidator.models.session import SessionRow
from consolidator.runtime.turn.harness import Guard
from consolidator.service.memory.lessons import FAILING_KINDS, MAX_TOLD, LessonRow, read_lesson
from consolidator.store.facts.visibility import load_person
from consolidator.store.memory import injections, lessons


async def guard_call(
    database: Database, session: SessionRow, tool: str, arguments: Any, call_id: str, *, may_go_first: bool
) -> Guard | None:
    """Return what to do about a call that a session is about to make; None for nothing. Count it in any case.

    `may_go_first`: whether the tool may be called once more before it, without asking a person.
    """
    line = shell_command(tool, arguments)
    if session.project is None or line is None:
        return None

    async with database.connection() as conn:
        person = await load_person(conn, session.id) or ""
        rows = await lessons.list_lessons(conn, person, session.project, kinds=FAILING_KINDS, limit=MAX_TOLD)
        earlier = await injections.list_of_session(conn, session.id)
    rows = [row for row in rows if row.withheld is None]
    warning = warn_before([read_lesson(row) for row in rows], tool, arguments)
    if warning is None:
        return None

    row = next(row for row in rows if read_lesson(row) == warning.lesson)
    cited = f"lesson:{row.id}"
    if warning.lesson.kind == "first_run_fails" and any(cited in each.cited for each in earlier):
        return None  # it is no first run any more

    is_hostile = lesson_harm(warning.text, warning.call, session.project) is not None  # in the words for this call
    text = warning.lesson.line if is_hostile else warning.text
    guard = _act(session, row, tool, arguments, line, text) if may_act(row) else None
    if guard is not None and not may_go_first:
        guard = replace(guard, first=None)
    correction: Correction | None = "shadow"
    if guard is not None:
        correction = None if guard.arguments is None and guard.first is None else "made"

    injection = InjectionRow(
        str(ULID()), session.id, session.agent, session.project, "before_call", [cited], 0, call_id,
        {} if correction is None else {"correction": correction}, None, database.clock.now(),
    )  # fmt: skip
    async with database.transaction(flushed=False) as conn:
        await injections.add(conn, injection)
    return guard


def may_act(row: LessonRow) -> bool:
    """Tell whether a person said yes to a lesson's guard, and it was not wrong once in twenty."""
    return row.corrects and not Worth.from_json(row.body.get("worth", {})).is_stopped


def _act(session: SessionRow, row: LessonRow, tool: str, arguments: Any, line: str, text: str) -> Guard:
    """Return what a guard does: the argument that works, what has to run first, or a note beside the result."""
    lesson, note = read_lesson(row), f"{text} [lesson:{row.id}]"
    better = correct(lesson.match, line) if lesson.kind == "always_fails" else lesson.instead
    values = arguments if isinstance(arguments, dict) else {}
    changed = {name: better if value == line else value for name, value in values.items()}
    if better is None or line not in values.values() or find_harm(tool, changed, session.project):
        return Guard(note)
    return Guard(note, arguments=changed) if lesson.kind == "always_fails" else Guard(note, first=changed)
