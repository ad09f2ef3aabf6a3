"""Learns the lessons of one person's project from the traces of its sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from consolidator.memory.lessons.always_failing import learn_always_failing
from consolidator.memory.lessons.commands import learn_commands
from consolidator.memory.lessons.commits import learn_commits, learn_repository
from consolidator.memory.lessons.files import learn_files
from consolidator.memory.lessons.harm import lesson_harm
from consolidator.memory.lessons.harness import learn_harness
from consolidator.memory.lessons.history import History
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.trace import Trace

LEARNING_VERSION = "24"  # of what lessons are made from the same traces
MAX_TRACES = 300  # sessions that lessons are learned from, the latest
MAX_LATER = 0.6  # of them, that began after the last one with a practice: it is no longer told at a start
_PRACTICES = ("command", "constant", "follow_up", "together")  # what failed may have ended because it was told


def learn_lessons(traces: Sequence[Trace]) -> list[Lesson]:
    """Return the lessons of a project, the best first; `traces` may come in any order."""
    history = History.of(traces)
    lessons = [*learn_always_failing(history), *learn_commands(history), *learn_harness(history)]
    lessons += [*learn_files(history), *learn_repository(history), *learn_commits(history)]
    starts = sorted(each.calls[0].at for each in history.sessions if each.calls and each.session_id == each.root)
    since = starts[-1 - int(MAX_LATER * len(starts))] if starts else ""
    return sorted(
        (
            replace(lesson, starts=False) if lesson.kind in _PRACTICES and lesson.last_at < since else lesson
            for lesson in lessons
            if lesson_harm(lesson.line, lesson.instead, history.home) is None
        ),
        key=lambda lesson: (-lesson.score, lesson.kind, lesson.key),
    )
