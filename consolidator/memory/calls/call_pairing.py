"""Pair each tool call with its result, in order, as a fold over a session's events.

Real logs reuse call ids, so a result belongs to the oldest open call with its id. A result that only says that the
call goes on in the background completes nothing: the call is open until its end is reported. The state is plain JSON:
the next night continues from it, even after the events are pruned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from consolidator.memory.calls.directory import find_left_folder
from consolidator.memory.calls.symbols import read_call, shell_command
from consolidator.memory.calls.tool_values import read_tool_value
from consolidator.memory.solutions.line_kinds import NO_FOLDER
from consolidator.memory.text.invisible import strip_invisible
from consolidator.models.event import Event
from consolidator.models.payload import EventType

KEEPS_FOLDER, FOLDER_RESET = "Bash", "Shell cwd was reset"  # a tool whose next call runs where one left the shell
MAX_FOLDER = 300  # characters of a working directory
MAX_SEARCHED = 4000  # characters of an output, for the word that there is no such folder
MAX_PENDING = 256  # calls that may wait for a result at once; beyond it the oldest is dropped


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """A tool call and its result."""

    index: int  # 0-based, in the order of the session's steps
    seq: int  # of the ToolCall event
    result_seq: int  # of the ToolResult event
    tool: str
    arguments: Any  # JSON, as `read_tool_value` reads it
    ok: bool
    reason: str | None  # rejected | aborted | cascade | timeout
    result: Any  # likewise
    occurred_at: str  # ISO 8601, of the call
    call_id: str = ""
    cwd: str | None = None  # where the shell was before the call: as the log has it, or where a call since left it
    root: str | None = None  # the folder in which the session began
    is_unseen: bool = False  # nothing tells how it ended: `ok` says only that no error was reported
    is_step: bool = True  # not so: keeping the session's books, or a compiled procedure's, which proves nothing new

    @property
    def result_text(self) -> str:
        """The result as text."""
        return self.result if isinstance(self.result, str) else json.dumps(self.result, ensure_ascii=False)


@dataclass(slots=True)
class CallPairer:
    """Pairs results with calls. Feed it a session's events in order of seq; folds may share it, and each feed it."""

    count: int = 0  # steps seen so far
    pending: list[dict[str, Any]] = field(default_factory=list)  # calls without a result, oldest first
    root: str | None = None  # the folder in which the session began
    logged: str | None = None  # the last folder that the log has; it lags
    left_in: str | None = None  # where a call has left the shell since
    _last: tuple[Event | None, CompletedCall | None] = field(default=(None, None), init=False)  # and what it completed

    def feed(self, event: Event) -> CompletedCall | None:
        """Take the next event; return the call that it completes, if any."""
        if event is not self._last[0]:
            self._last = event, self._take(event)
        return self._last[1]

    def _take(self, event: Event) -> CompletedCall | None:
        match event.type:
            case EventType.TOOL_CALL:
                self._add_pending(event)
            case EventType.TOOL_RESULT:
                return self._complete(event, in_background=False)
            case EventType.POLICY_DECISION:
                is_end = event.data.get("decision") == "call_ended"
                return self._complete(event, in_background=True) if is_end else None
            case EventType.SESSION_START:
                self.root = self.root or _folder_of(event)
            case (
                EventType.ASSISTANT_RESPONSE | EventType.USER_MESSAGE | EventType.THINKING_START
                | EventType.APPROVAL_REQUESTED | EventType.APPROVAL_GRANTED | EventType.APPROVAL_DENIED
                | EventType.SUBAGENT_SPAWN | EventType.SUBAGENT_COMPLETE | EventType.TASK_START | EventType.TASK_END
                | EventType.ERROR | EventType.SESSION_END
            ):  # fmt: skip
                pass
            case _:
                assert_never(event.type)
        return None

    def _add_pending(self, event: Event) -> None:
        if (logged := _folder_of(event) or self.root) != self.logged:
            self.logged, self.left_in = logged, None
        tool = strip_invisible(str(event.data.get("tool")))
        tool, arguments = read_call(tool, read_tool_value(event.data.get("arguments")))
        is_step = event.data.get("builtin") is not True and "procedure" not in event.data
        self.pending.append(
            {
                "index": self.count,
                "seq": event.seq,
                "call_id": str(event.data.get("call_id")),
                "tool": tool,
                "arguments": arguments,
                "occurred_at": event.occurred_at.isoformat(),
                "cwd": self.left_in or logged,
            }
            | ({} if is_step else {"is_step": False})
        )
        self.count += is_step
        del self.pending[:-MAX_PENDING]

    def _complete(self, event: Event, *, in_background: bool) -> CompletedCall | None:
        call_id = str(event.data.get("call_id"))
        for position, call in enumerate(self.pending):
            if call["call_id"] == call_id and call.get("in_background", False) is in_background:
                if event.data.get("background"):
                    call["in_background"] = True
                    return None
                del self.pending[position]
                completed = CompletedCall(
                    index=call["index"],
                    seq=call["seq"],
                    result_seq=event.seq,
                    tool=call["tool"],
                    arguments=call["arguments"],
                    ok=event.data.get("status", "ok") == "ok",
                    reason=event.data.get("reason"),
                    result=read_tool_value(_output(event) if in_background else event.data.get("content")),
                    occurred_at=call["occurred_at"],
                    call_id=call_id,
                    cwd=call.get("cwd"),
                    root=self.root,
                    is_unseen=event.data.get("unseen") is True,
                    is_step=call.get("is_step", True),
                )
                if not in_background:
                    self._follow_shell(completed)
                return completed
        return None

    def _follow_shell(self, call: CompletedCall) -> None:
        """Note where a call left the shell; one that fails leaves it where it was."""
        if call.tool == KEEPS_FOLDER and call.ok and (line := shell_command(call.tool, call.arguments)):
            was_reset = FOLDER_RESET in call.result_text[-MAX_FOLDER:]
            left_in = None if was_reset or call.cwd is None else find_left_folder(line, call.cwd)
            if left_in != call.cwd and NO_FOLDER.search(call.result_text[:MAX_SEARCHED]):
                return  # the `cd` failed before a pipe
            if left_in is None or left_in != call.cwd:
                self.left_in = left_in and _short_folder(left_in)

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON."""
        folders = {"root": self.root, "logged": self.logged, "left_in": self.left_in}
        return {"count": self.count, "open": self.pending, **folders}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> CallPairer:
        """Continue from a state that `to_json` returned."""
        folders = (state.get(name) for name in ("root", "logged", "left_in"))
        return cls(state["count"], [dict(call) for call in state["open"]], *folders)


def _folder_of(event: Event) -> str | None:
    """Return the working directory that an event names."""
    cwd = event.data.get("cwd")
    return _short_folder(cwd) if isinstance(cwd, str) and cwd else None


def _short_folder(path: str) -> str | None:
    """Return a path that is no longer than one may be; a part of it would be another folder's, or half a secret."""
    return path if len(path) <= MAX_FOLDER else None


def _output(event: Event) -> str:
    """Return what a call in the background printed, or its exit code as a shell tool's result would say it."""
    code = event.data.get("exit_code")
    return str(event.data.get("content") or (f"Exit code {code}" if code else ""))
