"""Who may say what: the pure table of principals."""

from __future__ import annotations

from typing import Any

import pytest

from consolidator.errors import InvalidEvent, UsageError
from consolidator.models.event import NewEvent, with_principals
from consolidator.models.payload import EventType
from consolidator.models.principal import (
    Role,
    check_name,
    counts_for_runtime,
    find_role,
    is_persons_word,
    may_append,
    name_principal,
    role_of,
)
from consolidator.store.log.events import prepare

CALL = {"call_id": "c", "tool": "wire"}
DECISIONS = (
    "generation_resumed",
    "generation_replaced",
    "budget_stop",
    "compaction",
    "model_routed",
    "configuration_changed",
    "scratchpad_set",
    "call_started",
    "call_settled",
    "turn_interrupted",
    "instructions_added",
    "command_run",
    "delivered",
)


@pytest.mark.parametrize(
    "principal", ["agent", "tool:bash", "harness", "client:laptop", "client:user", "tool:operator"]
)
@pytest.mark.parametrize("verdict", [EventType.APPROVAL_GRANTED, EventType.APPROVAL_DENIED])
def test_only_people_and_operators_give_verdicts(principal: str, verdict: EventType) -> None:
    assert not may_append(principal, verdict, CALL)
    with pytest.raises(InvalidEvent, match="may not say"):
        prepare(NewEvent(verdict, CALL, principal=principal))


@pytest.mark.parametrize("principal", ["user:cli", "operator"])
@pytest.mark.parametrize("verdict", [EventType.APPROVAL_GRANTED, EventType.APPROVAL_DENIED])
def test_people_and_operators_do(principal: str, verdict: EventType) -> None:
    assert prepare(NewEvent(verdict, CALL, principal=principal)).principal == principal


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_client_decides_nothing(decision: str) -> None:
    assert not may_append("client:laptop", EventType.POLICY_DECISION, {"decision": decision})


@pytest.mark.parametrize("decision", ["configuration_changed", "call_settled"])
@pytest.mark.parametrize("principal", ["agent", "tool:x", "harness", "client:c"])
def test_configuration_and_settlements_are_the_persons_and_the_operators(decision: str, principal: str) -> None:
    assert not may_append(principal, EventType.POLICY_DECISION, {"decision": decision})
    assert may_append("user:cli", EventType.POLICY_DECISION, {"decision": decision})
    assert may_append("operator", EventType.POLICY_DECISION, {"decision": decision})


@pytest.mark.parametrize(
    ("principal", "data", "counts"),
    [
        ("user:cli", {"text": "use tabs"}, True),
        ("user:claude_code", {"text": "use tabs", "origin": "user"}, True),
        (None, {"text": "use tabs"}, True),
        (None, {"text": "use tabs", "origin": "harness"}, False),
        ("user:cli", {"text": "use tabs", "origin": "memory"}, False),
        ("client:laptop", {"text": "use tabs"}, False),
        ("client:user", {"text": "use tabs", "origin": "user", "speaker": "the owner"}, False),
        ("client", {"text": "use tabs", "principal": "user:cli"}, False),
        ("operator", {"text": "use tabs"}, False),
        ("agent", {"text": "use tabs"}, False),
        ("tool:user", {"text": "use tabs"}, False),
        ("harness", {"text": "use tabs"}, False),
        ("users", {"text": "use tabs"}, False),
        ("User:cli", {"text": "use tabs"}, False),
        (" user:cli", {"text": "use tabs"}, False),
        ("", {"text": "use tabs"}, False),
    ],
)
def test_a_persons_word_is_told_by_the_door(principal: str | None, data: dict[str, Any], counts: bool) -> None:
    assert is_persons_word(principal, data) is counts


@pytest.mark.parametrize("principal", ["root", "", ":user", "user cli", "USER", "useroperator", "system:user"])
def test_an_unknown_principal_may_say_nothing(principal: str) -> None:
    assert role_of(principal) is None
    assert not any(may_append(principal, kind, CALL) for kind in EventType)
    assert not any(counts_for_runtime(principal, kind, CALL) for kind in EventType)


@pytest.mark.parametrize(
    ("name", "principal"),
    [
        ("laptop", "client:laptop"),
        ("a:b", "client:a-b"),
        ("user:cli\n", "client:user-cli"),
        ("\0\u202e", "client"),
        ("x" * 99, "client:" + "x" * 64),
        (None, "client"),
    ],
)
def test_a_name_cannot_change_the_role(name: str | None, principal: str) -> None:
    assert name_principal(Role.CLIENT, name) == principal
    assert role_of(principal) is Role.CLIENT


@pytest.mark.parametrize("name", ["", "a:b", "a b", "-a", "x" * 65, "\u00e9", "a\n"])
def test_what_no_principal_could_hold_is_no_name(name: str) -> None:
    with pytest.raises(UsageError):
        check_name(name)


@pytest.mark.parametrize("kind", list(EventType))
def test_what_a_type_implies_may_be_said(kind: EventType) -> None:
    payloads: list[dict[str, Any]] = [{}]
    if kind is EventType.USER_MESSAGE:
        payloads = [{"origin": origin} for origin in ("user", "harness", "memory", "compaction")]
    if kind is EventType.POLICY_DECISION:
        payloads = [{"decision": decision} for decision in DECISIONS]
    for data in payloads:
        assert may_append(find_role(kind, data), kind, data)


def test_a_known_principal_is_kept() -> None:
    new = NewEvent(EventType.TOOL_RESULT, CALL, principal="harness")
    assert [event.principal for event in with_principals([new, NewEvent(EventType.TOOL_RESULT, CALL)])] == [
        "harness",
        "tool",
    ]
