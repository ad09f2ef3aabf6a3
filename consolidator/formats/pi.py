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

from consolidator.formats.base import Item, ItemName, Problem
from consolidator.formats.common import drafts
from consolidator.formats.common.branches import find_branches
from consolidator.formats.common.content import extract_text, split_message
from consolidator.formats.common.jsonl import parse_head, read_objects
from consolidator.formats.common.log_files import find_files
from consolidator.formats.common.records import Conversation, RecordForm, Statements
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
    yield from _FORM.read(read_objects(path), _Session(path).draft)


class _Session:
    """Drafts the entries of one file; keeps the ids of its tree, not its entries."""

    def __init__(self, path: Path) -> None:
        self._header: dict[str, Any] = {}
        self._session_id = path.stem.rpartition("_")[2]
        self._is_openclaws = path.parent.name == "sessions" and "agents" in path.parts[-4:-2]
        self._branches, self._left = find_branches(*_read_tree(path))
        self._conversations: dict[str, Conversation] = {}  # by origin
        self._last_items: dict[str, ItemName] = {}  # by id of an entry of a forked tree: its, or one before

    def draft(self, line: dict[str, Any]) -> Statements:
        """Yield what an entry says."""
        kind = line.get("type")
        if not isinstance(kind, str):
            yield Problem("the line has no type")
        elif kind == "session":
            if not self._header:
                self._header = line
                self._session_id = str(line.get("id") or self._session_id)
                yield self._conversation(line, begins=True)
        elif kind == "message" and not isinstance(line.get("message"), dict):
            yield Problem("the message entry has no message")
        else:
            drafted = list(_draft_entry(line))
            if self._branches:
                before = self._last_items.get(str(line.get("parentId")))
                last = (f"{_make_key(line)}/{len(drafted) - 1}", None) if drafted else before
                if last is not None:
                    self._last_items[str(line.get("id"))] = last
            if drafted:
                yield self._conversation(line)
            for event_type, values in drafted:
                is_own = self._is_openclaws and event_type is EventType.USER_MESSAGE and _is_openclaws(values["text"])
                yield event_type, {**values, "origin": "harness"} if is_own else values

    def _conversation(self, line: Mapping[str, Any], *, begins: bool = False) -> Conversation:
        """Return the session of an entry, which is a fork where it stands on an abandoned branch."""
        branch, header = self._branches.get(str(line.get("id"))), self._header
        origin, parent, follows = self._session_id, None, None
        if branch:
            left = self._left[branch]
            origin, parent = f"{origin}/{branch}", f"{origin}/{left}" if left else origin
            follows = self._last_items.get(str(line.get("parentId")))
        elif isinstance(source := header.get("branchedFrom") or header.get("parentSession"), str) and source:
            parent = PureWindowsPath(source).name.removesuffix(".jsonl").rpartition("_")[2]  # <time>_<id>.jsonl
        return self._conversations.setdefault(
            origin,
            Conversation(
                origin,
                cwd=header.get("cwd"),
                time=line.get("timestamp"),
                model=header.get("modelId"),
                agent="openclaw" if self._is_openclaws else NAME,
                kind="root" if parent is None else "fork",
                parent=parent,
                follows=follows,
                is_abandoned=branch is not None,
                details={"provider": header.get("provider"), "thinking_level": header.get("thinkingLevel")},
                begins=begins,
            ),
        )


def _is_openclaws(text: str) -> bool:
    return bool(_OPENCLAWS_WORDS.match(text) or _OPENCLAWS_TIME.search(text))


def _read_tree(path: Path) -> tuple[dict[str, str | None], str | None]:
    """Return the parent of each entry, and the last entry; of a linear file as far as it is a tree."""
    parents: dict[str, str | None] = {}
    last: str | None = None
    for _, line in read_objects(path):
        if not isinstance(line, dict) or line.get("type") == "session":
            continue
        entry, parent = line.get("id"), line.get("parentId")
        if not isinstance(entry, str):
            break
        is_named = isinstance(parent, str) and parent != entry
        # A parent whose line was torn makes no branch of what stands before.
        parents[entry] = (str(parent) if parent in parents else last) if is_named else None
        last = entry
    return parents, last


def _make_key(line: Mapping[str, Any]) -> str:
    """Return the key of an entry, of its time and content."""
    content = {key: value for key, value in line.items() if key not in ("id", "parentId") and "KeptEntry" not in key}
    digest = hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=12).hexdigest()
    return f"{NAME}/{line.get('timestamp')}/{digest}"


_SILENT = frozenset({"message", "label", "session_info", "custom", "session"})
_FORM = RecordForm(NAME, silent=_SILENT, name_part=lambda line, part: (f"{_make_key(line)}/{part}", None))


def _draft_entry(line: Mapping[str, Any]) -> drafts.Drafts:
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


def _draft_message(message: Mapping[str, Any]) -> drafts.Drafts:
    role, text = message.get("role"), extract_text(message.get("content"))
    if role == "user":
        typed, other = split_message(message.get("content"))
        yield from drafts.words(typed, other, names=_WRAPPERS, only_before=True)
    elif role == "assistant":
        yield from _draft_answer(message)
    elif role == "toolResult":
        failed = message.get("isError") is True
        has_timed_out = failed and _TIMEOUT.search(text)
        reason = "timeout" if has_timed_out else "aborted" if failed and _ABORTION.search(text) else None
        yield drafts.result(message.get("toolCallId"), message.get("toolName"), text, failed=failed, reason=reason)
    elif role == "bashExecution":  # a person ran it with "!"
        fields = {key: message.get(key) for key in ("command", "output", "cancelled")}
        yield EventType.POLICY_DECISION, {"decision": "command_run", "exit_code": message.get("exitCode"), **fields}
    elif role in ("custom", "hookMessage"):
        yield EventType.USER_MESSAGE, {"text": text, "origin": "harness"}
    elif role in ("branchSummary", "compactionSummary"):
        yield EventType.USER_MESSAGE, {"text": extract_text(message.get("summary")), "origin": "compaction"}


def _draft_answer(message: Mapping[str, Any]) -> drafts.Drafts:
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


def _draft_block(block: Mapping[str, Any], model: Any) -> drafts.Drafts:
    kind = block.get("type")
    if kind == "text":
        yield from drafts.answer(block, model)
    elif kind == "thinking":
        yield EventType.THINKING_START, {"text": block.get("thinking"), "model": model}
    elif kind == "toolCall":
        yield drafts.call(block.get("id"), block.get("name"), block.get("arguments"))
