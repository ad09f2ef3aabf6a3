"""Chooses which lessons are told: before a call runs, and after it failed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from consolidator.memory.lessons.lesson import Lesson


@dataclass(frozen=True, slots=True)
class Told:
    """A lesson for one call, in the words for it."""

    lesson: Lesson
    text: str  # one or two sentences
    call: str | None = None  # the command line or path to use instead, as it can be run; None where there is none


def warn_before(lessons: Iterable[Lesson], tool: str, arguments: Any, directory: str | None = None) -> Told | None:
    """Return the warning for a call about to run that never worked here; None for any other call.

    `directory` is where it runs, below the project's folder ("" for the folder itself); None where that is unknown.
    """
    return None


def answer_failure(
    lessons: Iterable[Lesson], tool: str, arguments: Any, error: str, directory: str | None = None
) -> Told | None:
    """Return what worked after such a failure in earlier sessions; None where nothing is known well enough."""
    return None


def warning_words(lesson: Lesson) -> tuple[str, ...]:
    """Return literal words of which a call that the lesson warns of must hold all: a filter before any parsing."""
    return ()
