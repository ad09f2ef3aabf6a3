"""The events of each line of Claude Code's log, and what is kept of a session while its lines are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from consolidator.formats.base import ItemKeys, ItemName, hash_content
from consolidator.formats.claude_code.tool_results import (
    NOTIFICATION,
    draft_answers,
    draft_asked_end,
    draft_denial,
    draft_notified_end,
    draft_result,
    find_task,
    is_user_denial,
)
from consolidator.formats.claude_code.user_text import (
    EventDraft,
    draft_decision,
    draft_message,
    draft_user_text,
    extract_command_line,
    is_from_harness,
)
from consolidator.formats.common.content import extract_text, is_media, split_message
from consolidator.formats.common.fields import occurred_at_field
from consolidator.models.payload import EventType

_SPAWN_TOOLS = ("Task", "Agent")


@dataclass(slots=True)
class QueuedPrompt:
    """A waiting message; `recorded` is true once it has become an event."""

    text: str
    timestamp: object
    recorded: bool = False


@dataclass(slots=True)
class PromptQueue:
    """The waiting messages of one session, and those just handed to the model."""

    waiting: list[QueuedPrompt] = field(default_factory=list)
    handed_over: list[str] = field(default_factory=list)

    def enqueue(self, text: str, timestamp: object) -> None:
        """Add a typed message or a notification."""
        self.waiting.append(QueuedPrompt(text.strip(), timestamp))

    def take(self, text: str | None = None) -> QueuedPrompt | None:
        """Take out the message that says `text`, else the next: people's messages go before notifications."""
        typed = (place for place, message in enumerate(self.waiting) if not message.text.startswith(NOTIFICATION))
        place = next(typed, 0 if self.waiting else None) if text is None else self._find(text)
        return None if place is None else self.waiting.pop(place)

    def hand_over(self, text: str | None) -> QueuedPrompt | None:
        """Take out the next (or the given) message, which the model is given; return it if it has no event yet."""
        message = self.take(text)
        if message is None or message.recorded:
            return None
        self.handed_over.append(message.text)
        return message

    def record(self, text: str, *, ends_waiting: bool) -> bool:
        """Record that a message appeared, as a line of its own or beside one; return whether it needs an event."""
        text = text.strip()
        if text in self.handed_over:
            self.handed_over.remove(text)
            return False
        place = self._find(text)
        if place is not None and ends_waiting:
            del self.waiting[place]
        elif place is not None:
            self.waiting[place].recorded = True
        return True

    def _find(self, text: str) -> int | None:
        return next((place for place, message in enumerate(self.waiting) if message.text == text.strip()), None)


@dataclass(slots=True)
class SessionState:
    """What is kept of one session while its lines are read."""

    origin: str
    keys: ItemKeys
    queue: PromptQueue = field(default_factory=PromptQueue)
    tools: dict[str, str] = field(default_factory=dict)  # open calls: call id -> tool
    arguments: dict[str, Any] = field(default_factory=dict)  # open calls: call id -> arguments, for a denial
    background_agents: dict[str, str] = field(default_factory=dict)  # running in the background: agent id -> call id
    background_calls: dict[str, str] = field(default_factory=dict)  # of the shell, likewise: task id -> call id
    hooked: set[str] = field(default_factory=set)  # ids of calls that a hook ran before
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


def _draft_user_line(line: Mapping[str, Any], session: SessionState) -> Iterator[EventDraft]:
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
            if session.queue.record(extract_command_line(text) or text, ends_waiting=True):
                yield from draft_user_text(part, text, line)
                yield from _draft_background_completion(part, text, session)
        else:
            is_typed = is_media(block) and not is_from_harness(line)
            yield draft_message(part, extract_text(block), "user" if is_typed else "harness")


def _draft_tool_result(
    part: str, block: Mapping[str, Any], line: Mapping[str, Any], session: SessionState, *, is_only: bool
) -> Iterator[EventDraft]:
    tool_use_result = line.get("toolUseResult")  # of one result: where a line has several, it tells nothing of a person
    call_id = str(block.get("tool_use_id") or "")
    tool, arguments = session.tools.pop(call_id, None), session.arguments.pop(call_id, None)
    result = draft_result(part, block, tool, tool_use_result)
    is_running = result.data["status"] == "ok"
    if is_running and (task := find_task(tool, str(result.data["content"]), tool_use_result if is_only else None)):
        result.data["background"] = task
        session.background_calls[task] = call_id
    yield result
    yield from draft_asked_end(part, tool, arguments, result, session.background_calls)
    is_hooked = call_id in session.hooked
    if is_only and is_user_denial(result, line, is_hooked=is_hooked) and not session.denial_recorded:
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


