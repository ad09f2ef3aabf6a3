"""One conversation of chat messages as events: who it is, its task and reward, and what each message says.

OpenAI's messages carry no status, so a tool's result has failed only where its text leaves no doubt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem, Skipped
from consolidator.formats.common.coercion import fitting
from consolidator.formats.common.content import text_of
from consolidator.formats.common.jsonl import number_of, parse_json
from consolidator.formats.common.timestamps import at
from consolidator.models.payload import EventType

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_NAMES = ("session_id", "conversation_id", "id")
_TIMES = ("timestamp", "created", "created_at")
_FAILED = re.compile(
    r"\s*(?:(?:\w+\.)*\w*(?:Error|ERROR|error|Exception)\s*:"  # Error: ..., ValueError: ..., error: ...
    r"|Error\s*\Z"
    r"|Error (?:executing|calling|running|invoking|while|when|occurred)\b"
    r"|Traceback \(most recent call last\))"
)


def failed(text: str) -> bool:
    """Tell whether a tool's result is clearly an error, by its first words or by its only or first key."""
    if _FAILED.match(text):
        return True
    if not text.lstrip().startswith("{"):
        return False
    try:
        value = parse_json(text)
    except ValueError:
        return False
    if not isinstance(value, dict) or not value:
        return False
    if value.get("is_error") is True or value.get("isError") is True:
        return True
    return next(iter(value)) == "error" and bool(value["error"])


class Identity:
    """Names the conversations of one file, the same at every import."""

    def __init__(self, path: Path, root: Path) -> None:
        self._stem = path.stem
        inside = path != root and path.is_relative_to(root)
        self._place = path.relative_to(root).as_posix() if inside else path.name
        self._seen: dict[str, int] = {}

    def of(self, record: Mapping[str, Any], index: int | None) -> tuple[str, str]:
        """Return a record's origin and agent; `index` is its place in the file, None if it is the file."""
        told = record.get("agent")
        agent = told if isinstance(told, str) and told else self._stem if "traj" in record else "openai"
        for key in _NAMES:
            name = record.get(key)
            if isinstance(name, str) and name:
                return name, agent
            if isinstance(name, int) and not isinstance(name, bool):
                return f"{self._stem}#{name}", agent
        if record.get("task_id") is not None:
            return self._numbered(f"{self._stem}#{record['task_id']}/{record.get('trial', 0)}"), agent
        return self._place if index is None else f"{self._place}#{index}", agent

    def _numbered(self, origin: str) -> str:
        """Tell apart several runs of one task in one file."""
        nth = self._seen.get(origin, 0)
        self._seen[origin] = nth + 1
        return f"{origin}/{nth}" if nth else origin


