"""The session summary for a prompt: tools used, errors met, approvals, sub-agents. A left fold; bounded; redacted.

Its state is plain JSON, so that a night can go on where the last one stopped, even after the events are gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from consolidator.llm.redaction.redact import redact as redact_credentials
from consolidator.memory.calls.approvals import described, operation
from consolidator.memory.calls.pairing import parsed
from consolidator.memory.solutions.fingerprint import bounded, headline
from consolidator.models.event import Event
from consolidator.models.payload import EventType

_TOOLS, _ERRORS, _ANSWERS, _AGENTS, _OPEN, _CLOSED = (
    40,
    12,
    20,
    12,
    256,
    20,
)  # how many of each are kept; of errors the latest
_SHOWN_TOOLS, _SHOWN_ERRORS, _SHOWN_ANSWERS, _SHOWN_AGENTS = 12, 6, 8, 6
_LINE = 160
_OTHER = "(other)"


@dataclass(slots=True)
class SummaryFold:
    """What has happened in a session so far; feed it the events in order of seq."""

    redact: Callable[[str], str] = redact_credentials
    turns: int = 0
    first: str | None = None
    last: str | None = None
    tools: dict[str, int] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)  # tool, headline, times, resolved
    error_count: int = 0
    answers: dict[str, int] = field(default_factory=dict)  # "granted Bash git push" -> times
    agents: list[dict[str, Any]] = field(default_factory=list)  # child, goal, status
    agent_count: int = 0
    open: list[list[str]] = field(default_factory=list)  # id, tool and operation of calls without a result
    closed: list[list[str]] = field(default_factory=list)  # the same of the latest that have one

    def feed(self, event: Event) -> None:
        """Take the next event."""
        moment = event.occurred_at.isoformat()
        self.first = min(self.first or moment, moment)
        self.last = max(self.last or moment, moment)
        take = _TAKES.get(event.type)
        if take is not None:
            take(self, event)

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON."""
        return {name: getattr(self, name) for name in _STATE}

    @classmethod
    def from_json(cls, state: Mapping[str, Any], redact: Callable[[str], str] = redact_credentials) -> SummaryFold:
        """Go on from a state that `to_json` returned."""
        fold = cls(redact)
        for name in _STATE:
            value = state.get(name, getattr(fold, name))
            setattr(fold, name, value.copy() if isinstance(value, (dict, list)) else value)
        fold.errors = [dict(error) for error in fold.errors]
        fold.agents = [dict(agent) for agent in fold.agents]
        return fold

    def _message(self, event: Event) -> None:
        if event.data.get("origin", "user") == "user":
            self.turns += 1

    def _call(self, event: Event) -> None:
        tool = str(event.data.get("tool"))[:80]
        _count(self.tools, tool, _TOOLS)
        what = self.redact(described(str(event.data.get("tool") or ""), parsed(event.data.get("arguments"))) or tool)[
            :80
        ]
        self.open.append([str(event.data.get("call_id")), tool, what])
        del self.open[:-_OPEN]

    def _result(self, event: Event) -> None:
        tool = self._close(str(event.data.get("call_id"))) or str(event.data.get("tool") or "tool")[:80]
        if event.data.get("status", "ok") == "error" and event.data.get("reason") not in ("rejected", "cascade"):
            self._met(tool, event.data.get("content"))

    def _failure(self, event: Event) -> None:
        self._met("", event.data.get("message"))

    def _met(self, tool: str, content: Any) -> None:
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
        line = headline(self.redact(bounded(text)))[:_LINE]  # redacted first: a credential must not be cut in two
        self.error_count += 1
        for error in self.errors:
            if error["tool"] == tool and error["headline"] == line:
                error["times"] += 1
                self.errors.remove(error)
                self.errors.append(error)
                return
        self.errors.append({"tool": tool, "headline": line, "times": 1})
        del self.errors[:-_ERRORS]

    def _answer(self, event: Event) -> None:
        if event.data.get("interrupted"):
            return
        word = "granted" if event.type is EventType.APPROVAL_GRANTED else "denied"
        call_id = str(event.data.get("call_id"))
        known = [what for opened, _, what in (*self.closed, *self.open) if opened == call_id]
        told = operation(event, ()) or str(event.data.get("tool") or "a call")
        _count(self.answers, f"{word} {known[-1] if known else self.redact(told)[:80]}", _ANSWERS)

    def _spawned(self, event: Event) -> None:
        goal = " ".join(self.redact(str(event.data.get("goal") or "")).split())[:_LINE]
        self.agent_count += 1
        child, call = event.data.get("child"), event.data.get("call_id")
        self.agents.append({"child": child, "call_id": call, "goal": goal, "status": "running"})
        del self.agents[:-_AGENTS]

    def _finished(self, event: Event) -> None:
        for agent in self.agents:
            same = any(
                event.data.get(key) is not None and event.data.get(key) == agent[key] for key in ("child", "call_id")
            )
            if same and agent["status"] == "running":
                agent["status"] = str(event.data.get("status", "ok"))
                return

    def _close(self, call_id: str) -> str | None:
        for position, (opened, tool, _) in enumerate(self.open):
            if opened == call_id:
                self.closed.append(self.open.pop(position))
                del self.closed[:-_CLOSED]
                return tool
        return None


