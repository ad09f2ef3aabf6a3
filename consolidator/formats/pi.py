"""Read pi's session logs: JSONL, linear in the first version, later a tree of entries by `id` and `parentId`.

The branch with the last entry is the session; abandoned branches become forks of it. Keys are made of time and
content, not of ids: pi rewrites old files with new ids, and copies entries unchanged into branched sessions.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemName, Problem, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.content import extract_text, split_message
from consolidator.formats.common.fields import fit_payload, occurred_at_field
from consolidator.formats.common.jsonl import parse_head, read_objects, read_typed
from consolidator.formats.common.log_files import find_files
from consolidator.formats.common.project import derive_project
from consolidator.models.payload import EventType

NAME = "pi"
_ROLES = ("user", "assistant", "toolResult", "bashExecution", "custom", "hookMessage")
_WRAPPERS = ("file", "skill")  # what pi puts before a person's words: files named at the start, and a skill's text
_ABORTION = re.compile(r"(?:Command|Operation) aborted\s*\Z|\ASkipped due to queued user message")
_TIMEOUT = re.compile(r"(?:Command|Operation) timed out after [\d.]+ seconds\s*\Z")
_OPENCLAWS_WORDS = re.compile(  # OpenClaw's own, and those of people on a channel, who need not be the owner
    r"\s*(?:System(?: \(untrusted\))?: |\[cron:|\[Subagent|Conversation info \(|Sender \(|Read HEARTBEAT\.md"
    r"|A new session was started|\[media attached|\[(?!\w{3} \d{4}-)[A-Z][^\]\n]{0,200}\d{4}-\d\d-\d\d[^\]\n]{0,40}\])"
)
# What it puts below a prompt of its own, whatever that says: a heartbeat, a job, a flush before a compaction.
_OPENCLAWS_TIME = re.compile(r"^Current time: \w+, \w+ \d{1,2}\w\w, \d{4} ", re.MULTILINE)

Drafts = Iterator[tuple[EventType, dict[str, Any]]]


def files(path: Path) -> Iterator[Path]:
    """Yield the session files at or below `path`, sorted."""
    yield from (file for file in find_files(path, ".jsonl") if ".checkpoint." not in file.name)


def recognises(path: Path, head: bytes) -> bool:
    """Check the first lines for a header with a working directory, or for messages with pi's roles."""
    return any(
        (line.get("type") == "session" and {"id", "cwd", "timestamp"} <= line.keys())
        or (
            line.get("type") == "message"
            and isinstance(line.get("message"), dict)
            and line["message"].get("role") in _ROLES
            and "timestamp" in line
        )
        for line in parse_head(head)
    )


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one session file as a stream, after a first pass over its tree."""
    yield from _PiReader(path).read_items()


class _PiReader:
    """Reads one file; keeps the ids of its tree, not its entries."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header: dict[str, Any] = {}
        self._session_id = path.stem.rpartition("_")[2]
        self._is_openclaws = path.parent.name == "sessions" and "agents" in path.parts[-4:-2]
        self._tree = _EntryTree()
        self._announced_origin: str | None = None
        self._started: set[str] = set()
        self._parents: dict[str, str] = {}
        self._follows: dict[str, ItemName | None] = {}  # by origin of a branch: the last item before it
        self._last_items: dict[str, ItemName] = {}  # by id of an entry of a forked tree: its, or one before

    def read_items(self) -> Iterator[Item]:
        """Yield the items of the file."""
        for _, line in read_objects(self._path):
            if isinstance(line, dict) and line.get("type") != "session" and not self._tree.add(line):
                break  # a linear file has no tree
        self._tree.find_branches()
        yield from read_typed(self._path, self._read_entry)

    def _read_entry(self, line: dict[str, Any], number: int) -> Iterator[Item]:
        if line["type"] == "session":
            if self._header:
                yield Skipped("session", number)
                return
            self._header = line
            self._session_id = str(line.get("id") or self._session_id)
            yield from self._announce_session(self._session_id, line, number)
            return
        if line["type"] == "message" and not isinstance(line.get("message"), dict):
            yield Problem("the message entry has no message", number)
            return
        drafts = list(_draft_entry(line))
        if self._tree.is_forked:
            self._note_last_item(line, f"{_make_key(line)}/{len(drafts) - 1}" if drafts else None)
        if not drafts:
            yield Skipped(line["type"] if line["type"] in _EVENTLESS_TYPES else f"type:{line['type']}", number)
            return
        branch, parent_branch = self._tree.find_branch(line)
        origin = f"{self._session_id}/{branch}" if branch else self._session_id
        if branch:
            parent = f"{self._session_id}/{parent_branch}" if parent_branch else self._session_id
            self._parents.setdefault(origin, parent)
            self._follows.setdefault(origin, self._last_items.get(str(line.get("parentId"))))
        yield from self._announce_session(origin, line, number)
        base, time_field = _make_key(line), occurred_at_field(line.get("timestamp"))
        for part, (event_type, draft_data) in enumerate(drafts):
            data = fit_payload(event_type, {**time_field, **draft_data})
            if self._is_openclaws and event_type is EventType.USER_MESSAGE and _is_openclaws(data["text"]):
                data["origin"] = "harness"
            yield ForeignEvent(f"{base}/{part}", event_type, data, tool_name=data.get("tool"), line=number)

    def _note_last_item(self, line: Mapping[str, Any], key: str | None) -> None:
        before = self._last_items.get(str(line.get("parentId")))
        last = before if key is None else (key, None)
        if last is not None:
            self._last_items[str(line.get("id"))] = last

    def _announce_session(self, origin: str, line: Mapping[str, Any], number: int) -> Iterator[Item]:
        if origin != self._announced_origin:
            self._announced_origin = origin
            yield self._build_session(origin)
        if origin not in self._started:
            self._started.add(origin)
            header = self._header
            fields = {"cwd": header.get("cwd"), "model": header.get("modelId"), "provider": header.get("provider")}
            fields |= {"thinking_level": header.get("thinkingLevel"), **occurred_at_field(line.get("timestamp"))}
            data = fit_payload(EventType.SESSION_START, fields)
            yield ForeignEvent(f"{NAME}/{origin}/start", EventType.SESSION_START, data, line=number)

    def _build_session(self, origin: str) -> ForeignSession:
        branched_from = self._header.get("branchedFrom") or self._header.get("parentSession")
        parent = self._parents.get(origin)
        if parent is None and isinstance(branched_from, str) and branched_from:
            parent = _session_id_from_path(branched_from)
        cwd, model = self._header.get("cwd"), self._header.get("modelId")
        return ForeignSession(
            origin=origin,
            agent="openclaw" if self._is_openclaws else NAME,
            channel="cli",
            project=derive_project(cwd if isinstance(cwd, str) else None),
            model=model if isinstance(model, str) else None,
            kind="root" if parent is None else "fork",
            parent_origin=parent,
            follows=self._follows.get(origin),
            abandoned=origin in self._parents,
        )


