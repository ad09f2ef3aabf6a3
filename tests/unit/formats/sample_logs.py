"""A small valid log of each format, and odd values to put into the place of any of theirs."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

CLAUDE: dict[str, Any] = {"sessionId": "s", "timestamp": "2026-03-01T10:00:00.000Z", "cwd": "/src/shop", "version": "2"}
CALL = {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls"}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "done", "is_error": True}
TIME = "2026-03-01T10:00:00.000Z"

# name -> the file's name, whether it is JSONL, and its lines (or its one value)
SAMPLES: dict[str, tuple[str, bool, list[Any]]] = {
    "claude-code": (
        "s.jsonl",
        True,
        [
            {**CLAUDE, "type": "user", "uuid": "1", "message": {"role": "user", "content": "hello"}},
            {
                **CLAUDE,
                "type": "assistant",
                "uuid": "2",
                "message": {
                    "role": "assistant",
                    "id": "m",
                    "model": "x",
                    "usage": {"input_tokens": 1},
                    "content": [{"type": "thinking", "thinking": "so"}, {"type": "text", "text": "yes"}, CALL],
                },
            },
            {
                **CLAUDE,
                "type": "user",
                "uuid": "3",
                "message": {"role": "user", "content": [RESULT]},
                "toolUseResult": {"interrupted": False, "agentId": "b", "questions": [], "answers": {"Which?": "it"}},
            },
            {**CLAUDE, "type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto"}},
            {**CLAUDE, "type": "queue-operation", "operation": "enqueue", "content": "wait"},
            {**CLAUDE, "type": "queue-operation", "operation": "remove"},
            {**CLAUDE, "type": "attachment", "attachment": {"type": "queued_command", "prompt": "also"}},
            {**CLAUDE, "type": "user", "uuid": "9", "forkedFrom": {"sessionId": "r", "messageUuid": "0"}, "message": {
                "role": "user", "content": "bye"}},
        ],
    ),
    "codex": (
        "rollout-s.jsonl",
        True,
        [
            {"timestamp": TIME, "type": "session_meta", "payload": {"id": "s", "timestamp": TIME, "cwd": "/src",
             "source": {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}, "git": {"branch": "main"}}},
            {"timestamp": TIME, "type": "turn_context", "payload": {"model": "x"}},
            {"timestamp": TIME, "type": "response_item", "payload": {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "hello"}]}},
            {"timestamp": TIME, "type": "response_item", "payload": {"type": "function_call", "name": "shell",
             "arguments": '{"command": "ls"}', "call_id": "a"}},
            {"timestamp": TIME, "type": "response_item", "payload": {"type": "function_call_output", "call_id": "a",
             "output": {"content": "done", "success": True}}},
            {"timestamp": TIME, "type": "response_item", "payload": {"type": "reasoning", "summary": [{"text": "so"}]}},
            {"timestamp": TIME, "type": "event_msg", "payload": {"type": "error", "message": "no"}},
            {"timestamp": TIME, "type": "compacted", "payload": {"message": "short"}},
        ],
    ),
    "pi": (
        "2026_s.jsonl",
        True,
        [
            {"type": "session", "id": "s", "timestamp": TIME, "cwd": "/src", "modelId": "x", "branchedFrom":
             "a_b.jsonl"},
            {"type": "message", "id": "1", "parentId": None, "timestamp": TIME, "message": {"role": "user",
             "content": "hello", "timestamp": 1767225600000}},
            {"type": "message", "id": "2", "parentId": "1", "timestamp": TIME, "message": {"role": "assistant",
             "model": "x", "usage": {"input": 1}, "content": [{"type": "text", "text": "yes"},
             {"type": "toolCall", "id": "a", "name": "bash", "arguments": {"command": "ls"}}]}},
            {"type": "message", "id": "3", "parentId": "2", "timestamp": TIME, "message": {"role": "toolResult",
             "toolCallId": "a", "toolName": "bash", "isError": False, "content": [{"type": "text", "text": "done"}]}},
            {"type": "message", "id": "4", "parentId": "3", "timestamp": TIME, "message": {"role": "bashExecution",
             "command": "ls", "output": "a", "exitCode": 0}},
            {"type": "model_change", "id": "5", "parentId": "4", "timestamp": TIME, "modelId": "y", "provider": "z"},
            {"type": "compaction", "id": "6", "parentId": "5", "timestamp": TIME, "summary": "short"},
        ],
    ),
    "openai-messages": (
        "c.jsonl",
        True,
        [
            {"id": "c", "agent": "helper", "model": "x", "reward": 1, "task_id": 3, "info": {"task": {"goal": "g"}},
             "tools": [{"function": {"name": "ls"}}], "messages": [
                {"role": "system", "content": "be kind"}, {"role": "user", "content": "hello", "name": "mara"},
                {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": {"name": "ls",
                 "arguments": "{}"}}], "reasoning": "so"},
                {"role": "tool", "tool_call_id": "a", "content": "done", "timestamp": TIME}]},
        ],
    ),
    "claw0": (
        "k.jsonl",
        True,
        [
            {"type": "session", "id": "s", "key": "main:cli:mara", "created": TIME},
            {"type": "user", "content": "hello", "ts": TIME},
            {"type": "assistant", "content": [{"type": "text", "text": "yes"}, CALL], "ts": TIME},
            {"type": "tool_use", "tool_use_id": "b", "name": "bash", "input": {"command": "ls"}, "ts": TIME},
            {"type": "tool_result", "tool_use_id": "b", "output": "done", "is_error": False, "ts": TIME},
        ],
    ),
    "harness": (
        "h.jsonl",
        True,
        [
            {"ts": TIME, "type": "MESSAGE_RECEIVED", "id": "1", "payload": {"text": "hello"}},
            {"ts": TIME, "type": "GEN_START", "id": "2", "payload": {"msg_id": "m"}},
            {"ts": TIME, "type": "GEN_CHUNK", "id": "3", "payload": {"msg_id": "m", "delta": "y"}},
            {"ts": TIME, "type": "GEN_RESUMED", "id": "4", "payload": {"msg_id": "m", "strategy": "resume"}},
            {"ts": TIME, "type": "GEN_COMPLETE", "id": "5", "payload": {"msg_id": "m", "text": "yes"}},
            {"ts": TIME, "type": "TOOL_INVOKED", "id": "6", "payload": {"call_id": "a", "name": "bash", "args": {}}},
            {"ts": TIME, "type": "TOOL_RESULT", "id": "7", "payload": {"call_id": "a", "content": "done"}},
            {"ts": TIME, "type": "SESSION_TERMINATED", "id": "8", "payload": {"reason": "done"}},
        ],
    ),
    "consolidator": (
        "n.jsonl",
        True,
        [
            {"consolidator": 1, "session": {"id": "s", "agent": "x", "origin": "codex:s", "key": "x:cli:m", "peer": "m",
             "kind": "fork", "parent_id": "p", "parent_seq": 1, "details": {"a": 1}, "pruned_to": 0, "model": "y",
             "status": "ended", "conversation_id": "c", "project": "/src", "simulated": False}},
            {"seq": 1, "type": "UserMessage", "data": {"text": "hello", "occurred_at": TIME}, "task_id": "t"},
            {"seq": 2, "type": "ToolCall", "data": {"call_id": "a", "tool": "bash"}, "tool_name": "bash"},
            {"seq": 3, "type": "ToolResult", "data": {"call_id": "a", "status": "ok", "content": "done"}},
        ],
    ),
}  # fmt: skip

LONG = "x" * 20_000
ODD_VALUES: dict[str, Any] = {
    "a list of a text": ["x"], "an object": {"x": 1}, "nested": [[{"type": ["x"]}]], "null": None, "true": True,
    "zero": 0, "a negative number": -1, "a fraction": 0.5, "a huge integer": 10**400, "2 ** 63": 2**63,
    "not a number": float("nan"), "infinity": float("inf"), "the empty text": "", "a NUL": "\0", "half a character":
    "\ud800", "a long text": LONG, "an escape": "\x1b[2J\n\u202e", "a slash": "../../etc/passwd", "a colon": "a:b:c",
    "an empty list": [], "an empty object": {}, "the integer 1e308 as a time": 1e308, "a year of five digits":
    "99999-01-01T00:00:00Z",
}  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a JSON value, its own included."""
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from places(member, (*path, key))


def put(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """Return a copy of a JSON value with another value at one place."""
    if not path:
        return odd
    changed = copy.deepcopy(value)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = odd
    return changed


def encode(lines: list[Any], is_jsonl: bool) -> bytes:
    """Return a log as bytes: a line for each value, or the one value."""
    if is_jsonl:
        return b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return json.dumps(lines[0]).encode()
