"""Read Claude Code's session logs: JSONL under ~/.claude/projects, one file per session.

Sub-agents have their own files, or (in older versions) lines marked `isSidechain`. Each line belongs to the session it
names. Event keys are the log's own uuids, so lines that a resumed or forked session repeats keep their keys. A line
that cannot be read becomes a `Problem`; the lines after it are still read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consolidator.formats.base import (
    ForeignEvent,
    ForeignSession,
    Item,
    ItemKeys,
    ItemName,
    Problem,
    Skipped,
    hash_content,
)
from consolidator.formats.claude_code.prompt_queue import PromptQueue
from consolidator.formats.claude_code.tool_results import draft_answers, draft_denial, draft_result, is_user_denial
from consolidator.formats.claude_code.user_text import (
    EventDraft,
    draft_decision,
    draft_message,
    draft_user_text,
    extract_command_line,
    is_from_harness,
)
from consolidator.formats.common.content import extract_text, is_media, split_message
from consolidator.formats.common.fields import fit_payload, occurred_at_field
from consolidator.formats.common.jsonl import parse_head, read_objects, read_typed
from consolidator.formats.common.log_files import find_files
from consolidator.formats.common.project import derive_project
from consolidator.models.payload import EventType

NAME = "claude-code"
_SPAWN_TOOLS = ("Task", "Agent")
# The fields of a line, beside its message, that decide what is learned from it.
_WORDS: tuple[str, ...] = (
    "type",
    "subtype",
    "content",
    "operation",
    "attachment",
    "error",
    "isMeta",
    "isSidechain",
    "isCompactSummary",
)
_WORDS += ("isApiErrorMessage", "origin", "planContent", "promptSource", "userType", "toolUseResult", "toolDenialKind")
_MODEL_LOOKAHEAD_LINES = 40  # how far to search for the model before the first session is announced


def files(path: Path) -> Iterator[Path]:
    """Yield the session files at or below `path`, sorted, sub-agents after all the others."""
    yield from sorted(find_files(path, ".jsonl"), key=lambda file: (file.name.startswith("agent-"), file))


def recognises(path: Path, head: bytes) -> bool:
    """Check the first lines for a type and for the fields that only Claude Code writes."""
    return any(
        isinstance(line.get("type"), str)
        and (
            ("sessionId" in line and ("uuid" in line or "operation" in line or "isSidechain" in line))
            or (line["type"] == "summary" and "leafUuid" in line)
            or (line["type"] == "file-history-snapshot" and "snapshot" in line)
        )
        for line in parse_head(head)
    )


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one session file as a stream."""
    yield from _ClaudeCodeReader(path).read_items()


@dataclass(slots=True)
class _ClaudeCodeSession:
    """The state of one session while its lines are read."""

    origin: str
    keys: ItemKeys
    queue: PromptQueue = field(default_factory=PromptQueue)
    tools: dict[str, str] = field(default_factory=dict)  # open calls: call id -> tool
    arguments: dict[str, Any] = field(default_factory=dict)  # open calls: call id -> arguments, for a denial
    background_agents: dict[str, str] = field(default_factory=dict)  # running in the background: agent id -> call id
    permission_mode: str | None = None
    usage_message_id: str | None = None  # the last message whose usage was recorded
    denial_recorded: bool = False  # since the model's last message
    interrupted: bool = False  # by a person, who has said nothing since
    started: bool = False
    began_in: str | None = None  # the folder of its first line that names one
    follows: ItemName | None = None  # the last item before its own ones, of the session that it resumed
    last_item: ItemName | None = None


