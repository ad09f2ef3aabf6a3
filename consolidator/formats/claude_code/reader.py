"""Claude Code's session logs: JSONL under ~/.claude/projects, one file a session, sub-agents beside or within.

Every line belongs to the session that it names itself. Keys are the log's own uuids, so that the lines which a
resumed or forked session repeats are known again. Nothing here writes, and no line stops the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem, Skipped
from consolidator.formats.claude_code.prompt_queue import Queue
from consolidator.formats.claude_code.tool_results import answers, denial, denied, result
from consolidator.formats.claude_code.user_text import EventDraft, by_harness, command_line, decision, message, said
from consolidator.formats.common.coercion import fitting
from consolidator.formats.common.content import text_of
from consolidator.formats.common.jsonl import files_below, head_objects, read_objects
from consolidator.formats.common.project import project_of
from consolidator.formats.common.timestamps import at
from consolidator.models.payload import EventType

NAME = "claude-code"
_SPAWNING = ("Task", "Agent")
_LOOK_AHEAD = 40  # lines in which the model is looked for before the first session is named


def default_paths(home: Path) -> list[Path]:
    """Return where Claude Code keeps its projects."""
    return [home / ".claude" / "projects"]


def files(path: Path) -> Iterator[Path]:
    """Yield the session files at or below `path`, sorted, sub-agents after all the others."""
    yield from sorted(files_below(path, ".jsonl"), key=lambda file: (file.name.startswith("agent-"), file))


def recognises(path: Path, head: bytes) -> bool:
    """Tell from the first lines: they are typed, and carry Claude Code's names."""
    return any(
        isinstance(line.get("type"), str)
        and (
            ("sessionId" in line and ("uuid" in line or "operation" in line or "isSidechain" in line))
            or (line["type"] == "summary" and "leafUuid" in line)
            or (line["type"] == "file-history-snapshot" and "snapshot" in line)
        )
        for line in head_objects(head)
    )


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one session file as a stream."""
    yield from _ClaudeCodeReader(path).items()


@dataclass(slots=True)
class _ClaudeCodeSession:
    """What must be remembered of a session while its lines go by."""

    origin: str
    keys: ItemKeys
    queue: Queue = field(default_factory=Queue)
    tools: dict[str, str] = field(default_factory=dict)  # open calls: id -> tool
    given: dict[str, Any] = field(default_factory=dict)  # and what they were given, for what a person says of them
    background: dict[str, str] = field(default_factory=dict)  # sub-agents that go on by themselves: id -> call
    mode: str | None = None  # the permission mode
    measured: str | None = None  # the message whose usage was told last
    refused: bool = False  # a denial was told since the model last spoke
    started: bool = False


class _ClaudeCodeReader:
    """Reads one file; holds a little of each session in it, and never the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sessions: dict[str, _ClaudeCodeSession] = {}
        self._main = path.stem  # the sessionId of lines that name none
        self._first: str | None = None  # the first sessionId of the file
        self._current: str | None = None
        self._model = _first_model(path)

    def items(self) -> Iterator[Item]:
        """Yield what the file holds."""
        for number, line in read_objects(self._path):
            if not isinstance(line, dict):
                yield line
            elif not isinstance(line.get("type"), str):
                yield Problem("a line without a type", number)
            else:
                yield from self._line(line, number)

    def _line(self, line: dict[str, Any], number: int) -> Iterator[Item]:
        kind = line["type"]
        body = line.get("message")
        if kind in ("user", "assistant") and not isinstance(body, dict):
            yield Problem(f"a {kind} line without a message", number)
            return
        session = self._session_of(line)
        if isinstance(line.get("permissionMode"), str):
            session.mode = line["permissionMode"]
        drafts = list(_DRAFTS[kind](line, session)) if kind in _DRAFTS else []
        if not drafts:
            yield Skipped(_kind_of(line), number)
            return
        yield from self._announced(session, line, number)
        base = _key_of(line, session)
        when = at(line.get("timestamp"))
        for draft in drafts:
            data = fitting(draft.type, {**when, **draft.data})
            yield ForeignEvent(f"{base}/{draft.part}", draft.type, data, None, data.get("tool"), number)

    def _session_of(self, line: Mapping[str, Any]) -> _ClaudeCodeSession:
        told = line.get("sessionId")
        if isinstance(told, str) and told:
            self._main = told
            self._first = self._first or told
        origin = self._main
        if line.get("isSidechain"):
            agent = line.get("agentId")
            origin += f"/agent-{agent}" if isinstance(agent, str) and agent else "/sidechain"
        if origin not in self._sessions:
            self._sessions[origin] = _ClaudeCodeSession(origin, ItemKeys(f"{NAME}/{origin}"))
        return self._sessions[origin]

    def _announced(self, session: _ClaudeCodeSession, line: Mapping[str, Any], number: int) -> Iterator[Item]:
        """Name the session where the lines turn to another, and start it where it was not started."""
        if self._current != session.origin:
            self._current = session.origin
            yield self._foreign(session.origin, line)
        if not session.started:
            session.started = True
            told = {"cwd": line.get("cwd"), "model": self._model, "version": line.get("version")}
            told |= {"git_branch": line.get("gitBranch"), **at(line.get("timestamp"))}
            data = fitting(EventType.SESSION_START, told)
            yield ForeignEvent(f"{NAME}/{session.origin}/start", EventType.SESSION_START, data, line=number)

    def _foreign(self, origin: str, line: Mapping[str, Any]) -> ForeignSession:
        fork = line.get("forkedFrom")
        parent: str | None = None
        kind = "root"
        if "/" in origin:
            kind, parent = "sub-agent", origin.partition("/")[0]
        elif isinstance(fork, Mapping) and isinstance(fork.get("sessionId"), str) and fork["sessionId"] != origin:
            kind, parent = "fork", fork["sessionId"]
        elif self._first not in (None, origin):
            kind, parent = "resume", self._first
        cwd = line.get("cwd")
        return ForeignSession(
            origin=origin,
            agent=NAME,
            channel="cli",
            project=project_of(cwd if isinstance(cwd, str) else None),
            model=self._model,
            kind=kind,
            parent_origin=parent,
        )


