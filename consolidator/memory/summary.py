"""The session summary for a prompt: tools used, errors met, approvals, sub-agents. A left fold, bounded and redacted.

Its state is plain JSON, so that a night continues it where the last one stopped, even after the events are gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from consolidator.llm.redaction.redact import redact as redact_credentials
from consolidator.memory.calls.tool_values import describe_approval, describe_call, read_tool_value
from consolidator.memory.solutions.error_line import headline, truncate_middle
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.markers import strip_recalled
from consolidator.models.event import Event
from consolidator.models.payload import EventType

# How many of each the state keeps: of tools and answers the first, of all others the latest.
_MAX_TOOLS, _MAX_ERRORS, _MAX_ANSWERS, _MAX_AGENTS, _MAX_OPEN, _MAX_CLOSED = 40, 12, 20, 12, 256, 20
_SHOWN_TOOLS, _SHOWN_ERRORS, _SHOWN_ANSWERS, _SHOWN_AGENTS = 12, 6, 8, 6
_MAX_LINE_CHARS = 160
_MAX_NAME_CHARS = 80  # of a tool or an operation
_OTHER = "(other)"


@dataclass(slots=True)
class SummaryFold:
    """What has happened in a session so far; feed it the events in order of seq. Its fields but `redact` are stored."""

    redact: Callable[[str], str] = redact_credentials
    turns: int = 0
    first: str | None = None  # when the first event happened
    last: str | None = None
    tools: dict[str, int] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)  # tool, headline, times
    error_count: int = 0
    answers: dict[str, int] = field(default_factory=dict)  # "granted Bash git push" -> times
    agents: list[dict[str, Any]] = field(default_factory=list)  # child, call_id, goal, status
    agent_count: int = 0
    open: list[list[str]] = field(default_factory=list)  # call id, tool and operation of calls without a result
    closed: list[list[str]] = field(default_factory=list)  # the same of the latest calls with a result

    def feed(self, event: Event) -> None:
        """Add the next event."""
        time = event.occurred_at.isoformat()
        self.first = min(self.first or time, time)
        self.last = max(self.last or time, time)
        match event.type:
            case EventType.USER_MESSAGE:
                if event.data.get("origin", "user") == "user":
                    self.turns += 1
            case EventType.TOOL_CALL:
                self._add_call(event)
            case EventType.TOOL_RESULT:
                self._add_result(event)
            case EventType.ERROR:
                self._add_error("", event.data.get("message"))
            case EventType.APPROVAL_GRANTED:
                self._add_answer("granted", event)
            case EventType.APPROVAL_DENIED:
                self._add_answer("denied", event)
            case EventType.SUBAGENT_SPAWN:
                self._add_agent(event)
            case EventType.SUBAGENT_COMPLETE:
                self._complete_agent(event)
            case _:
                pass  # it is no part of the summary

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON."""
        return {name: getattr(self, name) for name in _STORED}

    @classmethod
    def from_json(cls, state: Mapping[str, Any], redact: Callable[[str], str] = redact_credentials) -> SummaryFold:
        """Return the fold with a state that `to_json` returned."""
        fold = cls(redact)
        for name in _STORED:
            value = state.get(name, getattr(fold, name))
            setattr(fold, name, value.copy() if isinstance(value, (dict, list)) else value)
        fold.errors = [dict(error) for error in fold.errors]
        fold.agents = [dict(agent) for agent in fold.agents]
        return fold

    def _add_call(self, event: Event) -> None:
        tool = str(event.data.get("tool"))[:_MAX_NAME_CHARS]
        _count(self.tools, tool, _MAX_TOOLS)
        operation = describe_call(str(event.data.get("tool") or ""), read_tool_value(event.data.get("arguments")))
        self.open.append([str(event.data.get("call_id")), tool, self.redact(operation or tool)[:_MAX_NAME_CHARS]])
        del self.open[:-_MAX_OPEN]

    def _add_result(self, event: Event) -> None:
        tool = self._close_call(str(event.data.get("call_id")))
        tool = tool or str(event.data.get("tool") or "tool")[:_MAX_NAME_CHARS]
        if event.data.get("status", "ok") == "error" and event.data.get("reason") not in ("rejected", "cascade"):
            self._add_error(tool, event.data.get("content"))

    def _close_call(self, call_id: str) -> str | None:
        """Close the first open call with an id; return its tool, None where none is open."""
        for position, (open_id, tool, _) in enumerate(self.open):
            if open_id == call_id:
                self.closed.append(self.open.pop(position))
                del self.closed[:-_MAX_CLOSED]
                return tool
        return None

    def _add_error(self, tool: str, content: Any) -> None:
        content = read_tool_value(content)
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
        redacted = self.redact(truncate_middle(text))  # before it is cut: half of a credential would not be recognised
        line = headline(redacted)[:_MAX_LINE_CHARS]
        self.error_count += 1
        for error in self.errors:
            if error["tool"] == tool and error["headline"] == line:
                error["times"] += 1
                self.errors.remove(error)
                self.errors.append(error)
                return
        self.errors.append({"tool": tool, "headline": line, "times": 1})
        del self.errors[:-_MAX_ERRORS]

    def _add_answer(self, answer: str, event: Event) -> None:
        if event.data.get("interrupted"):
            return
        call_id = str(event.data.get("call_id"))
        operations = [operation for known_id, _, operation in (*self.closed, *self.open) if known_id == call_id]
        if not operations:
            described = describe_approval(event, ()) or str(event.data.get("tool") or "a call")
            operations = [self.redact(described)[:_MAX_NAME_CHARS]]
        _count(self.answers, f"{answer} {operations[-1]}", _MAX_ANSWERS)

    def _add_agent(self, event: Event) -> None:
        goal = self.redact(strip_recalled(strip_invisible(str(event.data.get("goal") or ""))))
        goal = " ".join(goal.split())[:_MAX_LINE_CHARS]
        self.agent_count += 1
        child, call_id = event.data.get("child"), event.data.get("call_id")
        self.agents.append({"child": child, "call_id": call_id, "goal": goal, "status": "running"})
        del self.agents[:-_MAX_AGENTS]

    def _complete_agent(self, event: Event) -> None:
        for agent in self.agents:
            is_same = any(
                event.data.get(key) is not None and event.data.get(key) == agent[key] for key in ("child", "call_id")
            )
            if is_same and agent["status"] == "running":
                agent["status"] = str(event.data.get("status", "ok"))
                return


