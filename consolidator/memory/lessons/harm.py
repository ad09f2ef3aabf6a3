"""Says which lessons are told to nobody: hostile commands, and words that speak to the agent (I18)."""

from __future__ import annotations

from consolidator.memory.calls.harm import line_harm
from consolidator.memory.calls.harm_in_text import text_harm
from consolidator.memory.facts.orders import overrides_instructions
from consolidator.memory.lessons.lesson import Lesson


def is_hostile(text: str, call: str | None, project: str) -> bool:
    """Whether a text, or the call that it advises, is not to be told to an agent."""
    harm = text_harm(text) or (line_harm(call, project) if call else None)
    return harm is not None or overrides_instructions(text)


def is_tellable(lesson: Lesson, project: str) -> bool:
    """Whether a lesson may be told to an agent."""
    return not is_hostile(lesson.line, lesson.instead, project)
