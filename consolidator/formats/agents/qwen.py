"""Read Qwen Code's chats: JSONL of user, assistant, tool_result and system records, with Google's messages in them.

A person's word is a record of the type user without a subtype, whose provenance (if it has one) is real_user: the text
shown (`systemPayload.displayText`), else the first part of the message; what hooks and files added stands after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from consolidator.formats.agents.gemini import draft_parts, draft_response, split_prompt
from consolidator.formats.base import Item, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.content import extract_text
from consolidator.formats.common.jsonl import parse_head, read_objects
from consolidator.formats.common.log_files import file_finder
from consolidator.formats.common.records import Conversation, RecordForm, Statements
from consolidator.models.payload import EventType

NAME = "qwen"
_FORM = RecordForm(NAME, id=("uuid",))
_TYPES = ("user", "assistant", "tool_result", "system")
_MID_TURN = "mid_turn_user_message"  # typed while the agent worked
files = file_finder(".jsonl", keep=lambda file: "chats" in file.parts[:-1])


def recognises(path: Path, head: bytes) -> bool:
    """Check the first lines for records with a session and a message of parts, or a system record of Qwen's."""
    return any(
        line.get("type") in _TYPES
        and isinstance(line.get("sessionId"), str)
        and (
            (isinstance(line.get("message"), dict) and "parts" in line["message"])
            or (line["type"] == "system" and "systemPayload" in line)
        )
        for line in parse_head(head)
    )


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one chat as a stream."""
    yield from _FORM.read(read_objects(path), _Chat(path).draft)


class _Chat:
    """Drafts the records of one file; keeps what the first one says of the session."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sessions: dict[str, Conversation] = {}

    def draft(self, record: dict[str, Any]) -> Statements:
        """Yield what a record says."""
        kind, subtype = record.get("type"), record.get("subtype")
        parts = drafts.object_of(record.get("message")).get("parts")
        if kind not in _TYPES:
            return
        yield Skipped(f"{kind}:{subtype}" if isinstance(subtype, str) else str(kind))
        yield self._conversation(record)
        if kind == "user":
            yield from self._draft_user(record, subtype, parts)
        elif kind == "assistant":
            usage = record.get("usageMetadata")
            for event_type, values in draft_parts(parts, record.get("model")):
                yield event_type, {**values, "usage": usage} if event_type is EventType.ASSISTANT_RESPONSE else values
        elif kind == "tool_result":
            result = drafts.object_of(record.get("toolCallResult"))
            for part in (part for part in drafts.objects_of(parts) if "functionResponse" in part):
                yield draft_response(part, status=result.get("status"), call_id=result.get("callId"))
        elif subtype == "chat_compression":
            yield EventType.POLICY_DECISION, {"decision": "compaction"}

    def _draft_user(self, record: dict[str, Any], subtype: Any, parts: Any) -> drafts.Drafts:
        is_persons = subtype in (None, _MID_TURN) and record.get("provenance") in (None, "real_user")
        is_persons = is_persons and not record.get("isSidechain") and not record.get("agentId")
        is_persons = is_persons and drafts.object_of(record.get("message")).get("role", "user") == "user"
        typed, other = split_prompt(parts)
        shown = drafts.object_of(record.get("systemPayload")).get("displayText")
        if isinstance(shown, str):
            typed, other = shown, drafts.join(typed, other)
        if not is_persons:
            yield from drafts.harness(drafts.join(typed, other))
            return
        for event_type, values in drafts.words(typed, other):
            steers = subtype == _MID_TURN and "origin" not in values
            yield event_type, {**values, "mode": "steer"} if steers else values

    def _conversation(self, record: dict[str, Any]) -> Conversation:
        origin = extract_text(record.get("sessionId")) or self._path.stem
        agent_id = record.get("agentId")
        is_sub = record.get("isSidechain") is True and isinstance(agent_id, str)
        name = f"{origin}/{agent_id}" if is_sub else origin
        source = drafts.object_of(record.get("forkedFrom")).get("sessionId")
        is_fork = isinstance(source, str) and source != origin and not is_sub
        first = self._sessions.setdefault(
            name,
            Conversation(
                name,
                cwd=record.get("cwd"),
                time=record.get("timestamp"),
                model=record.get("model"),
                version=record.get("version"),
                branch=record.get("gitBranch"),
                kind="fork" if is_fork else None,
                parent=origin if is_sub else source if is_fork else None,
            ),
        )
        return replace(first, copied_from=source) if is_fork else first
