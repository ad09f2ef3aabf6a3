"""Convert one conversation of chat messages to events: its identity, its task and reward, its messages.

OpenAI's messages have no status, so a tool's result counts as failed only if its text is clearly an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.content import answers_call, extract_text, split_message
from consolidator.formats.common.fields import fit_payload, occurred_at_field
from consolidator.formats.common.json_parsing import parse_container, to_float
from consolidator.formats.common.wrappers import MESSAGE_BLOCKS, unwrap
from consolidator.models.payload import EventType

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_NAME_KEYS = ("session_id", "conversation_id", "id")
_TIME_KEYS = ("timestamp", "created", "created_at")
CLINE_PROBLEM = (
    "a task of Cline or Roo Code, where results of tools stand in the person's role: import it with `--format cline`"
)
_CLINE_BLOCK = re.compile(r"(?:\A|\n)\s*<environment_details>.*</environment_details>\s*\Z", re.DOTALL)
_FAILED = re.compile(
    r"\s*(?:(?:\w+\.)*\w*(?:Error|ERROR|error|Exception)\s*:"  # Error: ..., ValueError: ..., error: ...
    r"|Error\s*\Z"
    r"|Error (?:executing|calling|running|invoking|while|when|occurred)\b"
    r"|Traceback \(most recent call last\))"
)


def is_failed_result(text: str) -> bool:
    """Tell whether a tool's result is clearly an error, by its first words or, in JSON, by its first key."""
    if _FAILED.match(text):
        return True
    value = parse_container(text)
    if not isinstance(value, dict) or not value:
        return False
    if value.get("is_error") is True or value.get("isError") is True:
        return True
    return next(iter(value)) == "error" and bool(value["error"])


def draft_words(message: Mapping[str, Any], **fields: Any) -> drafts.Drafts:
    """Yield what came with a message of a user, then what its sender typed, with these fields."""
    content = message.get("content")
    # One that answers a call is its result, whatever role it claims.
    typed, other = ("", extract_text(content)) if answers_call(message) else split_message(content)
    unwrapped = unwrap(typed, MESSAGE_BLOCKS)
    yield from drafts.harness(drafts.join(unwrapped.around, other))
    if unwrapped.words.strip():
        yield EventType.USER_MESSAGE, {"text": unwrapped.words, **fields}


class ConversationNames:
    """Makes stable names for the conversations of one file."""

    def __init__(self, path: Path, root: Path) -> None:
        self._stem = path.stem
        inside = path != root and path.is_relative_to(root)
        self._relative_path = path.relative_to(root).as_posix() if inside else path.name
        self._occurrences: dict[str, int] = {}

    def identify(self, record: Mapping[str, Any], index: int | None) -> tuple[str, str]:
        """Return a record's origin and agent; `index` is its position in the file, None if it is the whole file."""
        named_agent = record.get("agent")
        agent = (
            named_agent
            if isinstance(named_agent, str) and named_agent
            else self._stem
            if "traj" in record
            else "openai"
        )
        for key in _NAME_KEYS:
            name = record.get(key)
            if isinstance(name, str) and name:
                return name, agent
            if isinstance(name, int) and not isinstance(name, bool):
                return f"{self._stem}#{name}", agent
        if record.get("task_id") is not None:
            origin = f"{self._stem}#{record['task_id']}/{record.get('trial', 0)}"
            runs_before = self._occurrences.get(origin, 0)  # of one task in one file
            self._occurrences[origin] = runs_before + 1
            return f"{origin}/{runs_before}" if runs_before else origin, agent
        return self._relative_path if index is None else f"{self._relative_path}#{index}", agent