class _ClaudeCodeReader:
    """Reads one file as a stream and keeps a small state per session."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sessions: dict[str, _ClaudeCodeSession] = {}
        self._current_id = path.stem  # for lines without a sessionId: the last one seen, at first the file's name
        self._first_id: str | None = None  # the first sessionId of the file
        self._announced_origin: str | None = None
        self._model = _find_first_model(path)

    def read_items(self) -> Iterator[Item]:
        """Yield the items of the file."""
        yield from read_typed(self._path, self._read_line)

    def _read_line(self, line: dict[str, Any], number: int) -> Iterator[Item]:
        if line["type"] == "progress":
            line = self._subagent_line(line) or line
        kind = line["type"]
        body = line.get("message")
        if kind in ("user", "assistant") and not isinstance(body, dict):
            yield Problem(f"the {kind} line has no message", number)
            return
        session = self._get_session(line)
        if isinstance(line.get("permissionMode"), str):
            session.permission_mode = line["permissionMode"]
        drafts = list(_DRAFTERS[kind](line, session)) if kind in _DRAFTERS else []
        if not drafts:
            yield Skipped(_skipped_kind(line), number)
            return
        yield from self._announce_session(session, line, number)
        base = _make_key(line, session)
        content = _hash_words(line)
        time_field = occurred_at_field(line.get("timestamp"))
        place = self._moved_to(line, session)
        for draft in drafts:
            if place is not None and draft.type is EventType.TOOL_CALL:
                draft.data["cwd"] = place
            data = fit_payload(draft.type, {**time_field, **_mark_correction(draft, session)})
            key = f"{base}/{draft.part}"
            session.last_item = key, content
            yield ForeignEvent(key, draft.type, data, None, data.get("tool"), number, content=content)

    def _get_session(self, line: Mapping[str, Any]) -> _ClaudeCodeSession:
        session_id = line.get("sessionId")
        if isinstance(session_id, str) and session_id:
            self._current_id = session_id
            self._first_id = self._first_id or session_id
        origin = self._current_id
        if line.get("isSidechain"):
            agent = line.get("agentId")
            origin += f"/agent-{agent}" if isinstance(agent, str) and agent else "/sidechain"
        if origin not in self._sessions:
            self._sessions[origin] = _ClaudeCodeSession(origin, ItemKeys(f"{NAME}/{origin}"))
        return self._sessions[origin]

    def _subagent_line(self, line: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a sub-agent's line that a progress line holds, if it stands in no file of its own; else None."""
        data = line.get("data")
        inner = data.get("message") if isinstance(data, Mapping) and data.get("type") == "agent_progress" else None
        if not isinstance(inner, Mapping) or inner.get("type") not in ("user", "assistant"):
            return None
        agent = data.get("agentId")  # type: ignore[union-attr]
        places = (self._path.parent, self._path.with_suffix("") / "subagents")
        if not isinstance(agent, str) or any((place / f"agent-{agent}.jsonl").exists() for place in places):
            return None
        shared = {
            name: line[name] for name in ("sessionId", "cwd", "version", "gitBranch", "timestamp") if name in line
        }
        return {**shared, **inner, "isSidechain": True, "agentId": agent}

    def _moved_to(self, line: Mapping[str, Any], session: _ClaudeCodeSession) -> str | None:
        """Return where a line's calls run, where the shell has left the folder in which the session began."""
        cwd = line.get("cwd")
        if not isinstance(cwd, str):
            return None
        session.began_in = session.began_in or cwd
        return cwd if cwd != session.began_in else None

    def _announce_session(self, session: _ClaudeCodeSession, line: Mapping[str, Any], number: int) -> Iterator[Item]:
        """Yield the session when it changes, and its start event the first time."""
        if self._announced_origin != session.origin:
            self._announced_origin = session.origin
            resumed = self._sessions.get(self._first_id or "")
            if not session.started and resumed is not None and resumed is not session:
                session.follows = resumed.last_item
            yield self._build_session(session, line)
        if not session.started:
            session.started = True
            fields = {"cwd": line.get("cwd"), "model": self._model, "version": line.get("version")}
            fields |= {"git_branch": line.get("gitBranch"), **occurred_at_field(line.get("timestamp"))}
            data = fit_payload(EventType.SESSION_START, fields)
            yield ForeignEvent(f"{NAME}/{session.origin}/start", EventType.SESSION_START, data, line=number)

    def _build_session(self, session: _ClaudeCodeSession, line: Mapping[str, Any]) -> ForeignSession:
        origin, fork = session.origin, line.get("forkedFrom")
        parent: str | None = None
        kind = "root"
        if "/" in origin:
            kind, parent = "sub-agent", origin.partition("/")[0]
        elif isinstance(fork, Mapping) and isinstance(fork.get("sessionId"), str) and fork["sessionId"] != origin:
            kind, parent = "fork", fork["sessionId"]
        elif self._first_id not in (None, origin):
            kind, parent = "resume", self._first_id
        cwd = line.get("cwd")
        return ForeignSession(
            origin=origin,
            agent=NAME,
            channel="cli",
            project=derive_project(cwd if isinstance(cwd, str) else None),
            model=self._model,
            kind=kind,
            parent_origin=parent,
            follows=session.follows if kind == "resume" else None,
        )


