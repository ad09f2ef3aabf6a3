"""Principals: who says an event. Set by the door that appends, never read from a payload; a pure table of their rights.

A principal is written `role` or `role:name`. The name tells the surface (`user:chat`), the import format
(`user:claude_code`), the tool (`tool:bash`) or the credential (`client:laptop`); rights depend on the role alone.
Events from before principals have none (null); for them the rules of that time hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

from consolidator.errors import InvalidEvent, UsageError
from consolidator.models.payload import EventType

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")


class Role(StrEnum):
    """What a principal is; its rights follow from it."""

    USER = "user"  # a person, by a surface that a person uses
    OPERATOR = "operator"  # who configures the agent
    AGENT = "agent"  # the model
    TOOL = "tool"
    HARNESS = "harness"  # what drives the model: this runtime, or another one whose log was imported
    CLIENT = "client"  # another program that records what its agent did, by a credential


_ROLES = {role.value: role for role in Role}
_DIALOGUE = frozenset({EventType.ASSISTANT_RESPONSE, EventType.TOOL_CALL, EventType.THINKING_START})
_BOUNDS = frozenset({EventType.SESSION_START, EventType.SESSION_END})
_TASKS = frozenset({EventType.TASK_START, EventType.TASK_END})
_SUBAGENTS = frozenset({EventType.SUBAGENT_SPAWN, EventType.SUBAGENT_COMPLETE})
_VERDICTS = frozenset({EventType.APPROVAL_GRANTED, EventType.APPROVAL_DENIED})
_OWNERS_DECISIONS = frozenset(
    {"configuration_changed", "call_settled", "turn_stopped", "fact_restored", "memory_received"}
)

# Which types each role may append. Messages and decisions have rules of their own below.
_TYPES: Mapping[Role, frozenset[EventType]] = {
    Role.USER: _BOUNDS | _TASKS | _VERDICTS | {EventType.USER_MESSAGE, EventType.POLICY_DECISION},
    Role.OPERATOR: _BOUNDS | _TASKS | _VERDICTS | {EventType.USER_MESSAGE, EventType.POLICY_DECISION},
    Role.AGENT: _DIALOGUE | _TASKS | _SUBAGENTS | {EventType.POLICY_DECISION},
    Role.TOOL: frozenset({EventType.TOOL_RESULT, EventType.SUBAGENT_COMPLETE}),
    Role.HARNESS: frozenset(EventType) - _VERDICTS,
    Role.CLIENT: _DIALOGUE
    | _BOUNDS
    | _TASKS
    | _SUBAGENTS
    | {EventType.USER_MESSAGE, EventType.TOOL_RESULT, EventType.ERROR},
}
_MEMORY_DECISIONS = frozenset({"fact_stated", "fact_forgotten"})  # what memory is asked to remember or forget
_PERSONS_DECISIONS = _OWNERS_DECISIONS | _MEMORY_DECISIONS | {"scratchpad_set", "instructions_added", "command_run"}
_AGENTS_DECISIONS = _MEMORY_DECISIONS | {"scratchpad_set"}


@lru_cache(maxsize=1024)
def name_principal(role: Role, name: str | None = None) -> str:
    """Return a principal as the log holds it; characters that no name has become `-`."""
    cleaned = _OTHER_CHARACTERS.sub("-", name or "").strip("-._")[:64]
    return f"{role}:{cleaned}" if cleaned else role.value


def check_name(name: str) -> str:
    """Return the name of a credential or surface. Raises UsageError where a principal could not hold it."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is no name: at most 64 letters, digits, `.`, `_` and `-`")
    return name


def role_of(principal: str | None) -> Role | None:
    """Return a principal's role; None if there is no principal, or none that this version knows."""
    role = (principal or "").partition(":")[0]
    return _ROLES.get(role)


def may_append(principal: str, event_type: EventType, data: Mapping[str, Any]) -> bool:
    """Tell whether a principal may append an event of this type with this payload."""
    role = role_of(principal)
    if role is None or event_type not in _TYPES[role]:
        return False
    if event_type is EventType.USER_MESSAGE:
        # A client's record of a message is kept as it came; what it is worth is for `is_persons_word` to say.
        is_typed = data.get("origin", "user") == "user"
        return role is Role.CLIENT or (role is Role.USER) == is_typed
    if event_type is EventType.POLICY_DECISION:
        decision = data.get("decision")
        if role in (Role.USER, Role.OPERATOR):
            return decision in _PERSONS_DECISIONS
        return (
            decision in _AGENTS_DECISIONS
            if role is Role.AGENT
            else decision not in _OWNERS_DECISIONS | _MEMORY_DECISIONS
        )
    return True


def check_may_append(principal: str, event_type: EventType, data: Mapping[str, Any]) -> None:
    """Raise InvalidEvent if a principal may not append an event."""
    if may_append(principal, event_type, data):
        return
    what = f"{event_type}"
    if event_type is EventType.POLICY_DECISION:
        what += f" {data.get('decision')!r}"
    elif event_type is EventType.USER_MESSAGE:
        what += f" of origin {data.get('origin', 'user')!r}"
    raise InvalidEvent(f"{principal} may not say {what}")


def is_persons_word(principal: str | None, data: Mapping[str, Any]) -> bool:
    """Tell whether a message is what a person said: by its door and its payload; without a principal by its payload."""
    return data.get("origin", "user") == "user" and (principal is None or role_of(principal) is Role.USER)


def counts_for_runtime(principal: str | None, event_type: EventType, data: Mapping[str, Any]) -> bool:
    """Tell whether the runtime may act on an event: what a client records is no part of what it drives.

    Events from before principals count.
    """
    if principal is None:
        return True
    return role_of(principal) is not Role.CLIENT and may_append(principal, event_type, data)


def find_role(event_type: EventType, data: Mapping[str, Any]) -> Role:
    """Return who says an event of this type in a log whose own door we trust: the runtime's, or an imported one's."""
    if event_type is EventType.USER_MESSAGE:
        return Role.USER if data.get("origin", "user") == "user" else Role.HARNESS
    if event_type in _VERDICTS:
        return Role.USER
    if event_type in _DIALOGUE or event_type is EventType.SUBAGENT_SPAWN:
        return Role.AGENT
    if event_type is EventType.TOOL_RESULT:
        return Role.TOOL
    if event_type is EventType.POLICY_DECISION and data.get("decision") in _OWNERS_DECISIONS:
        return Role.OPERATOR
    return Role.HARNESS
