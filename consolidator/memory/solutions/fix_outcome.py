"""Judges from a session's log whether a fix that the agent was shown was applied, and whether the call then worked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from consolidator.memory.calls.argument_redaction import redact_arguments
from consolidator.memory.calls.tool_values import read_tool_value
from consolidator.memory.solutions.fix_form import call_texts
from consolidator.models.event import Event
from consolidator.models.injection import FixOutcome
from consolidator.models.payload import EventType

MAX_CALLS = 20  # after the failed one in which a fix is looked for


def judge_fix(events: Sequence[Event], call_id: str, fix: Mapping[str, Any]) -> FixOutcome | None:
    """Return what came of a fix (a Suggestion as JSON) for a failed call; None where the log does not tell yet.

    `events` begin with the failed call. A call that takes the failed one's place has worked if it ended well; one that
    comes first has worked if the failed call, made again, ended well.
    """
    calls = [event for event in events if event.type is EventType.TOOL_CALL]
    failed = next((call for call in calls if call.data.get("call_id") == call_id), None)
    if failed is None:
        return None
    ended_well = {
        str(event.data.get("call_id")): event.data.get("status", "ok") == "ok"
        for event in events
        if event.data.get("decision") == "call_ended"
        or (event.type is EventType.TOOL_RESULT and not event.data.get("background"))
    }
    later = [call for call in calls if call.seq > failed.seq][:MAX_CALLS]
    position = next((n for n, call in enumerate(later) if _is_call(call, fix.get("tool"), fix.get("arguments"))), None)
    if position is None:
        return "not_tried" if len(later) == MAX_CALLS or _has_ended(events) else None
    decisive = later[position]
    if fix.get("kind") == "step":
        again = [
            call
            for call in later[position + 1 :]
            if call.data.get("tool") == failed.data.get("tool") and _texts(call) == _texts(failed)
        ]
        if not again:
            return "failed" if len(later) == MAX_CALLS or _has_ended(events) else None
        decisive = again[0]
    worked = ended_well.get(str(decisive.data.get("call_id")))
    return None if worked is None else "worked" if worked else "failed"


def _has_ended(events: Sequence[Event]) -> bool:
    """Whether a person spoke after the failure, or the session ended: what was not tried until then, is not."""
    return any(event.type in (EventType.USER_MESSAGE, EventType.SESSION_END) for event in events[1:])


def _is_call(call: Event, tool: Any, arguments: Any) -> bool:
    """Whether a call is the one that was suggested; the arguments of a fix that it does not name are free."""
    made, fix = _texts(call), call_texts(str(tool), arguments)
    is_shell = "command" in made and "command" in fix
    is_same_tool = call.data.get("tool") == tool or is_shell  # a hook and a log may name the shell differently
    return is_same_tool and bool(fix) and all(made.get(key, "").split() == fix[key].split() for key in fix)


def _texts(call: Event) -> dict[str, str]:
    arguments = redact_arguments(read_tool_value(call.data.get("arguments")))
    return call_texts(str(call.data.get("tool")), arguments)