def _mark_correction(draft: EventDraft, session: _ClaudeCodeSession) -> dict[str, Any]:
    """Return a draft's data; what a person says directly after they interrupted the agent steers it."""
    data = draft.data
    if draft.type is EventType.USER_MESSAGE and data["origin"] == "user" and session.interrupted:
        data = {"mode": "steer", **data}
    if draft.type is not EventType.USER_MESSAGE or data["origin"] == "user":
        session.interrupted = data.get("decision") == "turn_interrupted"
    return data


def _find_first_model(path: Path) -> str | None:
    """Return the first real model named near the beginning of a file."""
    for number, line in read_objects(path):
        body = line.get("message") if isinstance(line, dict) and line.get("type") == "assistant" else None
        if isinstance(body, dict) and isinstance(body.get("model"), str) and body["model"] != "<synthetic>":
            return str(body["model"])
        if number >= _MODEL_LOOKAHEAD_LINES:
            break
    return None


def _make_key(line: Mapping[str, Any], session: _ClaudeCodeSession) -> str:
    """Return the key of a line: its uuid; a fork's copy has the key of its original."""
    fork = line.get("forkedFrom")
    copied = fork.get("messageUuid") if isinstance(fork, Mapping) else None
    uuid = copied if isinstance(copied, str) else line.get("uuid")
    if isinstance(uuid, str) and uuid:
        return f"{NAME}/{uuid}"
    return session.keys.next_key(line["type"], line.get("timestamp"), line.get("message"), line.get("content"))


def _hash_words(line: Mapping[str, Any]) -> str:
    """Return a hash of what a line says and who says it; a copy in another session keeps both, under new ids."""
    said = {name: line[name] for name in _WORDS if line.get(name) is not None}
    body = line.get("message")
    if isinstance(body, Mapping):
        said["message"] = [body.get(name) for name in ("role", "model", "content")]
    return hash_content(said)


def _skipped_kind(line: Mapping[str, Any]) -> str:
    """Return the kind under which a line without events is counted."""
    kind = str(line["type"])
    if kind == "system":
        return f"system:{line.get('subtype')}"
    if kind == "attachment" and isinstance(line.get("attachment"), Mapping):
        return f"attachment:{line['attachment'].get('type')}"
    if kind in ("progress", "summary", "file-history-snapshot", "queue-operation"):
        return kind
    return f"{kind}:empty" if kind in _DRAFTERS else f"type:{kind}"