def _draft_subagent_complete(part: str, agent_id: Any, call_id: str, status: str, session: SessionState) -> EventDraft:
    child = f"{session.origin.partition('/')[0]}/agent-{agent_id}" if isinstance(agent_id, str) else None
    return EventDraft(
        part + "/complete", EventType.SUBAGENT_COMPLETE, {"child": child, "call_id": call_id, "status": status}
    )


def _draft_background_completion(part: str, text: str, session: SessionState) -> Iterator[EventDraft]:
    """Yield the completion of a background sub-agent or command, which a notification reports."""
    if not text.lstrip().startswith(NOTIFICATION):
        return
    yield from draft_notified_end(part, text, session.background_calls)
    agent_id = text.partition("<task-id>")[2].partition("</task-id>")[0].strip()
    if call_id := session.background_agents.pop(agent_id, None):
        status = "ok" if "<status>completed</status>" in text else "error"
        yield _draft_subagent_complete(part, agent_id, call_id, status, session)


def _draft_assistant_line(line: Mapping[str, Any], session: SessionState) -> Iterator[EventDraft]:
    session.queue.handed_over.clear()  # after an answer the same text is a new message
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


def _is_repeated_block(block: Mapping[str, Any], line: Mapping[str, Any], session: SessionState) -> bool:
    """Note a block of the message that is being read; return whether an earlier line of the message has it."""
    name = hash_content([block.get(key) for key in ("type", "id", "text", "thinking", "input", "content")])
    return session.blocks.setdefault(name, line.get("uuid")) != line.get("uuid")


def _draft_assistant_block(
    part: str, block: Mapping[str, Any], message_fields: Mapping[str, Any], session: SessionState
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


def _draft_system_line(line: Mapping[str, Any], session: SessionState) -> Iterator[EventDraft]:
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


def _draft_queue_operation(line: Mapping[str, Any], session: SessionState) -> Iterator[EventDraft]:
    operation, content = line.get("operation"), line.get("content")
    if operation == "enqueue" and isinstance(content, str):
        session.queue.enqueue(content, line.get("timestamp"))
        yield from draft_notified_end("0", content, session.background_calls)
    elif operation == "remove":
        queued = session.queue.hand_over(content if isinstance(content, str) else None)
        if queued is not None:
            yield from _draft_steering_message(queued.text, line, occurred_at_field(queued.timestamp))
    elif operation == "dequeue":
        session.queue.take()  # it starts a turn: its user line is the event
    elif operation == "popAll":
        session.queue.waiting.clear()  # the person took them back into the input line


def _draft_attachment(line: Mapping[str, Any], session: SessionState) -> Iterator[EventDraft]:
    attachment = line.get("attachment")
    if isinstance(attachment, Mapping) and attachment.get("type") == "queued_command":
        text, _ = split_message(attachment.get("prompt"))
        if session.queue.record(text, ends_waiting=False):
            yield from _draft_background_completion("0", text, session)
            if attachment.get("commandMode", "prompt") == "prompt" and not is_from_harness(attachment):
                yield from _draft_steering_message(text, line, {})


def _draft_steering_message(text: str, line: Mapping[str, Any], time_field: dict[str, str]) -> Iterator[EventDraft]:
    """Yield what a person typed while the agent worked; a notification is not a person's message."""
    for draft in draft_user_text("0", text, line):
        if draft.type is EventType.USER_MESSAGE and draft.data["origin"] == "user":
            yield EventDraft(draft.part, draft.type, {**draft.data, "mode": "steer", **time_field})


def _note_hook(line: Mapping[str, Any], session: SessionState) -> Iterator[EventDraft]:
    data = line.get("data")
    if isinstance(data, Mapping) and data.get("type") == "hook_progress":
        session.hooked.add(str(line.get("toolUseID")))
    return iter(())


DRAFTERS = {
    "user": _draft_user_line,
    "assistant": _draft_assistant_line,
    "system": _draft_system_line,
    "queue-operation": _draft_queue_operation,
    "attachment": _draft_attachment,
    "progress": _note_hook,
}
