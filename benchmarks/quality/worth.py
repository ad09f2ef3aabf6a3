"""Measure whether lessons get a figure of worth, and what guards in shadow would have done: later sessions of a folder.

    python -m benchmarks.quality.worth FOLDER --train N [--show]

The first N sessions in time are imported and learned from in one night. At the start of each later session its hook is
answered and counted, and before each of its calls the guard's shadow is noted, at the time of the session. Then these
sessions are imported, and the next night counts. No agent heard any of it, so that the figures say nothing of what
telling does: they say whether each lesson that was told has one. Which calls always fail is known by what all sessions
together teach.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path

from ulid import ULID

from benchmarks.harness.report import Report
from benchmarks.harness.server import open_server
from benchmarks.quality import product_runs
from benchmarks.quality.replayed_sessions import ReplayedSession, find_format, read_sessions
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.formats.registry import get_format
from consolidator.jobs.importing.importer import import_sources
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.telling import warn_before
from consolidator.memory.lessons.worth import Worth
from consolidator.models.injection import InjectionRow
from consolidator.models.memory_filter import LessonFilter
from consolidator.service.hooks.payload import answer_hook, parse_hook
from consolidator.service.hooks.usage import count_injection
from consolidator.service.memory.lessons import LessonRow, describe_worth, list_lessons, read_lesson
from consolidator.store.memory import injections
from consolidator.store.sessions.sessions import imported_session_id


async def _tell(database: Database, session: ReplayedSession, rows: Sequence[LessonRow]) -> None:
    """Answer a session's start, and note before each call what the guard would say of it."""
    payload = {
        "session_id": session.origin, "transcript_path": str(session.path), "cwd": session.directory,
        "hook_event_name": "SessionStart", "source": "startup",
    }  # fmt: skip
    call = parse_hook(session.agent, "SessionStart", json.dumps(payload).encode(), session.directory)
    answer = None if call is None else await answer_hook(database, call)
    if call is not None and answer is not None:
        await count_injection(database, call, answer)
    lessons = [read_lesson(row) for row in rows]
    for made in session.calls:
        warning = warn_before(lessons, made.tool, made.arguments)
        if warning is not None and warning.lesson.kind == "always_fails":
            cited = [f"lesson:{rows[lessons.index(warning.lesson)].id}"]
            shadow = InjectionRow(
                str(ULID()), imported_session_id(session.agent, session.origin), session.agent, rows[0].project,
                "before_call", cited, 0, made.call_id, {"correction": "shadow"}, None, database.clock.now(),
            )  # fmt: skip
            async with database.transaction() as conn:
                await injections.add(conn, shadow)


async def _import(database: Database, folder: Path, sessions: Sequence[ReplayedSession]) -> None:
    files = tuple((path, get_format(sessions[0].agent)) for path in dict.fromkeys(session.path for session in sessions))
    await import_sources(database, [product_runs.SelectedFiles(folder, selected=files)])


def _count_failing(lessons: Sequence[Lesson], sessions: Sequence[ReplayedSession]) -> int:
    """Return how many calls failed as calls that always fail do."""
    calls = [call for session in sessions for call in session.calls if call.failed]
    warnings = [warn_before(lessons, call.tool, call.arguments) for call in calls]
    return sum(warning is not None and warning.lesson.kind == "always_fails" for warning in warnings)


async def run(folder: Path, train: int, *, show: bool = False) -> Report:
    """Measure a folder, on the benchmark server."""
    everything = LessonFilter(limit=10_000)
    sessions = await asyncio.to_thread(read_sessions, folder)
    first, later = sessions[:train], sessions[train:]
    clock = FrozenClock(datetime.fromisoformat(first[-1].started) + timedelta(days=1))
    async with open_server() as server, server.open_database(clock) as database:
        await product_runs.note_checkouts(database, folder, find_format(folder))
        await _import(database, folder, first)
        await product_runs.run_night(database, server)
        rows = [row for row in await list_lessons(database, everything) if row.withheld is None]
        for session in later:
            clock.set(datetime.fromisoformat(session.started) - timedelta(seconds=1))
            await _tell(database, session, rows)
        clock.set(datetime.fromisoformat(later[-1].started) + timedelta(days=1))
        await _import(database, folder, later)
        await product_runs.run_night(database, server)
        ids = [imported_session_id(session.agent, session.origin) for session in later]
        after = {row.id: row for row in await list_lessons(database, everything)}
        async with database.connection() as conn:
            starts = [row for id in ids for row in await injections.list_of_session(conn, id)]
    told = {cited.partition(":")[2] for row in starts if row.moment == "session_start" for cited in row.cited}
    told &= {row.id for row in rows}
    worths = {id: Worth.from_json(after[id].body.get("worth", {})) for id in told if id in after}
    guards = [Worth.from_json(row.body.get("worth", {})) for row in after.values() if row.kind == "always_fails"]
    failing = _count_failing([read_lesson(row) for row in after.values()], later)
    noted = [row for row in starts if row.moment == "before_call"]
    outcomes = Counter(call.outcome for row in noted for s in later for call in s.calls if call.call_id == row.call_id)
    right = outcomes["failed"] + outcomes["masked"]
    report = Report("worth", f"what {len(later)} later sessions say of the lessons of {train}")
    report.add("lessons that were told", len(told))
    report.add("of these with a figure of worth", sum(w.told.sessions + w.untold.sessions > 0 for w in worths.values()))
    report.add("with a chance after it was told", sum(worth.told.sessions > 0 for worth in worths.values()))
    report.add("calls that always fail, in the later sessions", failing)
    report.add("guard in shadow: prevented", right, f"of {failing}")
    report.add("guard in shadow: wrong", outcomes["ok"], f"of {sum(len(s.calls) for s in later)} calls")
    report.add("by the nights, once a session: right", sum(worth.prevented for worth in guards))
    report.add("by the nights, once a session: wrong", sum(worth.wrong for worth in guards))
    if show:
        lines = {id: f"{after[id].line} | {describe_worth(after[id])}" for id in sorted(told) if id in after}
        report.notes += [*lines.values(), *(f"no longer a lesson: {id}" for id in sorted(told - after.keys()))]
        report.details["worth"] = {id: asdict(worth) for id, worth in worths.items()}
    return report


def main() -> None:
    """Print a table, and a line of JSON."""
    parser = product_runs.create_folder_parser(__doc__)
    parser.add_argument("--train", type=int, required=True, help="sessions to learn from, the first in time")
    parser.add_argument("--show", action="store_true", help="also print each lesson's figure")
    options = parser.parse_args()
    product_runs.print_report(asyncio.run(run(options.folder, options.train, show=options.show)), options.json)


if __name__ == "__main__":
    main()
