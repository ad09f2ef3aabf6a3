"""Writes the sample sessions as their agents leave them on disk: Claude Code's files, chat records, our own exports.

Files grow as the days go by: each is what its agent would have written until then. Nothing here is random.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from consolidator.demo.script import Sample, ScriptItem

SHOP = "/home/mara/fernleaf"
_SPACE = uuid.UUID("5f0d3a52-6f0e-4d7e-9d0a-fe4fe4fe4fe4")
_REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). To tell you how to proceed, the user said:\n"
)
Line = dict[str, Any]


def sources(folder: Path) -> list[str]:
    """Return the folder's parts as CONSOLIDATOR_SOURCES names them."""
    return [
        f"claude-code:{folder / 'claude'}",
        f"openai-messages:{folder / 'support'}",
        f"consolidator:{folder / 'ops'}",
    ]


def write(samples: Sequence[Sample], folder: Path, start: datetime, until: timedelta) -> None:
    """Bring the files to what the agents had written until then; those that are as they were stay untouched."""
    chats: list[Line] = []
    for number, sample in enumerate(samples):
        items = sample.until(until)
        if not items:
            continue
        if sample.agent == "claude-code":
            _save(
                folder / "claude" / "-home-mara-fernleaf" / f"{session_of(sample)}.jsonl", _claude(sample, items, start)
            )
        elif sample.agent == "support-desk":
            chats.append(_chat(sample, items, start))
        else:
            _save(folder / "ops" / f"{number:03}-{sample.name}.jsonl", _export(sample, items, start))
    for place in ("claude", "ops"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    _save(folder / "support" / "chats.jsonl", chats)


def _save(path: Path, lines: Sequence[Line] | Iterator[Line]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def session_of(sample: Sample) -> str:
    """Return what the agent itself calls the session."""
    return str(uuid.uuid5(_SPACE, sample.name)) if sample.agent == "claude-code" else sample.name


def _time(start: datetime, item: ScriptItem) -> str:
    return (start + item.at).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _claude(sample: Sample, items: list[ScriptItem], start: datetime) -> Iterator[Line]:
    """Yield a session as Claude Code writes it."""
    session = session_of(sample)
    before: str | None = None
    call = ""
    for number, item in enumerate(items):
        own = str(uuid.uuid5(_SPACE, f"{session}/{number}"))
        if item.kind == "call":
            call = f"toolu_01{uuid.uuid5(_SPACE, own).hex[:22]}"
        line: Line = {
            "parentUuid": before,
            "isSidechain": False,
            "userType": "external",
            "cwd": SHOP,
            "sessionId": session,
            "version": "2.1.39",
            "gitBranch": sample.details.get("branch", "main"),
        }
        yield line | _claude_body(item, own, call) | {"uuid": own, "timestamp": _time(start, item)}
        before = own


def _claude_body(item: ScriptItem, own: str, call: str) -> Line:
    if item.kind == "person":
        return {"type": "user", "message": {"role": "user", "content": item.text}, "permissionMode": "default"}
    if item.kind in ("agent", "call"):
        block: Line = {"type": "text", "text": item.text}
        if item.kind == "call":
            tool = "Bash" if item.tool == "$" else item.tool
            block = {"type": "tool_use", "id": call, "name": tool, "input": _at_home(item.arguments or {})}
        body = {"model": "claude-opus-4-6", "id": f"msg_01{uuid.uuid5(_SPACE, own + 'm').hex[:22]}", "type": "message"}
        return {"type": "assistant", "message": body | {"role": "assistant", "content": [block]}}
    text = _REJECTED + item.text if item.kind == "denied" else item.text
    result: Line = {"tool_use_id": call, "type": "tool_result", "content": text}
    if item.kind == "result":
        more: Any = {"stdout": text, "stderr": "", "interrupted": False}
    else:
        result["is_error"] = True
        more = "Error: " + text
    return {"type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": more}


def _at_home(arguments: dict[str, Any]) -> dict[str, Any]:
    path = arguments.get("file_path")
    return arguments if path is None else arguments | {"file_path": f"{SHOP}/{path}"}


def _chat(sample: Sample, items: list[ScriptItem], start: datetime) -> Line:
    """Return a session as a record of chat messages, with its task and, once it is over, how it was rated."""
    messages: list[Line] = [
        {"role": "system", "content": "You answer the customers of Fernleaf, a shop for home and garden."}
    ]
    for number, item in enumerate(items):
        message: Line = {"timestamp": _time(start, item)}
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
    record: Line = {"session_id": sample.name, "agent": sample.agent, "model": "gpt-5-mini"}
    record |= {"task_id": sample.details["task"], "messages": messages}
    if "reward" in sample.details and len(items) == len(sample.items):
        record["reward"] = float(sample.details["reward"])
    return record


def _export(sample: Sample, items: list[ScriptItem], start: datetime) -> Iterator[Line]:
    """Yield a session in our own format, as an agent writes it that was built on us."""
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
        for kind, data in _events(item, {"call_id": call, "tool": tool}, arguments):
            seq += 1
            when = _time(start, item)
            yield {"seq": seq, "type": kind, "data": data | {"occurred_at": when}, "created_at": when}


def _events(item: ScriptItem, call: Line, arguments: dict[str, Any]) -> Iterator[tuple[str, Line]]:
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