def _is_openclaws(text: str) -> bool:
    return bool(_OPENCLAWS_WORDS.match(text) or _OPENCLAWS_TIME.search(text))


class _EntryTree:
    """The parents of the entries of a file, and the branches they form."""

    def __init__(self) -> None:
        self._parent: dict[str, str | None] = {}
        self._branch: dict[str, str] = {}  # abandoned entry -> the first entry of its branch
        self._parent_branch: dict[str, str] = {}  # branch -> the branch it forked from; absent for the active one
        self._last: str | None = None

    def add(self, line: Mapping[str, Any]) -> bool:
        """Add the next entry; return whether it is part of a tree."""
        entry_id, parent = line.get("id"), line.get("parentId")
        if not isinstance(entry_id, str):
            return False
        is_named = isinstance(parent, str) and parent != entry_id
        # A parent whose line was torn makes no branch of what stands before.
        self._parent[entry_id] = (parent if parent in self._parent else self._last) if is_named else None
        self._last = entry_id
        return True

    def find_branches(self) -> None:
        """Assign abandoned entries to branches, after the last entry was added."""
        active: set[str] = set()
        entry = self._last
        while entry is not None and entry not in active:
            active.add(entry)
            entry = self._parent.get(entry)
        continued: set[str] = set()  # abandoned entries that already have a successor on their branch
        for entry_id, parent in self._parent.items():
            if entry_id in active:
                continue
            branch = self._branch.get(parent) if parent is not None else None
            if branch is not None and parent is not None and parent not in continued:
                continued.add(parent)
                self._branch[entry_id] = branch
            else:
                self._branch[entry_id] = entry_id
                if branch is not None:
                    self._parent_branch[entry_id] = branch
        self._parent.clear()

    @property
    def is_forked(self) -> bool:
        """Whether any entry was abandoned."""
        return bool(self._branch)

    def find_branch(self, line: Mapping[str, Any]) -> tuple[str | None, str | None]:
        """Return an entry's branch and the branch that it forked from; None for the active branch."""
        branch = self._branch.get(str(line.get("id")))
        return branch, self._parent_branch.get(branch) if branch else None


