"""Writes the sample sessions as log files of their agents: Claude Code's files, chat records, our own exports.

The files grow from day to day: each holds what its agent would have written by then. Nothing here is random.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from release.demo_logs.script import SampleSession, ScriptItem

SHOP = "/home/mara/fernleaf"
_ID_NAMESPACE = uuid.UUID("5f0d3a52-6f0e-4d7e-9d0a-fe4fe4fe4fe4")
_REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). To tell you how to proceed, the user said:\n"
)
JsonLine = dict[str, Any]


def write_logs(samples: Sequence[SampleSession], folder: Path, start: datetime, until: timedelta) -> None:
    """Write what the agents had logged `until` then; a file that would not change is not touched."""
    chats: list[JsonLine] = []
    for number, sample in enumerate(samples):
        items = sample.items_before(until)
        if not items:
            continue
        if sample.agent == "claude-code":
            _write_lines(
                folder / "claude" / "-home-mara-fernleaf" / f"{agent_session_id(sample)}.jsonl",
                _claude_lines(sample, items, start),
            )
        elif sample.agent == "support-desk":
            chats.append(_chat_record(sample, items, start))
        else:
            _write_lines(folder / "ops" / f"{number:03}-{sample.name}.jsonl", _export_lines(sample, items, start))
    for name in ("claude", "ops"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    _write_lines(folder / "support" / "chats.jsonl", chats)


def _write_lines(path: Path, lines: Sequence[JsonLine] | Iterator[JsonLine]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def agent_session_id(sample: SampleSession) -> str:
    """Return the id that the agent itself gives the session."""
    return str(uuid.uuid5(_ID_NAMESPACE, sample.name)) if sample.agent == "claude-code" else sample.name


def _format_time(start: datetime, item: ScriptItem) -> str:
    return (start + item.at).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _claude_lines(sample: SampleSession, items: list[ScriptItem], start: datetime) -> Iterator[JsonLine]:
    """Yield a session in Claude Code's format."""
    session = agent_session_id(sample)
    parent_uuid: str | None = None
    call = ""
    for number, item in enumerate(items):
        line_uuid = str(uuid.uuid5(_ID_NAMESPACE, f"{session}/{number}"))
        if item.kind == "call":
            call = f"toolu_01{uuid.uuid5(_ID_NAMESPACE, line_uuid).hex[:22]}"
        line: JsonLine = {
            "parentUuid": parent_uuid,
            "isSidechain": False,
            "userType": "external",
            "cwd": SHOP,
            "sessionId": session,
            "version": "2.1.39",
            "gitBranch": sample.details.get("branch", "main"),
        }
        yield line | _claude_body(item, line_uuid, call) | {"uuid": line_uuid, "timestamp": _format_time(start, item)}
        parent_uuid = line_uuid


def _claude_body(item: ScriptItem, line_uuid: str, call: str) -> JsonLine:
    if item.kind == "person":
        return {"type": "user", "message": {"role": "user", "content": item.text}, "permissionMode": "default"}
    if item.kind in ("agent", "call"):
        block: JsonLine = {"type": "text", "text": item.text}
        if item.kind == "call":
            tool = "Bash" if item.tool == "$" else item.tool
            block = {"type": "tool_use", "id": call, "name": tool, "input": _with_absolute_path(item.arguments or {})}
        body = {
            "model": "claude-opus-4-6",
            "id": f"msg_01{uuid.uuid5(_ID_NAMESPACE, line_uuid + 'm').hex[:22]}",
            "type": "message",
        }
        return {"type": "assistant", "message": body | {"role": "assistant", "content": [block]}}
    text = _REJECTED + item.text if item.kind == "denied" else item.text
    result: JsonLine = {"tool_use_id": call, "type": "tool_result", "content": text}
    if item.kind == "result":
        tool_use_result: Any = {"stdout": text, "stderr": "", "interrupted": False}
    else:
        result["is_error"] = True
        tool_use_result = "Error: " + text
    denial = {"toolDenialKind": "user-rejected"} if item.kind == "denied" else {}
    return {"type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": tool_use_result} | denial


