"""Read OpenHands' conversations: a folder of events, one JSON file each, of the newer form (`kind`) or the older one.

A person's word is a message whose source is user and that no other agent sent (`sender`), without the texts that were
put beside it (`extended_content`); in the older form an action `message` whose source is user.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, Problem, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.content import extract_text, split_message
from consolidator.formats.common.json_members import read_json, read_note
from consolidator.formats.common.jsonl import parse_head
from consolidator.formats.common.log_files import find_files
from consolidator.formats.common.records import Conversation, RecordForm, Statements, kinds
from consolidator.models.payload import EventType

NAME = "openhands"
_FORM = RecordForm(
    NAME,
    kind=("kind", "action", "observation"),
    silent=kinds("""
        SystemPromptEvent ConversationStateUpdateEvent CondensationRequest TokenEvent LLMCompletionLogEvent
        HookExecutionEvent StreamingDeltaEvent system agent_state_changed change_agent_state recall null
        """),
)
_EVENT = re.compile(r"(?:event-)?(\d{1,12})(?:-.*)?\.json")
_MAX_FILE = 64 * 1024 * 1024  # bytes


def files(path: Path) -> Iterator[Path]:
    """Yield the events at or below `path`, each conversation's in order of their numbers."""
    found = [file for file in find_files(path, ".json") if file == path or file.parent.name == "events"]
    yield from sorted(found, key=lambda file: (file.parent, _number(file), file))


def _number(file: Path) -> int:
    match = _EVENT.fullmatch(file.name)
    return int(match[1]) if match else -1


def recognises(path: Path, head: bytes) -> bool:
    """Check for an event with a source, by its name or fields."""
    if path.suffix != ".json" or _EVENT.fullmatch(path.name) is None or path.parent.name != "events":
        return False
    return (b'"source"' in head and any(field in head for field in (b'"kind"', b'"action"', b'"observation"'))) or any(
        "source" in line for line in parse_head(head)
    )


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one event; its folder's name is its conversation's."""
    folder = path.parent.parent if path.parent.name == "events" else path.parent
    event = read_json(path, _MAX_FILE)
    first = isinstance(event, dict) and _number(path) <= 0
    workspace = drafts.object_of(read_note(folder / "base_state.json").get("workspace"))
    session = Conversation(
        folder.name,
        cwd=workspace.get("working_dir"),
        time=event.get("timestamp") if first else None,
    )

    def draft(record: dict[str, Any]) -> Statements:
        yield session
        yield from _draft_new(record) if "kind" in record else _draft_old(record)

    yield from _FORM.read([(1, event if isinstance(event, (dict, Problem)) else Problem("not an event"))], draft)


def _draft_new(event: dict[str, Any]) -> Statements:
    kind, tool, call_id = event.get("kind"), event.get("tool_name"), event.get("tool_call_id")
    if kind == "MessageEvent":
        yield Skipped("MessageEvent")
        message = event.get("llm_message")
        content = message.get("content") if isinstance(message, dict) else message
        if event.get("source") == "user" and event.get("sender") is None:
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


def _draft_old(event: dict[str, Any]) -> Statements:
    action, observation = event.get("action"), event.get("observation")
    arguments, extras, metadata = (
        drafts.object_of(event.get(name)) for name in ("args", "extras", "tool_call_metadata")
    )
    call_id = metadata.get("tool_call_id") or event.get("cause" if observation else "id")
    tool = metadata.get("function_name") or action or observation
    if action == "message":
        yield Skipped("message")
        content = arguments.get("content") or event.get("message")
        yield from drafts.words(drafts.text_of(content)) if event.get("source") == "user" else drafts.answer(content)
    elif isinstance(action, str) and event.get("source") == "agent" and action not in _FORM.silent:
        yield from drafts.answer(arguments.get("thought"))
        yield drafts.call(call_id, tool, {name: value for name, value in arguments.items() if name != "thought"})
    elif isinstance(observation, str) and observation not in _FORM.silent:
        code = drafts.object_of(extras.get("metadata")).get("exit_code")
        yield drafts.result(call_id, tool, event.get("content"), failed=observation == "error" or None, exit_code=code)
