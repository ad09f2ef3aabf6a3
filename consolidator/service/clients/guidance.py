"""The line that asks an agent without hooks to use the MCP server, in a file of guidance that it reads. Pure."""

from __future__ import annotations

import re

_LINE = (
    "Before a task, and after a command that failed, ask the MCP server `consolidator` what earlier sessions learned: "
    "the tools `recall` and `lookup_error`. <!-- by `consolidator install` -->"
)
_FOUND = re.compile(rf"(?:\r?\n|\A){re.escape(_LINE)}(?:\r?\n|\Z)")  # an editor may have changed how lines end


def add(text: str) -> str:
    """Return a file with our line at its end."""
    return text if _LINE in text.splitlines() else text + ("\n" if text.strip() else "") + _LINE + "\n"


def remove(text: str) -> str:
    """Return a file without our line, and without the empty line that was put before it."""
    match = _FOUND.search(text)
    if match is None:
        return text
    before, after = text[: match.start()], text[match.end() :]
    return before + ("\n" if before and after and not before.endswith("\n") else "") + after
