"""Names what an approval is about: "Bash git push", or the tool alone where the tool says it all.

Pure. An approval whose call is not at hand is about nothing that could become a standing preference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from consolidator.memory.calls.call_pairing import parse_json_text
from consolidator.memory.calls.symbols import SHELL_PREFIX, shell_command, tool_symbol
from consolidator.models.event import Event
from consolidator.models.payload import EventType

# Answers to what these tools show are about that text, plan or question, and not about the tool.
_ABOUT_CONTENT = frozenset(
    {"exitplanmode", "askuserquestion", "edit", "multiedit", "write", "notebookedit", "apply_patch", "todowrite"}
)
_UNTOLD = SHELL_PREFIX + "-"


def describe_approval(event: Event, around: Sequence[Event]) -> str | None:
    """Return what a granted or denied call does, or None where that cannot be told or says nothing of the next call."""
    if event.data.get("interrupted"):  # it was running; nobody had been asked
        return None
    tool, arguments = _call(event, around)
    return None if tool.lower() in _ABOUT_CONTENT else describe_call(tool, arguments)


def describe_call(tool: str, arguments: Any) -> str | None:
    """Return the tool, for a shell with the program that its command reports; None where that cannot be told."""
    if not tool:
        return None
    symbol = tool_symbol(tool, arguments)
    if symbol.startswith(SHELL_PREFIX):
        return None if symbol == _UNTOLD else f"{tool} {symbol.removeprefix(SHELL_PREFIX)}"
    if arguments is None and shell_command(tool, "") is not None:  # a shell, and nobody knows which command
        return None
    return tool


def _call(event: Event, around: Sequence[Event]) -> tuple[str, Any]:
    """Return the tool and arguments, from the approval itself or from the latest call of that id before it."""
    tool = str(event.data.get("tool") or "")
    if event.data.get("arguments") is not None:
        return tool, parse_json_text(event.data["arguments"])
    call_id = event.data.get("call_id")
    if call_id is not None:
        for other in reversed(around):
            if other.seq < event.seq and other.type is EventType.TOOL_CALL and other.data.get("call_id") == call_id:
                return str(other.data.get("tool") or tool), parse_json_text(other.data.get("arguments"))
    return tool, None
