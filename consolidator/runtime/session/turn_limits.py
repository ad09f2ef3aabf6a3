"""How long one turn may go on: counted from the log, so that no crash and no other process begins anew. Pure.

A turn begins with a message. Its steps are the model's answers; its repeats are calls of the same tool with the same
arguments and the same result. The model is told of repeats once; if it goes on after that, the turn ends.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from consolidator.errors import OverBudget
from consolidator.models.event import Event, NewEvent
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow

MAX_NAME_LENGTH = 64  # characters of a tool's name that are kept
MAX_STEPS = 100  # answers of the model in one turn, where neither the session nor its agent has a limit
MAX_REPEATS = 30  # calls of a turn with equal arguments and result before it ends


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """What a turn may use."""

    steps: int  # answers of the model
    repeats: int  # equal calls with equal results
    polled_tools: frozenset[str] = frozenset()  # tools that are meant to be called again and again

    @property
    def told_at(self) -> int:
        """After how many repeats the model is told."""
        return max(2, self.repeats // 3)


def session_limits(session: SessionRow, polled_tools: frozenset[str]) -> TurnLimits:
    """Return the limits of a session's turns: its own or its agent's, else those of every session."""
    own = session.config.get("max_steps")
    steps = own if type(own) is int and own >= 1 else MAX_STEPS
    return TurnLimits(steps, MAX_REPEATS, polled_tools)


@dataclass(slots=True)
class TurnUse:
    """What the current turn has used, folded from its events in order."""

    has_beginning: bool = False  # whether the message that began it was seen
    steps: int = 0
    repeats: Counter[str] = field(default_factory=Counter)  # call key -> how often
    notices: dict[str, int] = field(default_factory=dict)  # call key -> the step after which the model was told of it
    tool_names: dict[str, str] = field(default_factory=dict)  # call key -> its tool
    _open_calls: dict[str, tuple[str, Any]] = field(default_factory=dict)  # call_id -> tool and arguments

    def feed(self, event: Event) -> None:
        """Count an event."""
        data = event.data
        if event.type is EventType.USER_MESSAGE or (
            event.type is EventType.POLICY_DECISION and data.get("decision") == "budget_stop" and data.get("limit")
        ):
            self._begin()
        elif event.type is EventType.ASSISTANT_RESPONSE:
            self.steps += 1
        elif event.type is EventType.TOOL_CALL:
            self._open_calls[str(data["call_id"])] = (str(data.get("tool") or ""), data.get("arguments"))
        elif event.type is EventType.TOOL_RESULT:
            self._count_result(data)

    def _begin(self) -> None:
        self.has_beginning, self.steps = True, 0
        self.repeats.clear()
        self.notices.clear()
        self.tool_names.clear()

    def _count_result(self, data: Mapping[str, Any]) -> None:
        tool, arguments = self._open_calls.pop(str(data["call_id"]), (None, None))
        if tool is None:
            return
        key = call_key(tool, arguments, data.get("status"), data.get("content"))
        self.repeats[key] += 1
        self.tool_names[key] = tool
        if data.get("note"):
            self.notices[key] = self.steps

    def find_stop(self, limits: TurnLimits) -> TurnStop | None:
        """Return why the turn ends here; None if it may go on."""
        if self.steps >= limits.steps:
            return TurnStop("steps", limits.steps)
        for key, count in self.repeats.items():
            tool = self.tool_names[key]
            goes_on = self.steps > self.notices.get(key, self.steps)  # although it was told
            if count >= limits.repeats and goes_on and tool not in limits.polled_tools:
                return TurnStop("repeats", count, tool)
        return None


class RepeatNotes:
    """The notes to add to results that came too often; each call is told of once in a turn."""

    def __init__(self, use: TurnUse, limits: TurnLimits) -> None:
        self._counts, self._noticed, self._limits = Counter(use.repeats), set(use.notices), limits

    def count(self, tool: str, arguments: Any, status: str, content: Any) -> str | None:
        """Count one more result; return the note that goes with it."""
        if tool in self._limits.polled_tools:
            return None
        key = call_key(tool, arguments, status, content)
        self._counts[key] += 1
        if self._counts[key] < self._limits.told_at or key in self._noticed:
            return None
        self._noticed.add(key)
        return (
            f"This call was made {self._counts[key]} times in this turn, with the same arguments and the same result. "
            "Do something else, or answer: the turn ends if it is repeated much more often."
        )


class TurnStop(OverBudget):
    """The turn has used what a turn may use."""

    def __init__(self, limit: Literal["steps", "repeats"], count: int, tool: str | None = None) -> None:
        self.limit, self.count, self.tool = limit, count, tool
        reason = (
            f"the limit of {count} steps of one turn is reached"
            if limit == "steps"
            else f"{tool} was called {count} times in this turn with the same arguments and the same result"
        )
        super().__init__(f"{reason}: the turn ends here; send a message to go on")

    def events(self) -> list[NewEvent]:
        """Return the events to log: the decision, and what the person is told."""
        tool = {} if self.tool is None else {"tool": self.tool}
        return stop_events(self, {"limit": self.limit, "count": self.count, "reason": str(self), **tool})


def stop_events(stop: OverBudget, data: Mapping[str, Any]) -> list[NewEvent]:
    """Return the events by which a turn ends at a limit: the decision, and what the person is told."""
    return [
        NewEvent(EventType.POLICY_DECISION, {"decision": "budget_stop", **data}),
        NewEvent(EventType.ERROR, {"message": str(stop), "kind": "budget"}),
    ]


def call_key(tool: str, arguments: Any, status: Any, content: Any) -> str:
    """Return a hash that equal calls with equal results share."""
    try:
        text = json.dumps([tool, arguments, status, content], sort_keys=True, default=str)
    except (ValueError, RecursionError, TypeError):
        text = repr((tool, status, type(content).__name__))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
