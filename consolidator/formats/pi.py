"""pi's session logs: JSONL, linear in its first version, since then a tree by `id` and `parentId`.

The branch that the last entry stands on is the session; what was abandoned becomes forks of it. Keys are made of time
and content, not of ids: pi rewrites old files with new ids, and copies entries as they are into branched sessions.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, Problem, Skipped
from consolidator.formats.common.coercion import fitting
from consolidator.formats.common.content import text_of
from consolidator.formats.common.jsonl import files_below, head_objects, read_objects
from consolidator.formats.common.project import project_of
from consolidator.formats.common.timestamps import at
from consolidator.models.payload import EventType

NAME = "pi"
_ROLES = ("user", "assistant", "toolResult", "bashExecution", "custom", "hookMessage")
_ABORTED = re.compile(r"(?:Command|Operation) aborted\s*\Z|\ASkipped due to queued user message")
_TIMED_OUT = re.compile(r"(?:Command|Operation) timed out after [\d.]+ seconds\s*\Z")

Drafts = Iterator[tuple[EventType, dict[str, Any]]]


def default_paths(home: Path) -> list[Path]:
    """Return where pi keeps its sessions."""
    return [home / ".pi" / "agent" / "sessions"]


def files(path: Path) -> Iterator[Path]:
    """Yield the session files at or below `path`, sorted."""
    yield from files_below(path, ".jsonl")


def recognises(path: Path, head: bytes) -> bool:
    """Tell from the first lines: a header with a working directory, or entries with pi's roles."""
    return any(
        (line.get("type") == "session" and {"id", "cwd", "timestamp"} <= line.keys())
        or (
            line.get("type") == "message"
            and isinstance(line.get("message"), dict)
            and line["message"].get("role") in _ROLES
            and "timestamp" in line
        )
        for line in head_objects(head)
    )


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one session file as a stream, after a look at its tree."""
    yield from _PiReader(path).items()


class _PiReader:
    """Reads one file; holds the ids of its tree, and never its entries."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header: dict[str, Any] = {}
        self._main = path.stem.rpartition("_")[2]
        self._tree = _Tree()
        self._current: str | None = None
        self._started: set[str] = set()
        self._parents: dict[str, str] = {}

    def items(self) -> Iterator[Item]:
        """Yield what the file holds."""
        for _, line in read_objects(self._path):
            if isinstance(line, dict) and line.get("type") != "session" and not self._tree.learn(line):
                break  # a linear file: there is no tree to know
        self._tree.settle()
        for number, line in read_objects(self._path):
            if not isinstance(line, dict):
                yield line
            elif not isinstance(line.get("type"), str):
                yield Problem("a line without a type", number)
            else:
                yield from self._entry(line, number)

    def _entry(self, line: dict[str, Any], number: int) -> Iterator[Item]:
        if line["type"] == "session":
            if self._header:
                yield Skipped("session", number)
                return
            self._header = line
            self._main = str(line.get("id") or self._main)
            yield from self._announced(self._main, line, number)
            return
        if line["type"] == "message" and not isinstance(line.get("message"), dict):
            yield Problem("a message entry without a message", number)
            return
        drafts = list(_drafts(line))
        if not drafts:
            yield Skipped(line["type"] if line["type"] in _SILENT else f"type:{line['type']}", number)
            return
        fork, parent = self._tree.place(line)
        origin = f"{self._main}/{fork}" if fork else self._main
        if fork:
            self._parents.setdefault(origin, f"{self._main}/{parent}" if parent else self._main)
        yield from self._announced(origin, line, number)
        base, when = _key(line), at(line.get("timestamp"))
        for part, (kind, told) in enumerate(drafts):
            data = fitting(kind, {**when, **told})
            yield ForeignEvent(f"{base}/{part}", kind, data, tool_name=data.get("tool"), line=number)

    def _announced(self, origin: str, line: Mapping[str, Any], number: int) -> Iterator[Item]:
        if origin != self._current:
            self._current = origin
            yield self._session(origin)
        if origin not in self._started:
            self._started.add(origin)
            header = self._header
            told = {"cwd": header.get("cwd"), "model": header.get("modelId"), "provider": header.get("provider")}
            told |= {"thinking_level": header.get("thinkingLevel"), **at(line.get("timestamp"))}
            data = fitting(EventType.SESSION_START, told)
            yield ForeignEvent(f"{NAME}/{origin}/start", EventType.SESSION_START, data, line=number)

    def _session(self, origin: str) -> ForeignSession:
        branched = self._header.get("branchedFrom") or self._header.get("parentSession")
        parent = self._parents.get(origin)
        if parent is None and isinstance(branched, str) and branched:
            parent = _session_of(branched)
        cwd, model = self._header.get("cwd"), self._header.get("modelId")
        return ForeignSession(
            origin=origin,
            agent=NAME,
            channel="cli",
            project=project_of(cwd if isinstance(cwd, str) else None),
            model=model if isinstance(model, str) else None,
            kind="root" if parent is None else "fork",
            parent_origin=parent,
        )


