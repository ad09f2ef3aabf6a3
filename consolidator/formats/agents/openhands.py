"""Read OpenHands' conversations: a folder of events, one JSON file each, which are read together.

A person's word is a message whose source is user and that no other agent sent (`sender`), without the texts that were
put beside it (`extended_content`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, Problem, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.content import answers_call, extract_text, split_message
from consolidator.formats.common.json_members import read_json, read_note
from consolidator.formats.common.log_files import find_files, list_json_files
from consolidator.formats.common.records import Conversation, RecordForm, Records, Statements, silent_kinds
from consolidator.models.payload import EventType

NAME = "openhands"
_FORM = RecordForm(NAME, kind=("kind",), silent=silent_kinds(NAME))
_EVENT = re.compile(r"event-(\d{1,12})(?:-.*)?\.json")
_MAX_FILE = 64 * 1024 * 1024  # bytes


def files(path: Path) -> Iterator[Path]:
    """Yield the last event of each conversation at or below a path: it is read with those before it."""
    yield from last_events(file for file in find_files(path, ".json") if file == path or recognises(file, b""))


def last_events(files: Iterable[Path]) -> Iterator[Path]:
    """Yield sorted files without the events of OpenHands that another one of their folder follows."""
    waiting: Path | None = None
    for file in files:
        is_event = recognises(file, b"")
        if waiting is not None and not (is_event and file.parent == waiting.parent):
            yield waiting
        waiting = file if is_event else None
        if not is_event:
            yield file
    if waiting is not None:
        yield waiting


def _number(file: Path) -> int:
    match = _EVENT.fullmatch(file.name)
    return int(match[1]) if match else -1


def recognises(path: Path, head: bytes) -> bool:
    """Check for an event's name, in a folder of events."""
    return path.parent.name == "events" and _EVENT.fullmatch(path.name) is not None


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read a conversation up to an event; the name of its folder is the conversation's."""
    folder = path.parent.parent if path.parent.name == "events" else path.parent
    workspace = drafts.object_of(read_note(folder / "base_state.json").get("workspace"))
    session: Conversation | None = None

    def draft(record: dict[str, Any]) -> Statements:
        nonlocal session
        session = session or Conversation(folder.name, workspace.get("working_dir"), record.get("timestamp"))
        yield session
        yield from _draft_event(record)

    yield from _FORM.read(_read_events(path), draft)


def _read_events(path: Path) -> Records:
    events = sorted(list_json_files(path.parent), key=lambda file: (_number(file), file))
    files = [file for file in events if 0 <= _number(file) <= _number(path)] or [path]
    for line, file in enumerate(files, start=1):
        try:
            event = read_json(file, _MAX_FILE)
        except OSError as error:
            event = Problem(str(error.strerror))
        if not isinstance(event, dict):
            event = Problem(f"{file.name}: {event.reason if isinstance(event, Problem) else 'not an event'}", line)
        yield line, event


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
