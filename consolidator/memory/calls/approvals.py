"""Describe what an approval is about: "Bash git push", or the tool alone where its name says enough.

Pure. An approval whose call is unknown describes nothing, since no standing preference can follow from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from consolidator.memory.calls.symbols import SHELL_PREFIX, shell_command, tool_symbol
from consolidator.memory.calls.tool_values import read_tool_value
from consolidator.models.event import Event
from consolidator.models.payload import EventType

# An approval of these tools answers the text, plan or question that they show, not the use of the tool.
_CONTENT_TOOLS = frozenset(
    {"exitplanmode", "askuserquestion", "edit", "multiedit", "write", "notebookedit", "apply_patch", "todowrite"}
)
_UNKNOWN_COMMAND = SHELL_PREFIX + "-"


def describe_approval(event: Event, events: Sequence[Event]) -> str | None:
    """Return what a granted or denied call does; None where it is unknown or says nothing about the next call.

    `events` are those around the approval; the call is looked up among them where the approval does not repeat it.
    """
    if event.data.get("interrupted"):  # the call was already running: nobody was asked
        return None
    tool, arguments = _find_call(event, events)
    return None if tool.lower() in _CONTENT_TOOLS else describe_call(tool, arguments)


def read_choice(event: Event) -> tuple[str, str] | None:
    """Return the question that a person was asked and the answer that they chose; None for another event."""
    question, answer = event.data.get("question"), event.data.get("answer")
    return (question, answer) if isinstance(question, str) and isinstance(answer, str) and answer.strip() else None


def describe_decision(event: Event) -> str | None:
    """Return what a person decided, in one line: their choice, or what they denied; None where it tells nothing."""
    if (choice := read_choice(event)) is not None:
        return f"{choice[0]} -> {choice[1]}"
    operation = describe_approval(event, ()) if event.type is EventType.APPROVAL_DENIED else None
    return f"{operation} -> denied" if operation else None


def describe_call(tool: str, arguments: Any) -> str | None:
    """Return the tool, for a shell also the program that its command reports; None where that is unknown."""
    if not tool:
        return None
    symbol = tool_symbol(tool, arguments)
    if symbol.startswith(SHELL_PREFIX):
        return None if symbol == _UNKNOWN_COMMAND else f"{tool} {symbol.removeprefix(SHELL_PREFIX)}"
    if arguments is None and shell_command(tool, "") is not None:  # a shell whose command is unknown
        return None
    return tool


def _find_call(event: Event, events: Sequence[Event]) -> tuple[str, Any]:
    """Return the tool and arguments, from the approval itself or from the latest call of its id before it."""
    tool = str(event.data.get("tool") or "")
    if event.data.get("arguments") is not None:
        return tool, read_tool_value(event.data["arguments"])
    call_id = event.data.get("call_id")
    if call_id is not None:
        for other in reversed(events):
            if other.seq < event.seq and other.type is EventType.TOOL_CALL and other.data.get("call_id") == call_id:
                return str(other.data.get("tool") or tool), read_tool_value(other.data.get("arguments"))
    return tool, None