class _Tree:
    """Which entry hangs from which, and so which of them stand on the active branch."""

    def __init__(self) -> None:
        self._parent: dict[str, str | None] = {}
        self._fork: dict[str, str] = {}  # abandoned entry -> the first entry of its branch
        self._above: dict[str, str] = {}  # branch -> the branch it left; none for the active one
        self._last: str | None = None

    def learn(self, line: Mapping[str, Any]) -> bool:
        """Take the next entry; tell whether it is part of a tree."""
        identity, parent = line.get("id"), line.get("parentId")
        if not isinstance(identity, str):
            return False
        self._parent[identity] = parent if isinstance(parent, str) and parent != identity else None
        self._last = identity
        return True

    def settle(self) -> None:
        """Tell the branches apart, now that the last entry is known."""
        active: set[str] = set()
        step = self._last
        while step is not None and step not in active:
            active.add(step)
            step = self._parent.get(step)
        continued: set[str] = set()  # abandoned entries that their own branch goes on from
        for identity, parent in self._parent.items():
            if identity in active:
                continue
            above = self._fork.get(parent) if parent is not None else None
            if above is not None and parent is not None and parent not in continued:
                continued.add(parent)
                self._fork[identity] = above
            else:
                self._fork[identity] = identity
                if above is not None:
                    self._above[identity] = above
        self._parent.clear()

    def place(self, line: Mapping[str, Any]) -> tuple[str | None, str | None]:
        """Return an entry's branch and the branch which that one left, None for the active one."""
        fork = self._fork.get(str(line.get("id")))
        return fork, self._above.get(fork) if fork else None


def _session_of(path: str) -> str:
    """Return the id of the session in a file, whose name is <time>_<id>.jsonl."""
    return PureWindowsPath(path).name.removesuffix(".jsonl").rpartition("_")[2]


def _key(line: Mapping[str, Any]) -> str:
    content = {key: value for key, value in line.items() if key not in ("id", "parentId") and "KeptEntry" not in key}
    digest = hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=12).hexdigest()
    return f"{NAME}/{line.get('timestamp')}/{digest}"


def _drafts(line: Mapping[str, Any]) -> Drafts:
    kind = line["type"]
    if kind == "message":
        yield from _message(line["message"])
    elif kind == "custom_message":
        yield EventType.USER_MESSAGE, {"text": text_of(line.get("content")), "origin": "harness"}
    elif kind == "branch_summary":
        yield EventType.USER_MESSAGE, {"text": text_of(line.get("summary")), "origin": "compaction"}
    elif kind == "compaction":
        told = {"summary": line.get("summary"), "tokens_before": line.get("tokensBefore")}
        yield EventType.POLICY_DECISION, {"decision": "compaction", **told}
    elif kind == "model_change":
        told = {"model": line.get("modelId"), "provider": line.get("provider")}
        yield EventType.POLICY_DECISION, {"decision": "model_routed", **told}
    elif kind == "thinking_level_change":
        told = {"thinking_level": line.get("thinkingLevel")}
        yield EventType.POLICY_DECISION, {"decision": "configuration_changed", **told}


_SILENT = ("message", "label", "session_info", "custom")


def _message(message: Mapping[str, Any]) -> Drafts:
    role, text = message.get("role"), text_of(message.get("content"))
    if role == "user":
        if text.strip():
            yield EventType.USER_MESSAGE, {"text": text}
    elif role == "assistant":
        yield from _answer(message)
    elif role == "toolResult":
        yield EventType.TOOL_RESULT, _result(message, text)
    elif role == "bashExecution":  # a person ran it with "!"
        told = {key: message.get(key) for key in ("command", "output", "cancelled")}
        yield EventType.POLICY_DECISION, {"decision": "command_run", "exit_code": message.get("exitCode"), **told}
    elif role in ("custom", "hookMessage"):
        yield EventType.USER_MESSAGE, {"text": text, "origin": "harness"}
    elif role in ("branchSummary", "compactionSummary"):
        yield EventType.USER_MESSAGE, {"text": text_of(message.get("summary")), "origin": "compaction"}


def _answer(message: Mapping[str, Any]) -> Drafts:
    content, model = message.get("content"), message.get("model")
    usage = message.get("usage")
    for block in content if isinstance(content, list) else [{"type": "text", "text": text_of(content)}]:
        for kind, data in _block(block, model) if isinstance(block, dict) else ():
            yield kind, {**data, "usage": usage}  # the message's, told once
            usage = None
    if message.get("stopReason") == "aborted":
        yield EventType.POLICY_DECISION, {"decision": "turn_interrupted"}
    elif message.get("stopReason") == "error":
        yield (
            EventType.ERROR,
            {"message": text_of(message.get("errorMessage")) or "the model's answer ended in an error"},
        )


def _block(block: Mapping[str, Any], model: Any) -> Drafts:
    kind = block.get("type")
    if kind == "text" and text_of(block).strip():
        yield EventType.ASSISTANT_RESPONSE, {"text": text_of(block), "model": model}
    elif kind == "thinking":
        yield EventType.THINKING_START, {"text": block.get("thinking"), "model": model}
    elif kind == "toolCall":
        named = {"call_id": str(block.get("id") or ""), "tool": str(block.get("name") or "")}
        yield EventType.TOOL_CALL, {**named, "arguments": block.get("arguments")}


def _result(message: Mapping[str, Any], text: str) -> dict[str, Any]:
    failed = message.get("isError") is True
    reason = None
    if failed and _TIMED_OUT.search(text):
        reason = "timeout"
    elif failed and _ABORTED.search(text):
        reason = "aborted"
    tool = message.get("toolName")
    return {
        "call_id": str(message.get("toolCallId") or ""),
        "tool": tool if isinstance(tool, str) else None,
        "status": "error" if failed else "ok",
        "reason": reason,
        "content": text,
    }