def _draft_user_line(line: Mapping[str, Any], session: _ClaudeCodeSession) -> Iterator[EventDraft]:
    content = line["message"].get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks = blocks if isinstance(blocks, list) else []
    results = sum(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks)
    if results:
        line = {"toolUseResult": {}, **line}  # what stands beside a result is the harness's
    for index, block in enumerate(blocks):
        if isinstance(block, str):
            block = {"type": "text", "text": block}
        if not isinstance(block, dict):
            continue
        part = str(index)
        if block.get("type") == "tool_result":
            yield from _draft_tool_result(part, block, line, session, is_only=results == 1)
        elif block.get("type") == "text":
            text = extract_text(block)
            if session.queue.record_user_line(extract_command_line(text) or text):
                yield from draft_user_text(part, text, line)
                yield from _draft_background_completion(part, text, session)
        else:
            is_typed = is_media(block) and not is_from_harness(line)
            yield draft_message(part, extract_text(block), "user" if is_typed else "harness")


def _draft_tool_result(
    part: str, block: Mapping[str, Any], line: Mapping[str, Any], session: _ClaudeCodeSession, *, is_only: bool
) -> Iterator[EventDraft]:
    tool_use_result = line.get("toolUseResult")  # of one result: where a line has several, it tells nothing of a person
    call_id = str(block.get("tool_use_id") or "")
    tool, arguments = session.tools.pop(call_id, None), session.arguments.pop(call_id, None)
    result = draft_result(part, block, tool, tool_use_result)
    yield result
    if is_only and is_user_denial(result, line) and not session.denial_recorded:
        session.denial_recorded = True  # one denial ends all parallel calls
        yield from draft_denial(part, result, arguments, session.permission_mode)
    if is_only:
        yield from draft_answers(part, result, tool_use_result)
    if tool in _SPAWN_TOOLS:
        agent_id = tool_use_result.get("agentId") if isinstance(tool_use_result, Mapping) else None
        if isinstance(tool_use_result, Mapping) and tool_use_result.get("isAsync") and isinstance(agent_id, str):
            session.background_agents[agent_id] = call_id
        else:
            yield _draft_subagent_complete(part, agent_id, call_id, str(result.data["status"]), session)


def _draft_subagent_complete(
    part: str, agent_id: Any, call_id: str, status: str, session: _ClaudeCodeSession
) -> EventDraft:
    child = f"{session.origin.partition('/')[0]}/agent-{agent_id}" if isinstance(agent_id, str) else None
    return EventDraft(
        part + "/complete", EventType.SUBAGENT_COMPLETE, {"child": child, "call_id": call_id, "status": status}
    )


def _draft_background_completion(part: str, text: str, session: _ClaudeCodeSession) -> Iterator[EventDraft]:
    """Yield the completion of a background sub-agent, which a notification reports."""
    if not text.lstrip().startswith("<task-notification>"):
        return
    agent_id = text.partition("<task-id>")[2].partition("</task-id>")[0].strip()
    if call_id := session.background_agents.pop(agent_id, None):
        status = "ok" if "<status>completed</status>" in text else "error"
        yield _draft_subagent_complete(part, agent_id, call_id, status, session)


def _draft_assistant_line(line: Mapping[str, Any], session: _ClaudeCodeSession) -> Iterator[EventDraft]:
    session.queue.forget_handed_over()
    session.denial_recorded = False
    body = line["message"]
    if line.get("isApiErrorMessage"):
        yield EventDraft("0", EventType.ERROR, {"message": extract_text(body.get("content"))})
        return
    if body.get("model") == "<synthetic>":
        return
    content = body.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    message_id = body.get("id")
    message_fields = {"message_id": message_id, "model": body.get("model")}
    usage = None if message_id and message_id == session.usage_message_id else body.get("usage")
    for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
        if not isinstance(block, dict):
            continue
        for draft in _draft_assistant_block(str(index), block, message_fields, session):
            if usage is not None:  # every line of a message repeats it; record it once
                draft.data["usage"], usage, session.usage_message_id = usage, None, message_id
            yield draft


