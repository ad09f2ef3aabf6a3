"""A session's events as what people read: who said what, calls with their results, and what a harness decided. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.service.sessions.costs import price_answer

Kind = Literal["person", "harness", "agent", "call", "result", "thought", "error", "note"]
_MAX_TEXT = 100_000  # characters that are kept of a text before it is cut for showing
_PLAIN = (str, int, float, bool, type(None))
_ORIGINS = {"harness": "the harness", "memory": "memory", "compaction": "a compaction"}
_MODES = {"steer": "steer", "follow_up": "follow-up"}
_SAID = {
    EventType.SESSION_START: "The session began",
    EventType.SESSION_END: "The session ended",
    EventType.TASK_START: "A task began",
    EventType.TASK_END: "A task ended",
    EventType.SUBAGENT_SPAWN: "A sub-agent was started",
    EventType.SUBAGENT_COMPLETE: "A sub-agent finished",
    EventType.APPROVAL_REQUESTED: "Waits for approval",
    EventType.APPROVAL_GRANTED: "Approved",
    EventType.APPROVAL_DENIED: "Denied",
}


@dataclass(slots=True)
class Entry:
    """One thing that happened."""

    kind: Kind
    seq: int
    at: datetime
    who: str = ""
    text: str = ""
    marks: list[str] = field(default_factory=list)  # short words beside it
    arguments: str = ""  # of a call
    result: Entry | None = None  # of a call whose result is on the same page
    child: str | None = None  # the session of a sub-agent
    call_id: str | None = None
    is_bad: bool = False  # it failed, or it is not known whether it worked


def fold_entries(events: Iterable[Event]) -> list[Entry]:
    """Return what people read of events; a result goes to its call where both are there."""
    entries: list[Entry] = []
    open_calls: dict[str, list[Entry]] = {}
    for event in events:
        entry = to_entry(event)
        if entry is None:
            continue
        if entry.kind == "result" and entry.call_id is not None and open_calls.get(entry.call_id):
            open_calls[entry.call_id].pop(0).result = entry
            continue
        if entry.kind == "call" and entry.call_id is not None:
            open_calls.setdefault(entry.call_id, []).append(entry)
        entries.append(entry)
    if len(entries) > 1 and entries[0].at > entries[1].at:
        entries[0].at = entries[1].at  # an imported session began when it did, not when its row was made
    return entries


def list_texts(entries: Iterable[Entry]) -> list[str]:
    """Return the texts of entries that may be long."""
    shown = [each for entry in entries for each in (entry, entry.result) if each is not None]
    return [text for each in shown for text in (each.text, each.arguments) if text]


def to_entry(event: Event) -> Entry | None:
    """Return what people read of an event; None for one that says nothing to them."""
    data, seq, at = event.data, event.seq, event.occurred_at
    match event.type:
        case EventType.USER_MESSAGE:
            origin = str(data.get("origin") or "user")
            is_person = origin == "user"
            who = str(data.get("speaker") or "person") if is_person else _ORIGINS.get(origin, origin)
            marks = [_MODES[mode]] if (mode := str(data.get("mode"))) in _MODES else []
            return Entry("person" if is_person else "harness", seq, at, who, to_text(data.get("text")), marks)
        case EventType.ASSISTANT_RESPONSE:
            marks = [str(data["model"])] if data.get("model") else []
            sizes = usage if isinstance(usage := data.get("usage"), Mapping) else {}
            tokens = {name: sizes.get(name) for name in ("input", "cached", "output")}
            marks += [f"{size:,} {name}" for name, size in tokens.items() if isinstance(size, int) and size]
            if (cost := price_answer(data.get("model"), usage)) is not None:  # by the model's price now
                marks.append(f"${cost:.4f}" if cost >= Decimal("0.0001") or not cost else "below $0.0001")
            marks += ["interrupted"] if data.get("finish") == "interrupted" else []
            return Entry("agent", seq, at, "agent", to_text(data.get("text")), marks)
        case EventType.TOOL_CALL:
            call_id = str(data.get("call_id"))
            return Entry(
                "call", seq, at, str(data.get("tool")), arguments=show_arguments(data.get("arguments")), call_id=call_id
            )
        case EventType.TOOL_RESULT:
            status = str(data.get("status") or "ok")
            marks = [status] + ([str(data["reason"])] if data.get("reason") else [])
            return Entry(
                "result",
                seq,
                at,
                str(data.get("tool") or "tool"),
                to_text(data.get("content")),
                marks,
                call_id=str(data.get("call_id")),
                is_bad=status != "ok",
            )
        case EventType.THINKING_START:
            text = to_text(data.get("text"))
            return Entry("thought", seq, at, "agent", text) if text else None
        case EventType.ERROR:
            return Entry("error", seq, at, "error", to_text(data.get("message")), is_bad=True)
        case _:
            return _to_note(event)


def _to_note(event: Event) -> Entry:
    data = event.data
    words = _SAID.get(event.type) or str(data.get("decision", "")).replace("_", " ")
    named = [data.get(name) for name in ("tool", "outcome", "status", "goal", "reason", "note", "model", "summary")]
    text = " · ".join([words, *(to_text(value)[:2000] for value in named if value not in (None, "", {}, []))])
    child = data.get("child")
    return Entry("note", event.seq, event.occurred_at, "", text, child=child if isinstance(child, str) else None)


def show_arguments(arguments: Any) -> str:
    """Return a call's arguments as lines `name: value`; those that are no names with plain values as JSON."""
    if isinstance(arguments, str) and arguments.startswith("{") and len(arguments) <= _MAX_TEXT:
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return to_text(arguments)
    if not isinstance(arguments, Mapping) or not all(isinstance(each, _PLAIN) for each in arguments.values()):
        return to_text(arguments)
    lines = (f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in arguments.items())
    return "\n".join(lines)[:_MAX_TEXT]


def to_text(value: Any) -> str:
    """Return a value of a log as a text: strings as they are, text blocks joined, anything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value[:_MAX_TEXT]
    if isinstance(value, list) and value and all(isinstance(part, Mapping) and "text" in part for part in value):
        return "\n".join(to_text(part["text"]) for part in value)[:_MAX_TEXT]
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)[:_MAX_TEXT]
