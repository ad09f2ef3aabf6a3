"""Learns the lessons of one person's project from the traces of its sessions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    lessons = [lesson for lesson in lessons if lesson_harm(lesson.line, lesson.instead, history.home) is None]
    starts: dict[str, str] = {}
    for session, call in history.calls():
        starts[session.root] = min(call.at, starts.get(session.root, call.at))
    return sorted(
        [replace(lesson, starts=lesson.starts and not _is_over(lesson, starts.values())) for lesson in lessons],
        key=lambda lesson: (-lesson.score, lesson.kind, lesson.key),
    )


def _is_over(lesson: Lesson, starts: Collection[str]) -> bool:
    """Whether most sessions began after the last one that showed a practice."""
    return lesson.kind in _PRACTICES and sum(at > lesson.last_at for at in starts) > MAX_LATER * len(starts)