def _session_id_from_path(path: str) -> str:
    """Return the session id of a file named <time>_<id>.jsonl."""
    return PureWindowsPath(path).name.removesuffix(".jsonl").rpartition("_")[2]


def _make_key(line: Mapping[str, Any]) -> str:
    content = {key: value for key, value in line.items() if key not in ("id", "parentId") and "KeptEntry" not in key}
    digest = hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=12).hexdigest()
    return f"{NAME}/{line.get('timestamp')}/{digest}"


def _draft_entry(line: Mapping[str, Any]) -> Drafts:
    kind = line["type"]
    if kind == "message":
        yield from _draft_message(line["message"])
    elif kind == "custom_message":
        yield EventType.USER_MESSAGE, {"text": extract_text(line.get("content")), "origin": "harness"}
    elif kind == "branch_summary":
        yield EventType.USER_MESSAGE, {"text": extract_text(line.get("summary")), "origin": "compaction"}
    elif kind == "compaction":
        fields = {"summary": line.get("summary"), "tokens_before": line.get("tokensBefore")}
        yield EventType.POLICY_DECISION, {"decision": "compaction", **fields}
    elif kind == "model_change":
        fields = {"model": line.get("modelId"), "provider": line.get("provider")}
        yield EventType.POLICY_DECISION, {"decision": "model_routed", **fields}
    elif kind == "thinking_level_change":
        fields = {"thinking_level": line.get("thinkingLevel")}
        yield EventType.POLICY_DECISION, {"decision": "configuration_changed", **fields}


_EVENTLESS_TYPES = ("message", "label", "session_info", "custom")


def _draft_message(message: Mapping[str, Any]) -> Drafts:
    role, text = message.get("role"), extract_text(message.get("content"))
    if role == "user":
        typed, other = split_message(message.get("content"))
        yield from drafts.words(typed, other, names=_WRAPPERS, only_before=True)
    elif role == "assistant":
        yield from _draft_answer(message)
    elif role == "toolResult":
        yield EventType.TOOL_RESULT, _build_result(message, text)
    elif role == "bashExecution":  # a person ran it with "!"
        fields = {key: message.get(key) for key in ("command", "output", "cancelled")}
        yield EventType.POLICY_DECISION, {"decision": "command_run", "exit_code": message.get("exitCode"), **fields}
    elif role in ("custom", "hookMessage"):
        yield EventType.USER_MESSAGE, {"text": text, "origin": "harness"}
    elif role in ("branchSummary", "compactionSummary"):
        yield EventType.USER_MESSAGE, {"text": extract_text(message.get("summary")), "origin": "compaction"}


def _draft_answer(message: Mapping[str, Any]) -> Drafts:
    content, model = message.get("content"), message.get("model")
    usage = message.get("usage")
    for block in content if isinstance(content, list) else [{"type": "text", "text": extract_text(content)}]:
        for event_type, data in _draft_block(block, model) if isinstance(block, dict) else ():
            yield event_type, {**data, "usage": usage}  # the message's usage, on its first event only
            usage = None
    if message.get("stopReason") == "aborted":
        yield EventType.POLICY_DECISION, {"decision": "turn_interrupted"}
    elif message.get("stopReason") == "error":
        yield (
            EventType.ERROR,
            {"message": extract_text(message.get("errorMessage")) or "the model's answer ended in an error"},
        )


def _draft_block(block: Mapping[str, Any], model: Any) -> Drafts:
    kind = block.get("type")
    if kind == "text":
        yield from drafts.answer(block, model)
    elif kind == "thinking":
        yield EventType.THINKING_START, {"text": block.get("thinking"), "model": model}
    elif kind == "toolCall":
        yield drafts.call(block.get("id"), block.get("name"), block.get("arguments"))


def _build_result(message: Mapping[str, Any], text: str) -> dict[str, Any]:
    failed = message.get("isError") is True
    reason = None
    if failed and _TIMEOUT.search(text):
        reason = "timeout"
    elif failed and _ABORTION.search(text):
        reason = "aborted"
    tool = message.get("toolName")
    return {
        "call_id": str(message.get("toolCallId") or ""),
        "tool": tool if isinstance(tool, str) else None,
        "status": "error" if failed else "ok",
        "reason": reason,
        "content": text,
    }
