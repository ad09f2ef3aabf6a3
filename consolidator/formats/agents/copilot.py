"""Read Copilot CLI's sessions: one events.jsonl a session, events of {type, data, id, parentId, timestamp}.

A person's word is the content of a user.message that names no other source: what skills, autopilot and other agents
send says so (`source`, `isAutopilotContinuation`, `agentId`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.content import extract_text
from consolidator.formats.common.jsonl import parse_head, read_objects
from consolidator.formats.common.log_files import file_finder
from consolidator.formats.common.records import Conversation, RecordForm, Statements, silent_kinds
from consolidator.models.payload import EventType

NAME = "copilot"
_EVENTS = "events.jsonl"
_FORM = RecordForm(NAME, silent=silent_kinds(NAME))
_EXIT = re.compile(r"\n?<(?:shell [^<>\n]{0,80} |command )?exited with exit code (-?\d{1,10})>\s*\Z")
files = file_finder(_EVENTS, keep=lambda file: file.name == _EVENTS)


def recognises(path: Path, head: bytes) -> bool:
    """Check the first lines for an event with data and a parent."""
    return any(
        isinstance(line.get("data"), dict) and "parentId" in line and "." in str(line.get("type"))
        for line in parse_head(head)
    )


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one session as a stream."""
    yield from _FORM.read(read_objects(path), _Session(path).draft)


def split_exit_code(text: str) -> tuple[str, int | None]:
    """Return a command's output without its last line that tells the exit code, and that code."""
    match = _EXIT.search(text)
    return (text, None) if match is None else (text[: match.start()], int(match[1]))


class _Session:
    """Drafts the events of one file; keeps the calls that were asked for."""

    def __init__(self, path: Path) -> None:
        self._session = Conversation(path.parent.name if path.name == _EVENTS else path.stem)
        self._tools: dict[str, str] = {}  # by id of a call
        self._model: Any = None

    def draft(self, event: dict[str, Any]) -> Statements:
        """Yield what an event says."""
        kind, data = drafts.text_of(event.get("type")), drafts.object_of(event.get("data"))
        agent_id = event.get("agentId")
        if kind == "session.start":
            context = drafts.object_of(data.get("context"))
            self._model = data.get("selectedModel")
            self._session = Conversation(
                extract_text(data.get("sessionId")) or self._session.origin,
                cwd=context.get("cwd"),
                time=data.get("startTime"),
                model=self._model,
                version=data.get("copilotVersion"),
                branch=context.get("branch"),
            )
        elif kind == "session.model_change":
            yield Skipped(kind)
            if self._model not in (None, data.get("newModel")):
                yield EventType.POLICY_DECISION, {"decision": "model_routed", "model": data.get("newModel")}
            self._model = data.get("newModel")

        origin = self._session.origin
        is_sub = isinstance(agent_id, str) and agent_id != ""
        yield (Conversation(f"{origin}/{agent_id}", self._session.cwd, parent=origin) if is_sub else (self._session))

        if kind == "user.message":
            yield Skipped(kind)
            is_anothers = data.get("source") not in (None, "user") or data.get("isAutopilotContinuation")
            is_anothers = is_anothers or agent_id or data.get("agentId") or data.get("parentToolCallId")
            yield from drafts.message(data.get("content"), is_persons=not is_anothers)
        elif kind.startswith(("assistant.", "tool.")):
            yield from self._draft_work(kind, data)
        elif kind == "session.error":
            yield EventType.ERROR, {"message": extract_text(data.get("message"))}
        elif kind == "abort":
            yield EventType.POLICY_DECISION, {"decision": "turn_interrupted", "reason": data.get("reason")}
        elif kind == "session.compaction_complete":
            yield EventType.POLICY_DECISION, {"decision": "compaction", "summary": data.get("summaryContent")}

    def _draft_work(self, kind: str, data: dict[str, Any]) -> Statements:
        if kind == "assistant.message":
            yield Skipped(kind)
            yield from drafts.thought(data.get("reasoningText"), data.get("model"))
            yield from drafts.answer(data.get("content"), data.get("model"))
            for request in drafts.objects_of(data.get("toolRequests")):
                yield self._call(request.get("toolCallId"), request.get("name"), request.get("arguments"))
        elif kind == "assistant.reasoning":
            yield Skipped(kind)
            yield from drafts.thought(data.get("content"))
        elif kind in ("tool.execution_start", "tool.user_requested"):
            yield Skipped(kind)
            if drafts.text_of(data.get("toolCallId")) not in self._tools:
                yield self._call(data.get("toolCallId"), data.get("toolName"), data.get("arguments"))
        elif kind == "tool.execution_complete":
            yield self._result(data)

    def _call(self, call_id: Any, tool: Any, arguments: Any) -> drafts.Draft:
        self._tools[drafts.text_of(call_id)] = drafts.text_of(tool)
        return drafts.call(call_id, tool, arguments)

    def _result(self, data: dict[str, Any]) -> drafts.Draft:
        result, error = data.get("result"), data.get("error")
        code = drafts.object_of(data.get("shellExecution")).get("exitCode")
        text = extract_text(result.get("content") if isinstance(result, dict) else result)
        text, exit_code = split_exit_code(text)
        message = error.get("message") if isinstance(error, dict) else error
        is_denied = drafts.object_of(error).get("code") in ("rejected", "denied")
        return drafts.result(
            data.get("toolCallId"),
            self._tools.get(drafts.text_of(data.get("toolCallId"))),
            "\n".join(part for part in (text, extract_text(message)) if part),
            failed=data.get("success") is False,
            reason="rejected" if is_denied else None,
            exit_code=exit_code if code is None else code,
        )
