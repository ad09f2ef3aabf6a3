"""Read OpenHands' conversations: a folder of events, one JSON file each.

A person's word is a message whose source is user and that no other agent sent (`sender`), without the texts that were
put beside it (`extended_content`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, Problem, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.content import answers_call, extract_text, split_message
from consolidator.formats.common.json_members import read_json, read_note
from consolidator.formats.common.log_files import file_finder
from consolidator.formats.common.records import Conversation, RecordForm, Statements, silent_kinds
from consolidator.models.payload import EventType

NAME = "openhands"
_FORM = RecordForm(NAME, kind=("kind",), silent=silent_kinds(NAME))
_EVENT = re.compile(r"event-(\d{1,12})(?:-.*)?\.json")
_MAX_FILE = 64 * 1024 * 1024  # bytes


files = file_finder(
    ".json", keep=lambda file: recognises(file, b""), order=lambda file: (file.parent, _number(file), file)
)


def _number(file: Path) -> int:
    match = _EVENT.fullmatch(file.name)
    return int(match[1]) if match else -1


def recognises(path: Path, head: bytes) -> bool:
    """Check for an event's name, in a folder of events."""
    return path.parent.name == "events" and _EVENT.fullmatch(path.name) is not None


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one event; its folder's name is its conversation's."""
    folder = path.parent.parent if path.parent.name == "events" else path.parent
    event = read_json(path, _MAX_FILE)
    workspace = drafts.object_of(read_note(folder / "base_state.json").get("workspace"))
    time = event.get("timestamp") if isinstance(event, dict) and _number(path) <= 0 else None
    session = Conversation(folder.name, cwd=workspace.get("working_dir"), time=time)

    def draft(record: dict[str, Any]) -> Statements:
        yield session
        yield from _draft_event(record)

    yield from _FORM.read([(1, event if isinstance(event, (dict, Problem)) else Problem("not an event"))], draft)


def _draft_event(event: dict[str, Any]) -> Statements:
    kind, tool, call_id = event.get("kind"), event.get("tool_name"), event.get("tool_call_id")
    if kind == "MessageEvent":
        yield Skipped("MessageEvent")
        message = event.get("llm_message")
        content = message.get("content") if isinstance(message, dict) else message
        fields = drafts.object_of(message)
        is_users = fields.get("role", "user") == "user" and not answers_call(fields)
        if event.get("source") == "user" and event.get("sender") is None and is_users:
            typed, other = split_message(content)
            yield from drafts.words(typed, drafts.join(other, extract_text(event.get("extended_content"))))
        elif event.get("source") == "agent":
            yield from drafts.answer(content)
        else:
            yield from drafts.harness(content)
    elif kind == "ActionEvent":
        yield from drafts.thought(event.get("reasoning_content"))
        yield from drafts.answer(event.get("thought"))
        action = drafts.object_of(event.get("action"))
        arguments = {name: value for name, value in action.items() if name != "kind"}
        yield drafts.call(call_id, tool, arguments)
    elif kind == "ObservationEvent":
        value = event.get("observation")
        observation = value if isinstance(value, dict) else {"content": value}
        content = observation.get("content") or observation.get("output") or observation.get("error")
        failed = observation.get("is_error")
        code = observation.get("exit_code", drafts.object_of(observation.get("metadata")).get("exit_code"))
        yield drafts.result(call_id, tool, content, failed=failed if failed else None, exit_code=code)
    elif kind in ("UserRejectObservation", "AgentErrorEvent"):
        content = event.get("rejection_reason") or event.get("error")
        reason = "rejected" if kind == "UserRejectObservation" else None
        yield drafts.result(call_id, tool, content, failed=True, reason=reason)
    elif kind in ("Condensation", "CondensationSummaryEvent"):
        yield EventType.POLICY_DECISION, {"decision": "compaction", "summary": extract_text(event.get("summary"))}
    elif kind in ("PauseEvent", "InterruptEvent"):
        yield EventType.POLICY_DECISION, {"decision": "turn_interrupted"}
    elif kind in ("ConversationErrorEvent", "ErrorEvent"):
        yield EventType.ERROR, {"message": extract_text(event.get("detail") or event.get("message"))}