class ChatRecord:
    """Turns the messages of one conversation into items, one message at a time."""

    def __init__(self, record: Mapping[str, Any], origin: str, agent: str) -> None:
        self._record = record
        self._origin = origin
        self._agent = agent
        self._keys = ItemKeys(f"openai-messages/{origin}")
        self._system: list[str] = []
        self._open: list[tuple[str, str]] = []  # calls without a result: id, tool
        self._started = False
        self._when: dict[str, str] = {}  # of the last message that tells its time
        self._reward = _reward_of(record)
        task = record.get("task_id")
        self._task = str(task) if task is not None else origin if self._reward is not None else None

    def message(self, message: Any, line: int | None) -> Iterator[Item]:
        """Yield what the next message says."""
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ROLES:
            yield Problem(f"a message with the role {role!r}" if role else "a message without a role", line)
            return
        when = at(next((message[key] for key in _TIMES if message.get(key) is not None), None))
        self._when = when or self._when
        if role in ("system", "developer") and not self._started:
            self._system.append(text_of(message.get("content")))
            return
        yield from self._start(line)
        base = self._keys.key(message)
        empty = True
        for part, (kind, data) in enumerate(self._drafts(role, message)):
            empty = False
            yield self._event(f"{base}/{part}", kind, {**when, **data}, line)
        if empty:
            yield Skipped("empty" if message.get("requestor") != "user" else "user's tool", line)

    def close(self) -> Iterator[Item]:
        """Yield what ends the conversation."""
        yield from self._start(None)
        if self._reward is not None:
            outcome = "success" if self._reward >= 1 else "failure" if self._reward <= 0 else "unknown"
            data = {"task_id": self._task, "outcome": outcome, "reward": self._reward}
            yield self._event(f"openai-messages/{self._origin}/task-end", EventType.TASK_END, self._when | data, None)

    def _start(self, line: int | None) -> Iterator[Item]:
        if self._started:
            return
        self._started = True
        model = self._record.get("model")
        model = model if isinstance(model, str) else None
        yield ForeignSession(self._origin, self._agent, model=model, ended=self._reward is not None)
        told = {"model": model, "system_prompt": "\n\n".join(self._system) or None, "tools": _tools_of(self._record)}
        yield self._event(f"openai-messages/{self._origin}/start", EventType.SESSION_START, self._when | told, line)
        if self._task is not None:
            goal = _goal_of(self._record)
            task = {"task_id": self._task, "goal": goal}
            yield self._event(
                f"openai-messages/{self._origin}/task-start", EventType.TASK_START, self._when | task, line
            )

    def _event(self, key: str, kind: EventType, data: dict[str, Any], line: int | None) -> ForeignEvent:
        data = fitting(kind, data)
        return ForeignEvent(key, kind, data, task_id=self._task, tool_name=data.get("tool"), line=line)

    def _drafts(self, role: str, message: Mapping[str, Any]) -> Iterator[tuple[EventType, dict[str, Any]]]:
        text = text_of(message.get("content"))
        if role == "assistant":
            yield from self._answer(text, message)
        elif role in ("tool", "function"):
            if message.get("requestor") != "user":  # a simulated user's own tools are not the agent's
                yield EventType.TOOL_RESULT, self._result(text, message)
        elif role in ("system", "developer"):
            yield EventType.POLICY_DECISION, {"decision": "instructions_added", "text": text}
        elif text.strip():
            speaker = message.get("name")
            yield EventType.USER_MESSAGE, {"text": text, "speaker": speaker}

    def _answer(self, text: str, message: Mapping[str, Any]) -> Iterator[tuple[EventType, dict[str, Any]]]:
        thought = message.get("reasoning_content") or message.get("reasoning")
        if isinstance(thought, str) and thought.strip():
            yield EventType.THINKING_START, {"text": thought}
        text = text or text_of(message.get("refusal"))
        if text.strip():
            yield EventType.ASSISTANT_RESPONSE, {"text": text}
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                function = call.get("function") if isinstance(call.get("function"), dict) else call
                yield EventType.TOOL_CALL, self._call(call.get("id"), function)
        if isinstance(message.get("function_call"), dict):  # before tools there were functions, without ids
            yield EventType.TOOL_CALL, self._call(None, message["function_call"])

    def _call(self, identity: Any, function: Any) -> dict[str, Any]:
        tool = str(function.get("name") or "")
        call = str(identity) if identity else tool
        self._open.append((call, tool))
        return {"call_id": call, "tool": tool, "arguments": function.get("arguments", function.get("input"))}

    def _result(self, text: str, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return a result, paired in order: with the oldest open call of its id, else of its name, else of all."""
        identity, name = message.get("tool_call_id") or message.get("id"), message.get("name")
        found = None
        if identity:
            found = next((call for call in self._open if call[0] == str(identity)), None)
        elif self._open:
            found = next((call for call in self._open if call[1] == name), self._open[0])
        if found is not None:
            self._open.remove(found)
        call, tool = found or (str(identity or name or ""), name if isinstance(name, str) else None)
        wrong = message.get("error") is True or message.get("is_error") is True or failed(text)
        return {"call_id": call, "tool": tool, "status": "error" if wrong else "ok", "content": text}


def _reward_of(record: Mapping[str, Any]) -> float | None:
    info = record.get("reward_info")
    return number_of(record.get("reward", info.get("reward") if isinstance(info, Mapping) else None))


def _goal_of(record: Mapping[str, Any]) -> str | None:
    """Return what the task asks for, by the names that records have for it."""
    info = record.get("info")
    task = info.get("task") if isinstance(info, Mapping) else None
    holders = (record, task if isinstance(task, Mapping) else {})
    found = (holder.get(key) for holder in holders for key in ("goal", "instruction"))
    return next((goal for goal in found if isinstance(goal, str) and goal), None)


def _tools_of(record: Mapping[str, Any]) -> list[str] | None:
    """Return the names of the tools that a record offers."""
    tools = record.get("tools") or record.get("functions")
    if not isinstance(tools, list):
        return None
    functions = [tool.get("function", tool) for tool in tools if isinstance(tool, Mapping)]
    return [str(function.get("name")) for function in functions if isinstance(function, Mapping)]
