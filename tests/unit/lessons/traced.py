"""Makes sessions of calls, as events, and the traces that the nights keep of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from consolidator.memory.lessons.learning import learn_lessons
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.trace import Trace, TraceFold
from consolidator.models.event import Event
from consolidator.models.payload import EventType

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
HOME = "/home/ada/shop"
NO_WRAPPER = "error: unrecognized subcommand 'pnpm'"
UNFORMATTED = "src/cart.ts format ━━━━\n  × Formatter would have printed the following content:\n  1 │ - a"


def redact_nothing(text: str) -> str:
    return text


class CallLog:
    """A session of the project in HOME; each call is answered before the next is made."""

    def __init__(self, name: str, agent: str = "claude-code", home: str = HOME, start: datetime = START) -> None:
        self.name, self.agent, self._start = name, agent, start
        self.events: list[Event] = []
        self._add(EventType.SESSION_START, {"cwd": home})

    def say(self, text: str) -> CallLog:
        """Say something before the next call."""
        return self._add(EventType.ASSISTANT_RESPONSE, {"text": text})

    def run(self, command: str, output: str = "", ok: bool = True, cwd: str | None = None) -> CallLog:
        """Run a shell command."""
        return self.call("Bash", {"command": command}, output, ok, cwd=cwd)

    def fail(self, command: str, output: str, cwd: str | None = None) -> CallLog:
        """Run a shell command that fails."""
        return self.run(command, f"Exit code 1\n{output}", ok=False, cwd=cwd)

    def start(self, command: str) -> str:
        """Run a shell command in the background; return the id of the call."""
        call_id = f"c{len(self.events)}"
        self._add(EventType.TOOL_CALL, {"call_id": call_id, "tool": "Bash", "arguments": {"command": command}})
        result = {"call_id": call_id, "tool": "Bash", "content": "Command running in background with ID: b1."}
        self._add(EventType.TOOL_RESULT, {**result, "background": "b1"})
        return call_id

    def end(self, call_id: str, status: str = "ok", **details: Any) -> CallLog:
        """Report how a command in the background ended."""
        return self._add(
            EventType.POLICY_DECISION, {"decision": "call_ended", "call_id": call_id, "status": status, **details}
        )

    def edit(self, path: str, text: str = "x = 1", ok: bool = True, output: str = "done") -> CallLog:
        """Edit a file of the project."""
        return self.call("Edit", {"file_path": f"{HOME}/{path}", "old_string": text, "new_string": text}, output, ok)

    def read(self, path: str, ok: bool = True, output: str = "text") -> CallLog:
        """Read a file of the project."""
        return self.call("Read", {"file_path": f"{HOME}/{path}"}, output, ok)

    def call(
        self,
        tool: str,
        arguments: Any,
        output: str = "",
        ok: bool = True,
        reason: str | None = None,
        cwd: str | None = None,
    ) -> CallLog:
        """Call a tool."""
        call_id = f"c{len(self.events)}"
        place = {} if cwd is None else {"cwd": cwd}
        self._add(EventType.TOOL_CALL, {"call_id": call_id, "tool": tool, "arguments": arguments, **place})
        result = {"call_id": call_id, "tool": tool, "status": "ok" if ok else "error", "content": output}
        self._add(EventType.TOOL_RESULT, {**result, **({"reason": reason} if reason else {})})
        return self

    def trace(self, *cuts: int) -> Trace:
        """Return the trace, folded in as many nights as there are cuts and one more."""
        packed = b""
        for first, last in zip((0, *cuts), (*cuts, len(self.events)), strict=True):
            fold = TraceFold(redact_nothing, packed)
            for event in self.events[first:last]:
                fold.feed(event)
            packed = fold.pack()
        return Trace.unpack(self.name, self.name, self.agent, packed)

    def _add(self, kind: EventType, data: dict[str, Any]) -> CallLog:
        at = self._start + timedelta(seconds=len(self.events))
        self.events.append(Event(self.name, len(self.events) + 1, kind, {"occurred_at": at.isoformat(), **data}, at))
        return self


def learn(count: int, write: Callable[[CallLog], object], agents: tuple[str, ...] = ("claude-code",)) -> list[Lesson]:
    logs = [CallLog(f"s{number}", agents[number % len(agents)]) for number in range(count)]
    for log in logs:
        write(log)
    return learn_lessons([log.trace() for log in logs])


def learn_in_turn(count: int, write: Callable[[CallLog], object]) -> list[Lesson]:
    """Learn from sessions of which each is a day after the one before."""
    logs = [CallLog(f"s{number}", start=START + timedelta(days=number)) for number in range(count)]
    for log in logs:
        write(log)
    return learn_lessons([log.trace() for log in logs])


def of_kind(lessons: list[Lesson], kind: str) -> list[Lesson]:
    return [lesson for lesson in lessons if lesson.kind == kind]


def drop_wrapper(log: CallLog) -> None:
    log.fail("wrap pnpm run test 2>&1 | tail -5", NO_WRAPPER).run("pnpm run test", "12 passed")
    log.run("wrap git status", "clean")


def lint_then_fix(log: CallLog) -> None:
    log.edit("src/cart.ts").fail("pnpm run lint", UNFORMATTED).run("pnpm run lint:fix", "Fixed 1 file")
    log.run("pnpm run lint", "ok")
