"""Learns the lessons of one person's project from the traces of its sessions."""

from __future__ import annotations

from collections.abc import Sequence

from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.trace import Trace

LEARNING_VERSION = "1"  # of what lessons are made from the same traces
MAX_TRACES = 300  # sessions that lessons are learned from, the latest


def learn_lessons(traces: Sequence[Trace]) -> list[Lesson]:
    """Return the lessons of a project, the best first; `traces` may come in any order."""
    return []