_STORED = tuple(stored.name for stored in fields(SummaryFold) if stored.name != "redact")


def render_summary(state: Mapping[str, Any]) -> str:
    """Return a state as a short text for a prompt."""
    first, last = (str(state[name] or "")[:16].replace("T", " ") for name in ("first", "last"))
    span = "nothing yet" if not first else f"at {first} UTC" if first == last else f"{first} to {last} UTC"
    plural = "" if state["turns"] == 1 else "s"
    lines = [f"Session so far: {state['turns']} message{plural} from the user, {span}."]
    if state["tools"]:
        lines.append(f"Tools used: {_render_counts(state['tools'], _SHOWN_TOOLS)}.")
    if state["errors"]:
        lines.append(f"Errors met ({state['error_count']}):")
        lines += [f"- {_render_error(error)}" for error in state["errors"][-_SHOWN_ERRORS:]]
    if state["answers"]:
        lines.append(f"Approvals: {_render_counts(state['answers'], _SHOWN_ANSWERS)}.")
    if state["agents"]:
        lines.append(f"Sub-agents ({state['agent_count']}):")
        shown = state["agents"][-_SHOWN_AGENTS:]
        lines += [f"- {agent['goal'] or 'unnamed task'} ({agent['status']})" for agent in shown]
    return "\n".join(lines)


def _count(counts: dict[str, int], name: str, limit: int) -> None:
    key = name if name in counts or len(counts) < limit else _OTHER
    counts[key] = counts.get(key, 0) + 1


def _render_counts(counts: Mapping[str, int], limit: int) -> str:
    ranked = sorted(counts.items(), key=lambda item: (item[0] == _OTHER, -item[1], item[0]))
    shown = [f"{name} {times}x" if times > 1 else name for name, times in ranked[:limit]]
    return ", ".join(shown) + (f" and {len(ranked) - limit} more" if len(ranked) > limit else "")


def _render_error(error: Mapping[str, Any]) -> str:
    tool = f"{error['tool']}: " if error["tool"] else ""
    times = f" ({error['times']} times)" if error["times"] > 1 else ""
    return f"{tool}{error['headline'] or 'failed without a word'}{times}"