_TAKES: dict[EventType, Callable[[SummaryFold, Event], None]] = {
    EventType.USER_MESSAGE: SummaryFold._message,
    EventType.TOOL_CALL: SummaryFold._call,
    EventType.TOOL_RESULT: SummaryFold._result,
    EventType.ERROR: SummaryFold._failure,
    EventType.APPROVAL_GRANTED: SummaryFold._answer,
    EventType.APPROVAL_DENIED: SummaryFold._answer,
    EventType.SUBAGENT_SPAWN: SummaryFold._spawned,
    EventType.SUBAGENT_COMPLETE: SummaryFold._finished,
}
_STATE = (
    "turns",
    "first",
    "last",
    "tools",
    "errors",
    "error_count",
    "answers",
    "agents",
    "agent_count",
    "open",
    "closed",
)


def render(state: Mapping[str, Any], resolved: Mapping[str, bool] | None = None) -> str:
    """Return a state as a short text for a prompt; `resolved` tells of headlines what became of them."""
    lines = [f"Session so far: {_plural(state['turns'], 'message')} from the user, {_span(state)}."]
    if state["tools"]:
        lines.append(f"Tools used: {_counted(state['tools'], _SHOWN_TOOLS)}.")
    if state["errors"]:
        lines.append(f"Errors met ({state['error_count']}):")
        lines += [f"- {_told(error, resolved or {})}" for error in state["errors"][-_SHOWN_ERRORS:]]
    if state["answers"]:
        lines.append(f"Approvals: {_counted(state['answers'], _SHOWN_ANSWERS)}.")
    if state["agents"]:
        lines.append(f"Sub-agents ({state['agent_count']}):")
        shown = state["agents"][-_SHOWN_AGENTS:]
        lines += [f"- {agent['goal'] or 'unnamed task'} ({agent['status']})" for agent in shown]
    return "\n".join(lines)


def _count(counts: dict[str, int], name: str, most: int) -> None:
    key = name if name in counts or len(counts) < most else _OTHER
    counts[key] = counts.get(key, 0) + 1


def _counted(counts: Mapping[str, int], most: int) -> str:
    ranked = sorted(counts.items(), key=lambda item: (item[0] == _OTHER, -item[1], item[0]))
    shown = [f"{name} {times}x" if times > 1 else name for name, times in ranked[:most]]
    return ", ".join(shown) + (f" and {len(ranked) - most} more" if len(ranked) > most else "")


def _told(error: Mapping[str, Any], resolved: Mapping[str, bool]) -> str:
    times = f" ({error['times']} times)" if error["times"] > 1 else ""
    known = resolved.get(error["headline"])
    state = "" if known is None else " - resolved" if known else " - not resolved"
    return (
        f"{error['tool'] + ': ' if error['tool'] else ''}{error['headline'] or 'failed without a word'}{times}{state}"
    )


def _span(state: Mapping[str, Any]) -> str:
    if not state["first"]:
        return "nothing yet"
    first, last = state["first"][:16].replace("T", " "), state["last"][:16].replace("T", " ")
    return f"at {first} UTC" if first == last else f"{first} to {last} UTC"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
