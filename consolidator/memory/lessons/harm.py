"""Says which lessons are told to no agent: hostile commands, and words that speak to the agent (I18)."""

from __future__ import annotations

from consolidator.memory.calls.harm import line_harm
from consolidator.memory.calls.harm_in_text import text_harm
from consolidator.memory.facts.orders import overrides_instructions


def lesson_harm(text: str, call: str | None, project: str) -> str | None:
    """Return why a text, or the call that it advises, is not to be told to an agent; None where nothing is wrong."""
    harm = text_harm(text) or (line_harm(call, project) if call else None)
    return harm or ("tells its reader to drop instructions" if overrides_instructions(text) else None)