def _with_absolute_path(arguments: dict[str, Any]) -> dict[str, Any]:
    path = arguments.get("file_path")
    return arguments if path is None else arguments | {"file_path": f"{SHOP}/{path}"}


def _chat_record(sample: SampleSession, items: list[ScriptItem], start: datetime) -> JsonLine:
    """Return a session as a record of chat messages, with its task and, once it has ended, its reward."""
    messages: list[JsonLine] = [
        {"role": "system", "content": "You answer the customers of Fernleaf, a shop for home and garden."}
    ]
    for number, item in enumerate(items):
        message: JsonLine = {"timestamp": _format_time(start, item)}
        if item.kind == "person":
            message |= {"role": "user", "content": item.text}
        elif item.kind == "agent":
            message |= {"role": "assistant", "content": item.text}
        elif item.kind == "call":
            function = {"name": item.tool, "arguments": json.dumps(item.arguments)}
            call = {"id": f"call_{number}", "type": "function", "function": function}
            message |= {"role": "assistant", "content": None, "tool_calls": [call]}
        else:
            message |= {"role": "tool", "tool_call_id": f"call_{number - 1}", "content": item.text}
        messages.append(message)
    record: JsonLine = {"session_id": sample.name, "agent": sample.agent, "model": "gpt-5-mini"}
    record |= {"task_id": sample.details["task"], "messages": messages}
    if "reward" in sample.details and len(items) == len(sample.items):
        record["reward"] = float(sample.details["reward"])
    return record


def _export_lines(sample: SampleSession, items: list[ScriptItem], start: datetime) -> Iterator[JsonLine]:
    """Yield a session in consolidator's export format."""
    parent = sample.details.get("parent")
    header = {"id": sample.name, "agent": sample.agent, "channel": "chat", "project": "fernleaf-infra"}
    header |= {"peer": "ines"} if parent is None else {"kind": "sub-agent", "parent_id": parent}
    yield {"consolidator": 1, "session": header}
    call = tool = ""
    arguments: dict[str, Any] = {}
    seq = 0
    for number, item in enumerate(items):
        if item.kind in ("call", "ask"):
            call = f"{sample.name}-{number}"
            tool, arguments = "shell" if item.tool == "$" else str(item.tool), item.arguments or {}
        for kind, data in _event_payloads(item, {"call_id": call, "tool": tool}, arguments):
            seq += 1
            timestamp = _format_time(start, item)
            yield {"seq": seq, "type": kind, "data": data | {"occurred_at": timestamp}, "created_at": timestamp}


def _event_payloads(item: ScriptItem, call: JsonLine, arguments: dict[str, Any]) -> Iterator[tuple[str, JsonLine]]:
    if item.kind in ("person", "steer"):
        yield "UserMessage", {"text": item.text, "mode": "steer" if item.kind == "steer" else "message"}
    elif item.kind == "agent":
        yield "AssistantResponse", {"text": item.text}
    elif item.kind in ("call", "ask"):
        yield "ToolCall", call | {"arguments": arguments}
        if item.kind == "ask":
            yield "ApprovalRequested", call | {"arguments": arguments}
    elif item.kind == "granted":
        yield "ApprovalGranted", call | {"arguments": arguments, "reason": item.text}
    elif item.kind == "denied":
        yield "ApprovalDenied", call | {"arguments": arguments, "reason": item.text}
        yield "ToolResult", call | {"status": "error", "reason": "rejected", "content": f"rejected: {item.text}"}
    elif item.kind == "spawn":
        child, _, goal = item.text.partition(" ")
        yield "SubAgentSpawn", {"child": child, "goal": goal}
        yield "SubAgentComplete", {"child": child, "status": "ok"}
    else:
        yield "ToolResult", call | {"status": "ok" if item.kind == "result" else "error", "content": item.text}