def _first_model(path: Path) -> str | None:
    """Return the first model that answers near the beginning of a file."""
    for number, line in read_objects(path):
        body = line.get("message") if isinstance(line, dict) and line.get("type") == "assistant" else None
        if isinstance(body, dict) and isinstance(body.get("model"), str) and body["model"] != "<synthetic>":
            return str(body["model"])
        if number >= _LOOK_AHEAD:
            break
    return None


def _key_of(line: Mapping[str, Any], session: _ClaudeCodeSession) -> str:
    """Return the line's own name; a fork's copy has the name of what it copies."""
    fork = line.get("forkedFrom")
    copied = fork.get("messageUuid") if isinstance(fork, Mapping) else None
    uuid = copied if isinstance(copied, str) else line.get("uuid")
    if isinstance(uuid, str) and uuid:
        return f"{NAME}/{uuid}"
    return session.keys.key(line["type"], line.get("timestamp"), line.get("message"), line.get("content"))


def _kind_of(line: Mapping[str, Any]) -> str:
    """Return as what kind a line without events is counted."""
    kind = str(line["type"])
    if kind == "system":
        return f"system:{line.get('subtype')}"
    if kind == "attachment" and isinstance(line.get("attachment"), Mapping):
        return f"attachment:{line['attachment'].get('type')}"
    if kind in ("progress", "summary", "file-history-snapshot", "queue-operation"):
        return kind
    return f"{kind}:empty" if kind in _DRAFTS else f"type:{kind}"


def _user(line: Mapping[str, Any], session: _ClaudeCodeSession) -> Iterator[EventDraft]:
    content = line["message"].get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
        if isinstance(block, str):
            block = {"type": "text", "text": block}
        if not isinstance(block, dict):
            continue
        part = str(index)
        if block.get("type") == "tool_result":
            yield from _result(part, block, line, session)
        elif block.get("type") == "text":
            text = text_of(block)
            if session.queue.sent(command_line(text) or text):
                yield from said(part, text, line)
                yield from _finished(part, text, session)
        else:
            yield message(part, text_of(block), "harness" if by_harness(line) else "user")


def _result(
    part: str, block: Mapping[str, Any], line: Mapping[str, Any], session: _ClaudeCodeSession
) -> Iterator[EventDraft]:
    more = line.get("toolUseResult")
    call = str(block.get("tool_use_id") or "")
    tool, given = session.tools.pop(call, None), session.given.pop(call, None)
    outcome = result(part, block, tool, more)
    yield outcome
    if outcome.data["reason"] == "rejected" and denied(outcome.data["content"]) and not session.refused:
        session.refused = True  # one answer of a person ends all the calls that wait beside the one in question
        yield from denial(part, outcome, given, session.mode)
    yield from answers(part, outcome, more)
    if tool in _SPAWNING:
        agent = more.get("agentId") if isinstance(more, Mapping) else None
        if isinstance(more, Mapping) and more.get("isAsync") and isinstance(agent, str):
            session.background[agent] = call
        else:
            yield _complete(part, agent, call, str(outcome.data["status"]), session)


def _complete(part: str, agent: Any, call: str, status: str, session: _ClaudeCodeSession) -> EventDraft:
    child = f"{session.origin.partition('/')[0]}/agent-{agent}" if isinstance(agent, str) else None
    return EventDraft(
        part + "/complete", EventType.SUBAGENT_COMPLETE, {"child": child, "call_id": call, "status": status}
    )


