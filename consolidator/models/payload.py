"""The sixteen event types and the typed payload of each: a discriminated union by event type.

Unknown keys are kept, `v` is the payload's schema version, and `occurred_at` is when it happened according to a foreign
log (ISO 8601, UTC).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from consolidator.errors import InvalidEvent


class EventType(StrEnum):
    """What happened."""

    SESSION_START = "SessionStart"
    SESSION_END = "SessionEnd"
    USER_MESSAGE = "UserMessage"
    ASSISTANT_RESPONSE = "AssistantResponse"
    TOOL_CALL = "ToolCall"
    TOOL_RESULT = "ToolResult"
    THINKING_START = "ThinkingStart"
    POLICY_DECISION = "PolicyDecision"
    TASK_START = "TaskStart"
    TASK_END = "TaskEnd"
    ERROR = "Error"
    SUBAGENT_SPAWN = "SubAgentSpawn"
    SUBAGENT_COMPLETE = "SubAgentComplete"
    APPROVAL_REQUESTED = "ApprovalRequested"
    APPROVAL_GRANTED = "ApprovalGranted"
    APPROVAL_DENIED = "ApprovalDenied"


class Payload(BaseModel):
    """The fields that every payload has."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    v: int = 1
    occurred_at: str | None = None


class SessionStart(Payload):
    """A session began."""

    model: str | None = None
    cwd: str | None = None
    system_prompt: str | None = None


class SessionEnd(Payload):
    """A session ended; nothing is deleted by it."""

    reason: str | None = None


class UserMessage(Payload):
    """A message of the user's side; `origin` tells what a person typed from what a harness or memory wrote for them."""

    text: str
    mode: Literal["message", "steer", "follow_up"] = "message"
    origin: Literal["user", "harness", "memory", "compaction"] = "user"
    speaker: str | None = None
    caption: str | None = None  # what the pictures of the message show: nothing that its sender said


class AssistantResponse(Payload):
    """What the model answered."""

    text: str
    message_id: str | None = None
    model: str | None = None


class ToolCall(Payload):
    """The model called a tool. Real logs may reuse a `call_id`: results pair with calls in order."""

    call_id: str
    tool: str
    arguments: Any = None
    message_id: str | None = None


class ToolResult(Payload):
    """What a tool answered; `reason` says why a result is no ordinary failure."""

    call_id: str
    tool: str | None = None
    status: Literal["ok", "error", "uncertain"] = "ok"
    reason: Literal["rejected", "aborted", "cascade", "timeout"] | None = None
    content: Any = None


class ThinkingStart(Payload):
    """The model was called; imported logs also carry the thinking's text."""

    message_id: str | None = None
    model: str | None = None
    text: str | None = None


class PolicyDecision(Payload):
    """A decision of the harness or its operator, from a closed list."""

    decision: Literal[
        "generation_resumed",
        "generation_replaced",
        "budget_stop",
        "compaction",
        "model_routed",
        "configuration_changed",
        "scratchpad_set",
        "call_started",
        "call_settled",
        "call_ended",  # a call whose result said that it goes on in the `background` has ended, and with which `status`
        "turn_interrupted",
        "turn_stopped",  # a person asked that what is under way ends, and nothing said before is answered any more
        "instructions_added",
        "command_run",
        "delivered",
        "item_recorded",  # an item of another framework that is no message, call or result
        "items_withdrawn",  # the framework gives those with after < seq <= upto to its model no more
        "fact_stated",  # memory was asked to remember a `statement`
        "fact_forgotten",  # memory was asked to forget a fact
        "fact_restored",  # a person took that back
        "memory_received",  # a person brought in what another installation believes
    ]


class TaskStart(Payload):
    """A task with an outcome began."""

    task_id: str
    goal: str | None = None


class TaskEnd(Payload):
    """A task ended; `abandoned` is one that was open when its session ended."""

    task_id: str
    outcome: Literal["success", "failure", "cancelled", "abandoned", "unknown"] = "unknown"
    reward: float | None = None
    note: str | None = None


class ErrorPayload(Payload):
    """Something failed outside a tool's result: a provider, the harness."""

    message: str


class SubAgentSpawn(Payload):
    """A sub-agent was started; `child` is the origin or id of its session."""

    child: str | None = None
    call_id: str | None = None
    goal: str | None = None


class SubAgentComplete(Payload):
    """A sub-agent finished."""

    child: str | None = None
    call_id: str | None = None
    status: Literal["ok", "error"] = "ok"


class Approval(Payload):
    """A person was asked to allow a call, or answered."""

    call_id: str | None = None
    tool: str | None = None
    arguments: Any = None
    reason: str | None = None
    question: str | None = None  # that the agent asked, in its words
    answer: str | None = None  # that the person chose


# Of each type of event.
PAYLOADS: Mapping[EventType, type[Payload]] = {
    EventType.SESSION_START: SessionStart, EventType.SESSION_END: SessionEnd, EventType.USER_MESSAGE: UserMessage,
    EventType.ASSISTANT_RESPONSE: AssistantResponse, EventType.TOOL_CALL: ToolCall, EventType.TOOL_RESULT: ToolResult,
    EventType.THINKING_START: ThinkingStart, EventType.POLICY_DECISION: PolicyDecision,
    EventType.TASK_START: TaskStart, EventType.TASK_END: TaskEnd, EventType.ERROR: ErrorPayload,
    EventType.SUBAGENT_SPAWN: SubAgentSpawn, EventType.SUBAGENT_COMPLETE: SubAgentComplete,
    EventType.APPROVAL_REQUESTED: Approval, EventType.APPROVAL_GRANTED: Approval, EventType.APPROVAL_DENIED: Approval,
}  # fmt: skip


def check_payload(event_type: EventType, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return `data` with its schema version `v`; raise InvalidEvent if it does not fit the event type."""
    try:
        _validate(event_type, data)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"]) or "payload"
        raise InvalidEvent(f"{event_type} does not fit: {location}: {first['msg']}") from error
    return {"v": 1, **data}


def _validate(event_type: EventType, data: Mapping[str, Any]) -> None:
    try:
        PAYLOADS[event_type].model_validate(data)
    except ValidationError as error:
        if all(problem["type"] != "string_unicode" for problem in error.errors(include_input=False)):
            raise
        # Logs that were cut in the middle of an emoji hold lone surrogates. They are kept; only pydantic rejects them.
        PAYLOADS[event_type].model_validate(_without_surrogates(data))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_without_surrogates(name): _without_surrogates(item) for name, item in value.items()}
    return [_without_surrogates(item) for item in value] if isinstance(value, list) else value
