"""Read Claude Code's session logs: JSONL under ~/.claude/projects, one file per session.

Sub-agents have their own files, or (in older versions) lines marked `isSidechain`. Each line belongs to the session it
names. Event keys are the log's own uuids, so lines that a resumed or forked session repeats keep their keys. A line
that cannot be read becomes a `Problem`; the lines after it are still read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
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
    message_id: str | None = None  # the last, whose blocks a later line may repeat as it grows
    blocks: dict[str, object] = field(default_factory=dict)  # by hash: the line that had it first
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
        self._tree = _MessageTree(path)
        self._last_items: dict[str, ItemName] = {}  # by uuid of a line of a forked file: its last item, or one before

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
        uuid = str(line.get("uuid"))
        if uuid in self._tree.repeated:
            yield Skipped("repeated message", number)
            return
        if isinstance(line.get("permissionMode"), str):
            session.permission_mode = line["permissionMode"]
        drafts = list(_DRAFTERS[kind](line, session)) if kind in _DRAFTERS else []
        before = self._last_items.get(str(line.get("parentUuid")))
        if before is not None:
            self._last_items[uuid] = before
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
            if self._tree.branches and not line.get("isSidechain"):
                self._last_items[uuid] = session.last_item
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
        elif branch := self._tree.branches.get(str(line.get("uuid"))):
            origin += f"/{branch}"
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
            if session.origin.rpartition("/")[2] == line.get("uuid"):
                session.follows = self._last_items.get(str(line.get("parentUuid")))
            elif not session.started and resumed is not None and resumed is not session:
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
        is_abandoned = origin.rpartition("/")[2] in self._tree.starts
        if is_abandoned:
            kind, parent = "fork", origin.rpartition("/")[0]
            branch = self._tree.starts[origin.rpartition("/")[2]]
            parent += f"/{branch}" if branch else ""
        elif "/" in origin:
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
            follows=session.follows if kind == "resume" or is_abandoned else None,
            abandoned=is_abandoned,
        )


class _MessageTree:
    """The lines of a file as a tree by `parentUuid`: which branches a person went back from, and what is repeated.

    A branch begins with a prompt that the last line does not come from. Other lines beside that way, such as results
    of parallel calls, belong to the branch that they hang on.
    """

    def __init__(self, path: Path) -> None:
        self.branches: dict[str, str] = {}  # by uuid of an abandoned line: the prompt that its branch begins with
        self.starts: dict[str, str | None] = {}  # by that prompt: the branch that it left; None for the session's own
        self.repeated: set[str] = set()
        self._parents: dict[str, str | None] = {}
        self._continued: set[str] = set()  # abandoned lines that have a line after them
        self._paths: dict[str, bytes] = {}  # by uuid: a digest of what was said up to it, in this order
        if _is_linear(path):
            return
        prompts: set[str] = set()
        roots: set[str] = set()  # that name no line before them
        first_of: dict[tuple[bytes, str | None], str] = {}  # by path and session
        copies: list[tuple[str, str]] = []
        last: str | None = None
        snapshot: tuple[str, Mapping[str, Any]] = ("", {})  # the latest message
        for _, line in read_objects(path):
            uuid = line.get("uuid") if isinstance(line, dict) else None
            if not isinstance(uuid, str) or not isinstance(line, dict) or line.get("isSidechain"):
                continue
            if uuid in self._parents:
                continue
            parents = (line.get("parentUuid"), line.get("logicalParentUuid"))
            known = (parent for parent in parents if isinstance(parent, str) and parent in self._parents)
            self._parents[uuid] = next(known, last)
            last = uuid
            if parents[0] is None:
                roots.add(uuid)
            before = self._paths.get(str(parents[0]), b"" if parents[0] is None else str(parents[0]).encode())
            body = line.get("message")
            if not isinstance(body, Mapping) or line.get("type") not in ("user", "assistant"):
                self._paths[uuid] = before
                continue
            said = hash_content([body.get("role"), body.get("content")])
            path_digest = self._paths[uuid] = hashlib.blake2b(before + said.encode(), digest_size=16).digest()
            if _is_prompt(line, body):
                prompts.add(uuid)
            if (message := body.get("id")) and message == snapshot[1].get("id") and _has_grown(snapshot[1], body):
                self.repeated.add(snapshot[0])
            snapshot = (uuid, body)
            session = line.get("sessionId")
            first = first_of.setdefault((path_digest, session if isinstance(session, str) else None), uuid)
            if first != uuid:
                copies.append((first, uuid))
        self._find_branches(last, prompts)
        followed = {self._parents[uuid] for _, uuid in copies if uuid not in roots}
        copies = [(first, uuid) for first, uuid in copies if uuid not in roots or uuid in followed]  # the same twice
        # Said again on another branch it is not a copy: the person went back, and said the same.
        self.repeated.update(uuid for first, uuid in copies if self.branches.get(first) == self.branches.get(uuid))
        self._parents.clear()
        self._paths.clear()
        self._continued.clear()

    def _find_branches(self, last: str | None, prompts: Collection[str]) -> None:
        active: set[str] = set()
        while last is not None and last not in active:
            active.add(last)
            last = self._parents.get(last)
        for uuid, parent in self._parents.items():  # parents before their children
            branch = self.branches.get(parent) if parent is not None else None
            if uuid in active:
                continue
            has_sibling = branch is not None and parent in self._continued
            if uuid in prompts and (branch is None or has_sibling):
                self.branches[uuid], self.starts[uuid] = uuid, branch
            elif branch is not None:
                self.branches[uuid] = branch
            if branch is not None and parent is not None:
                self._continued.add(parent)


def _is_linear(path: Path) -> bool:
    """Tell whether each line follows the one before it, or names none at all: then nothing need be kept of a file."""
    last: str | None = None
    message_id: object = None
    for _, line in read_objects(path):
        uuid = line.get("uuid") if isinstance(line, dict) else None
        if not isinstance(uuid, str) or not isinstance(line, dict) or line.get("isSidechain"):
            continue
        if last is not None and line.get("parentUuid", last) != last:
            return False
        body = line.get("message")
        last_id, message_id = message_id, body.get("id") if isinstance(body, Mapping) else None
        if message_id is not None and message_id == last_id:
            return False
        last = uuid
    return True


def _has_grown(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Tell whether a message was logged again with the same blocks, of which a text goes on."""
    old, new = before.get("content"), after.get("content")
    if not isinstance(old, list) or not isinstance(new, list) or len(old) > len(new) or old == new[: len(old)]:
        return False
    return all(
        one == other
        or (
            isinstance(one, Mapping)
            and isinstance(other, Mapping)
            and one.get("type") == other.get("type") == "text"
            and extract_text(other).startswith(extract_text(one))
        )
        for one, other in zip(old, new, strict=False)
    )


def _is_prompt(line: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Tell whether a line is what a person sent, which they may go back from."""
    typed, _ = split_message(body.get("content"))
    text = typed.lstrip()
    return bool(text) and not is_from_harness(line) and not text.startswith(("<", "[Request interrupted"))


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
    if message_id != session.message_id:
        session.message_id, session.blocks = message_id, {}
    usage = None if message_id and message_id == session.usage_message_id else body.get("usage")
    for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
        if not isinstance(block, dict) or (message_id and _is_repeated_block(block, line, session)):
            continue
        for draft in _draft_assistant_block(str(index), block, message_fields, session):
            if usage is not None:  # every line of a message repeats it; record it once
                draft.data["usage"], usage, session.usage_message_id = usage, None, message_id
            yield draft


def _is_repeated_block(block: Mapping[str, Any], line: Mapping[str, Any], session: _ClaudeCodeSession) -> bool:
    """Note a block of the message that is being read; return whether an earlier line of the message has it."""
    name = hash_content([block.get(key) for key in ("type", "id", "text", "thinking", "input", "content")])
    return session.blocks.setdefault(name, line.get("uuid")) != line.get("uuid")


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