def _finished(part: str, text: str, session: _ClaudeCodeSession) -> Iterator[EventDraft]:
    """Yield the end of a sub-agent in the background, which a notification tells."""
    if not text.lstrip().startswith("<task-notification>"):
        return
    agent = text.partition("<task-id>")[2].partition("</task-id>")[0].strip()
    if call := session.background.pop(agent, None):
        status = "ok" if "<status>completed</status>" in text else "error"
        yield _complete(part, agent, call, status, session)


def _assistant(line: Mapping[str, Any], session: _ClaudeCodeSession) -> Iterator[EventDraft]:
    session.queue.answered()
    session.refused = False
    body = line["message"]
    if line.get("isApiErrorMessage"):
        yield EventDraft("0", EventType.ERROR, {"message": text_of(body.get("content"))})
        return
    if body.get("model") == "<synthetic>":
        return
    content = body.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    named = {"message_id": body.get("id"), "model": body.get("model")}
    usage = None if named["message_id"] and named["message_id"] == session.measured else body.get("usage")
    for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
        for draft in _block(str(index), block, named, session) if isinstance(block, dict) else ():
            if usage is not None:  # once for each message, of which every line repeats it
                draft.data["usage"], usage, session.measured = usage, None, named["message_id"]
            yield draft


def _block(
    part: str, block: Mapping[str, Any], named: Mapping[str, Any], session: _ClaudeCodeSession
) -> Iterator[EventDraft]:
    kind = str(block.get("type"))
    if kind == "text":
        if text_of(block).strip():
            yield EventDraft(part, EventType.ASSISTANT_RESPONSE, {"text": text_of(block), **named})
    elif kind in ("thinking", "redacted_thinking"):
        yield EventDraft(part, EventType.THINKING_START, {"text": block.get("thinking"), **named})
    elif kind.endswith("tool_use"):
        call, tool = str(block.get("id") or ""), str(block.get("name") or "")
        session.tools[call], session.given[call] = tool, block.get("input")
        told = {"call_id": call, "tool": tool, "arguments": block.get("input"), "message_id": named["message_id"]}
        yield EventDraft(part, EventType.TOOL_CALL, told)
        if tool in _SPAWNING:
            given = block.get("input") if isinstance(block.get("input"), dict) else {}
            goal = given.get("description") or given.get("prompt")  # type: ignore[union-attr]
            data = {"call_id": call, "goal": goal if isinstance(goal, str) else None}
            yield EventDraft(part + "/spawn", EventType.SUBAGENT_SPAWN, data)
    elif kind.endswith("tool_result"):
        yield result(part, block, session.tools.pop(str(block.get("tool_use_id")), None), None)


def _system(line: Mapping[str, Any], session: _ClaudeCodeSession) -> Iterator[EventDraft]:
    kind, text = line.get("subtype"), text_of(line.get("content"))
    if kind in ("compact_boundary", "microcompact_boundary"):
        told = line.get("compactMetadata") or line.get("microcompactMetadata")
        told = told if isinstance(told, dict) else {}
        yield decision("0", "compaction", trigger=told.get("trigger"), tokens_before=told.get("preTokens"))
    elif kind == "local_command":
        yield from said("0", text, line)
    elif kind == "api_error":
        yield EventDraft("0", EventType.ERROR, {"message": text or text_of(line.get("error"))})


def _queue(line: Mapping[str, Any], session: _ClaudeCodeSession) -> Iterator[EventDraft]:
    operation, content = line.get("operation"), line.get("content")
    if operation == "enqueue" and isinstance(content, str):
        session.queue.enqueue(content, line.get("timestamp"))
    elif operation == "remove":
        waited = session.queue.remove(content if isinstance(content, str) else None)
        if waited is not None:
            yield from _steered(waited.text, line, at(waited.timestamp))
    elif operation == "dequeue":
        session.queue.dequeue()
    elif operation == "popAll":
        session.queue.take_back()


def _attachment(line: Mapping[str, Any], session: _ClaudeCodeSession) -> Iterator[EventDraft]:
    attached = line.get("attachment")
    if isinstance(attached, Mapping) and attached.get("type") == "queued_command":
        text = text_of(attached.get("prompt"))
        if session.queue.attached(text):
            yield from _finished("0", text, session)
            if attached.get("commandMode", "prompt") == "prompt":
                yield from _steered(text, line, {})


def _steered(text: str, line: Mapping[str, Any], when: dict[str, str]) -> Iterator[EventDraft]:
    """Yield what a person typed while the agent worked; notifications are nobody's words."""
    for draft in said("0", text, line):
        if draft.type is EventType.USER_MESSAGE and draft.data["origin"] == "user":
            yield EventDraft(draft.part, draft.type, {**draft.data, "mode": "steer", **when})


_DRAFTS = {
    "user": _user,
    "assistant": _assistant,
    "system": _system,
    "queue-operation": _queue,
    "attachment": _attachment,
}
