"""Tool calls as memory sees them: each call with its result, paired in order, as a fold over events.

Real logs reuse call ids, so a result belongs to the oldest call of that id that is still open. The fold's state is
plain JSON, so that a night can go on where the last one stopped, even after the events are gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from consolidator.models.event import Event
from consolidator.models.payload import EventType

MAX_PENDING = 256  # calls that may wait for a result at once; the oldest is given up beyond it


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """A tool call and its result."""

    index: int  # 0-based, in the order of the calls in the session
    seq: int  # of the ToolCall event
    result_seq: int  # of the ToolResult event
    tool: str
    arguments: Any  # JSON; a string that is a JSON object or list is already parsed
    ok: bool
    reason: str | None  # rejected, aborted, cascade, timeout
    result: Any  # JSON; a string that is a JSON object or list is already parsed
    occurred_at: str  # ISO 8601, of the call

    @property
    def result_text(self) -> str:
        """The result as text."""
        return self.result if isinstance(self.result, str) else json.dumps(self.result, ensure_ascii=False)


@dataclass(slots=True)
class CallPairer:
    """Pairs results with calls; feed it a session's events in order of seq."""

    count: int = 0  # calls seen so far
    open: list[dict[str, Any]] = field(default_factory=list)  # calls without a result, oldest first

    def feed(self, event: Event) -> CompletedCall | None:
        """Take the next event; return the call that it completes, if it completes one."""
        if event.type is EventType.TOOL_CALL:
            self.open.append(
                {
                    "index": self.count,
                    "seq": event.seq,
                    "call_id": str(event.data.get("call_id")),
                    "tool": str(event.data.get("tool")),
                    "arguments": event.data.get("arguments"),
                    "occurred_at": event.occurred_at.isoformat(),
                }
            )
            self.count += 1
            del self.open[:-MAX_PENDING]
        elif event.type is EventType.TOOL_RESULT:
            return self._complete(event)
        return None

    def _complete(self, event: Event) -> CompletedCall | None:
        call_id = str(event.data.get("call_id"))
        for position, call in enumerate(self.open):
            if call["call_id"] == call_id:
                del self.open[position]
                return CompletedCall(
                    index=call["index"],
                    seq=call["seq"],
                    result_seq=event.seq,
                    tool=call["tool"],
                    arguments=parse_json_text(call["arguments"]),
                    ok=event.data.get("status", "ok") == "ok",
                    reason=event.data.get("reason"),
                    result=parse_json_text(event.data.get("content")),
                    occurred_at=call["occurred_at"],
                )
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON."""
        return {"count": self.count, "open": self.open}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> CallPairer:
        """Go on from a state that `to_json` returned."""
        return cls(count=state["count"], open=[dict(call) for call in state["open"]])


def parse_json_text(value: Any) -> Any:
    """Return what a JSON object or list in a string says, else the value as it is."""
    if isinstance(value, str) and value[:1] in ("{", "[") and value[-1:] in ("}", "]"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value
