"""Learns the lessons of one person's project from the traces of its sessions."""

from __future__ import annotations

from collections.abc import Sequence

from consolidator.memory.lessons.always_failing import learn_always_failing
from consolidator.memory.lessons.commands import learn_commands
from consolidator.memory.lessons.commits import learn_commits, learn_repository
from consolidator.memory.lessons.files import learn_files
from consolidator.memory.lessons.harm import lesson_harm
from consolidator.memory.lessons.harness import learn_harness
from consolidator.memory.lessons.history import History
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.trace import Trace

LEARNING_VERSION = "23"  # of what lessons are made from the same traces
MAX_TRACES = 300  # sessions that lessons are learned from, the latest


def learn_lessons(traces: Sequence[Trace]) -> list[Lesson]:
    """Return the lessons of a project, the best first; `traces` may come in any order."""
    history = History.of(traces)
    lessons = [*learn_always_failing(history), *learn_commands(history), *learn_harness(history)]
    lessons += [*learn_files(history), *learn_repository(history), *learn_commits(history)]
    lessons = [lesson for lesson in lessons if lesson_harm(lesson.line, lesson.instead, history.home) is None]
    return sorted(lessons, key=lambda lesson: (-lesson.score, lesson.kind, lesson.key))