class ChatRecord:
    """Turns the messages of one conversation into items, one message at a time."""

    def __init__(self, record: Mapping[str, Any], origin: str, agent: str) -> None:
        self._record = record
        self._origin = origin
        self._agent = agent
        self._keys = ItemKeys(f"openai-messages/{origin}")
        self._system_prompts: list[str] = []
        self._open_calls: list[tuple[str, str]] = []  # calls without a result: (id, tool)
        self._started = self._is_refused = False
        self._last_time: dict[str, str] = {}  # occurred_at of the last message with a time
        info = drafts.object_of(record.get("reward_info"))
        self._reward = to_float(record.get("reward", info.get("reward")))
        task = record.get("task_id")
        self._task = str(task) if task is not None else origin if self._reward is not None else None

    def read_message(self, message: Any, line: int | None) -> Iterator[Item]:
        """Yield the items of the next message."""
        role = message.get("role") if isinstance(message, dict) else None
        content = message.get("content") if role == "user" else None
        parts = content if isinstance(content, list) else [content]
        # Cline and Roo Code end all that they send as the person's with a block.
        if not self._is_refused and any(_CLINE_BLOCK.search(extract_text(part)) for part in parts):
            self._is_refused = True
            yield Problem(CLINE_PROBLEM, line)
        if self._is_refused:
            return
        if role not in ROLES:
            yield Problem(f"unknown role {role!r}" if role else "the message has no role", line)
            return
        time_field = occurred_at_field(next((message[key] for key in _TIME_KEYS if message.get(key) is not None), None))
        self._last_time = time_field or self._last_time
        if role in ("system", "developer") and not self._started:
            self._system_prompts.append(extract_text(message.get("content")))
            return
        yield from self._start(line)
        base = self._keys.next_key(message)
        empty = True
        for part, (event_type, data) in enumerate(self._draft_message(role, message)):
            empty = False
            yield self._make_event(f"{base}/{part}", event_type, {**time_field, **data}, line)
        if empty:
            yield Skipped("empty" if message.get("requestor") != "user" else "user's tool", line)

    def close(self) -> Iterator[Item]:
        """Yield the items that end the conversation."""
        if self._is_refused:
            return
        yield from self._start(None)
        if self._reward is not None:
            outcome = "success" if self._reward >= 1 else "failure" if self._reward <= 0 else "unknown"
            data = {"task_id": self._task, "outcome": outcome, "reward": self._reward}
            yield self._make_event(
                f"openai-messages/{self._origin}/task-end", EventType.TASK_END, self._last_time | data, None
            )

    def _start(self, line: int | None) -> Iterator[Item]:
        if self._started:
            return
        self._started = True
        model = self._record.get("model")
        model = model if isinstance(model, str) else None
        yield ForeignSession(self._origin, self._agent, model=model, ended=self._reward is not None)
        start = {
            "model": model,
            "system_prompt": "\n\n".join(self._system_prompts) or None,
            "tools": _find_tools(self._record),
        }
        yield self._make_event(
            f"openai-messages/{self._origin}/start", EventType.SESSION_START, self._last_time | start, line
        )
        if self._task is not None:
            goal = _find_goal(self._record)
            task = {"task_id": self._task, "goal": goal}
            yield self._make_event(
                f"openai-messages/{self._origin}/task-start", EventType.TASK_START, self._last_time | task, line
            )

    def _make_event(self, key: str, event_type: EventType, data: dict[str, Any], line: int | None) -> ForeignEvent:
        data = fit_payload(event_type, data)
        return ForeignEvent(key, event_type, data, task_id=self._task, tool_name=data.get("tool"), line=line)

    def _draft_message(self, role: str, message: Mapping[str, Any]) -> drafts.Drafts:
        text = extract_text(message.get("content"))
        if role == "assistant":
            yield from self._draft_answer(text, message)
        elif role in ("tool", "function"):
            if message.get("requestor") != "user":  # a simulated user's own tools are not the agent's
                yield self._close_call(text, message)
        elif role in ("system", "developer"):
            yield EventType.POLICY_DECISION, {"decision": "instructions_added", "text": text}
        else:
            yield from draft_words(message, speaker=message.get("name"))

    def _draft_answer(self, text: str, message: Mapping[str, Any]) -> drafts.Drafts:
        thought = message.get("reasoning_content") or message.get("reasoning")
        yield from drafts.thought(thought if isinstance(thought, str) else None)
        yield from drafts.answer(text or message.get("refusal"))
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                function = call.get("function") if isinstance(call.get("function"), dict) else call
                yield self._open_call(call.get("id"), function)
        if isinstance(message.get("function_call"), dict):  # the older function calls have no ids
            yield self._open_call(None, message["function_call"])

    def _open_call(self, call_id: Any, function: Any) -> drafts.Draft:
        tool = str(function.get("name") or "")
        call = str(call_id) if call_id else tool
        self._open_calls.append((call, tool))
        return drafts.call(call, tool, function.get("arguments", function.get("input")))

    def _close_call(self, text: str, message: Mapping[str, Any]) -> drafts.Draft:
        """Return a result and close the oldest open call of its id; without an id, of its name, else of all."""
        call_id, name = message.get("tool_call_id") or message.get("id"), message.get("name")
        open_call = None
        if call_id:
            open_call = next((call for call in self._open_calls if call[0] == str(call_id)), None)
        elif self._open_calls:
            open_call = next((call for call in self._open_calls if call[1] == name), self._open_calls[0])
        if open_call is not None:
            self._open_calls.remove(open_call)
        call, tool = open_call or (str(call_id or name or ""), name if isinstance(name, str) else None)
        is_error = message.get("error") is True or message.get("is_error") is True or is_failed_result(text)
        return drafts.result(call, tool, text, failed=is_error)


def _find_goal(record: Mapping[str, Any]) -> str | None:
    info = record.get("info")
    task = info.get("task") if isinstance(info, Mapping) else None
    holders = (record, task if isinstance(task, Mapping) else {})
    values = (holder.get(key) for holder in holders for key in ("goal", "instruction"))
    return next((goal for goal in values if isinstance(goal, str) and goal), None)


def _find_tools(record: Mapping[str, Any]) -> list[str] | None:
    tools = record.get("tools") or record.get("functions")
    if not isinstance(tools, list):
        return None
    functions = [tool.get("function", tool) for tool in tools if isinstance(tool, Mapping)]
    return [str(function.get("name")) for function in functions if isinstance(function, Mapping)]
