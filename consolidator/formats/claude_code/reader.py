"""Read Claude Code's session logs: JSONL under ~/.claude/projects, one file per session.

Sub-agents have their own files, or (in older versions) lines marked `isSidechain`. Each line belongs to the session it
names. Event keys are the log's own uuids, so lines that a resumed or forked session repeats keep their keys. A line
that cannot be read becomes a `Problem`; the lines after it are still read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, ItemKeys, ItemName, Problem, Skipped, hash_content
from consolidator.formats.claude_code.line_events import DRAFTERS, SessionState
from consolidator.formats.claude_code.message_tree import MessageTree
from consolidator.formats.claude_code.user_text import EventDraft
from consolidator.formats.common.fields import occurred_at_field
from consolidator.formats.common.jsonl import parse_head, read_objects
from consolidator.formats.common.log_files import file_finder
from consolidator.formats.common.records import Conversation, RecordForm, Statements, silent_kinds
from consolidator.models.payload import EventType

NAME = "claude-code"
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
_SILENT = silent_kinds(NAME)
_MODEL_LOOKAHEAD_LINES = 40  # how far to search for the model before the first session is announced


# Sub-agents' after all the others.
files = file_finder(".jsonl", order=lambda file: (file.name.startswith("agent-"), file))


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
    reader = _ClaudeCodeReader(path)
    form = RecordForm(NAME, name_part=lambda _, part: reader.names[part])
    yield from form.read(read_objects(path), reader.draft)


class _ClaudeCodeReader:
    """Drafts the lines of one file; keeps a small state per session."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sessions: dict[str, SessionState] = {}
        self._current_id = path.stem  # for lines without a sessionId: the last one seen, at first the file's name
        self._first_id: str | None = None  # the first sessionId of the file
        self._conversation: Conversation | None = None  # the last one
        self.names: list[ItemName] = []  # of the events of the line that is drafted
        self._model = _find_first_model(path)
        self._tree = MessageTree(path)
        self._last_items: dict[str, ItemName] = {}  # by uuid of a line of a forked file: its last item, or one before

    def draft(self, line: dict[str, Any]) -> Statements:
        """Yield what a line says; a progress line what the sub-agent's line in it does, at the time of that."""
        inner = self._subagent_line(line) if line.get("type") == "progress" else None
        line, times = (line, {}) if inner is None else (inner, occurred_at_field(inner.get("timestamp")))
        kind, body = line.get("type"), line.get("message")
        if not isinstance(kind, str):
            yield Problem("the line has no type")
            return
        if kind in ("user", "assistant") and not isinstance(body, dict):
            yield Problem(f"the {kind} line has no message")
            return

        session = self._get_session(line)
        uuid = str(line.get("uuid"))
        if uuid in self._tree.repeated:
            yield Skipped("repeated message")
            return
        if isinstance(line.get("permissionMode"), str):
            session.permission_mode = line["permissionMode"]

        drafts = list(DRAFTERS[kind](line, session)) if kind in DRAFTERS else []
        before = self._last_items.get(str(line.get("parentUuid")))
        if before is not None:
            self._last_items[uuid] = before
        if not drafts:
            yield Skipped(_skipped_kind(line))
            return

        yield self._find_conversation(session, line)
        base, content = _make_key(line, session), _hash_words(line)
        self.names = [(f"{base}/{draft.part}", content) for draft in drafts]
        session.last_item = self.names[-1]
        if self._tree.branches and not line.get("isSidechain"):
            self._last_items[uuid] = session.last_item

        place = self._moved_to(line, session)
        for draft in drafts:
            if place is not None and draft.type is EventType.TOOL_CALL:
                draft.data["cwd"] = place
            yield draft.type, {**times, **_mark_correction(draft, session)}

    def _get_session(self, line: Mapping[str, Any]) -> SessionState:
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
            self._sessions[origin] = SessionState(origin, ItemKeys(f"{NAME}/{origin}"))
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

    def _moved_to(self, line: Mapping[str, Any], session: SessionState) -> str | None:
        """Return where a line's calls run, where the shell has left the folder in which the session began."""
        cwd = line.get("cwd")
        if not isinstance(cwd, str):
            return None
        session.began_in = session.began_in or cwd
        return cwd if cwd != session.began_in else None

    def _find_conversation(self, session: SessionState, line: Mapping[str, Any]) -> Conversation:
        """Return the session of a line, as the line has it where another one's came before."""
        if self._conversation is None or self._conversation.origin != session.origin:
            resumed = self._sessions.get(self._first_id or "")
            if session.origin.rpartition("/")[2] == line.get("uuid"):
                session.follows = self._last_items.get(str(line.get("parentUuid")))
            elif not session.started and resumed is not None and resumed is not session:
                session.follows = resumed.last_item
            session.started = True
            self._conversation = self._build_conversation(session, line)
        return self._conversation

    def _build_conversation(self, session: SessionState, line: Mapping[str, Any]) -> Conversation:
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
        return Conversation(
            origin,
            cwd=line.get("cwd"),
            time=line.get("timestamp"),
            model=self._model,
            version=line.get("version"),
            branch=line.get("gitBranch"),
            kind=kind,
            parent=parent,
            follows=session.follows if kind == "resume" or is_abandoned else None,
            is_abandoned=is_abandoned,
        )


def _mark_correction(draft: EventDraft, session: SessionState) -> dict[str, Any]:
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


def _make_key(line: Mapping[str, Any], session: SessionState) -> str:
    """Return the key of a line: its uuid; a fork's copy has the key of its original."""
    fork = line.get("forkedFrom")
    copied = fork.get("messageUuid") if isinstance(fork, Mapping) else None
    uuid = copied if isinstance(copied, str) else line.get("uuid")
    if isinstance(uuid, str) and uuid:
        return f"{NAME}/{uuid}"
    return session.keys.next_key(line["type"], line.get("timestamp"), line.get("message"), line.get("content"))


def _hash_words(line: Mapping[str, Any]) -> str:
    """Return a hash of what a line says and who says it; a copy in another session keeps both, under new ids."""
    words = {name: line[name] for name in _WORDS if line.get(name) is not None}
    body = line.get("message")
    if isinstance(body, Mapping):
        words["message"] = [body.get(name) for name in ("role", "model", "content")]
    return hash_content(words)


def _skipped_kind(line: Mapping[str, Any]) -> str:
    """Return the kind under which a line without events is counted."""
    kind = str(line["type"])
    if kind == "system":
        return f"system:{line.get('subtype')}"
    if kind == "attachment" and isinstance(line.get("attachment"), Mapping):
        return f"attachment:{line['attachment'].get('type')}"
    if kind in _SILENT:
        return kind
    return f"{kind}:empty" if kind in DRAFTERS else f"type:{kind}"