def _draft_assistant_block(
    part: str, block: Mapping[str, Any], message_fields: Mapping[str, Any], session: _ClaudeCodeSession
) -> Iterator[EventDraft]:
    kind = str(block.get("type"))
    if kind == "text":
        if extract_text(block).strip():
            yield EventDraft(part, EventType.ASSISTANT_RESPONSE, {"text": extract_text(block), **message_fields})
    elif kind in ("thinking", "redacted_thinking"):
        yield EventDraft(part, EventType.THINKING_START, {"text": block.get("thinking"), **message_fields})
    elif kind.endswith("tool_use"):
        call_id, tool = str(block.get("id") or ""), str(block.get("name") or "")
        session.tools[call_id], session.arguments[call_id] = tool, block.get("input")
        call = {"call_id": call_id, "tool": tool, "arguments": block.get("input")}
        yield EventDraft(part, EventType.TOOL_CALL, {**call, "message_id": message_fields["message_id"]})
        if tool in _SPAWN_TOOLS:
            arguments = block.get("input") if isinstance(block.get("input"), dict) else {}
            goal = arguments.get("description") or arguments.get("prompt")  # type: ignore[union-attr]
            data = {"call_id": call_id, "goal": goal if isinstance(goal, str) else None}
            yield EventDraft(part + "/spawn", EventType.SUBAGENT_SPAWN, data)
    elif kind.endswith("tool_result"):
        yield draft_result(part, block, session.tools.pop(str(block.get("tool_use_id")), None), None)


def _draft_system_line(line: Mapping[str, Any], session: _ClaudeCodeSession) -> Iterator[EventDraft]:
    kind, text = line.get("subtype"), extract_text(line.get("content"))
    if kind in ("compact_boundary", "microcompact_boundary"):
        metadata = line.get("compactMetadata") or line.get("microcompactMetadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        yield draft_decision(
            "0", "compaction", trigger=metadata.get("trigger"), tokens_before=metadata.get("preTokens")
        )
    elif kind == "local_command":
        yield from draft_user_text("0", text, line)
    elif kind == "api_error":
        yield EventDraft("0", EventType.ERROR, {"message": text or extract_text(line.get("error"))})


def _draft_queue_operation(line: Mapping[str, Any], session: _ClaudeCodeSession) -> Iterator[EventDraft]:
    operation, content = line.get("operation"), line.get("content")
    if operation == "enqueue" and isinstance(content, str):
        session.queue.enqueue(content, line.get("timestamp"))
    elif operation == "remove":
        queued = session.queue.remove(content if isinstance(content, str) else None)
        if queued is not None:
            yield from _draft_steering_message(queued.text, line, occurred_at_field(queued.timestamp))
    elif operation == "dequeue":
        session.queue.dequeue()
    elif operation == "popAll":
        session.queue.clear()


def _draft_attachment(line: Mapping[str, Any], session: _ClaudeCodeSession) -> Iterator[EventDraft]:
    attachment = line.get("attachment")
    if isinstance(attachment, Mapping) and attachment.get("type") == "queued_command":
        text, _ = split_message(attachment.get("prompt"))
        if session.queue.record_attachment(text):
            yield from _draft_background_completion("0", text, session)
            if attachment.get("commandMode", "prompt") == "prompt" and not is_from_harness(attachment):
                yield from _draft_steering_message(text, line, {})


def _draft_steering_message(text: str, line: Mapping[str, Any], time_field: dict[str, str]) -> Iterator[EventDraft]:
    """Yield what a person typed while the agent worked; a notification is not a person's message."""
    for draft in draft_user_text("0", text, line):
        if draft.type is EventType.USER_MESSAGE and draft.data["origin"] == "user":
            yield EventDraft(draft.part, draft.type, {**draft.data, "mode": "steer", **time_field})


_DRAFTERS = {
    "user": _draft_user_line,
    "assistant": _draft_assistant_line,
    "system": _draft_system_line,
    "queue-operation": _draft_queue_operation,
    "attachment": _draft_attachment,
}
