"""A redacted bundle has no field of which credentials were forgotten: all are redacted but those that are named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from consolidator.formats.bundle import _FIELDS, VERBATIM, BundleWriter
from consolidator.llm.redaction.redact import redact_json
from consolidator.models.event import Event
from consolidator.models.payload import EventType

SECRET = "ghp_" + "Zk3" * 12
NESTED = {"a": [SECRET, {"b": SECRET}], "password": "hunter2hunter2"}


def find_secret(line: str) -> set[str]:
    """Return the names of the values of a line in which the credential is."""
    values: Mapping[str, Any] = json.loads(line)
    kind = next(name for name in ("session", *_FIELDS, "seq") if name in values)
    shown = values if kind == "seq" else values[kind]
    return {name for name, value in shown.items() if SECRET in json.dumps(value) or "hunter2" in json.dumps(value)}


def test_every_field_of_every_line_is_redacted_but_those_that_are_named() -> None:
    assert {  # a name more is a decision: what is in it must not be able to hold a credential
        "session": {"id", "parent_id", "root_id", "chain"},
        "event": {"seq", "type", "principal"},
        "lineage": {"ranges"},
        "chunk": {"message_id", "delta"},
        "delivery": {"message_id"},
    } == VERBATIM
    writer, exact = BundleWriter("s", redact=redact_json), BundleWriter("s", redact=None)
    header = dict.fromkeys(("id", "parent_id", "root_id", "key", "agent", "peer", "project", "details", "new"), NESTED)
    assert find_secret(writer.session(header)) == {"id", "parent_id", "root_id"}
    assert find_secret(exact.session(header)) == set(header)
    for kind, fields in _FIELDS.items():
        for value in (SECRET, NESTED, [NESTED]):
            values = dict.fromkeys([*fields, "a_field_of_tomorrow"], value)
            assert find_secret(writer.record(kind, values)) == VERBATIM.get(kind, frozenset()), kind
            assert find_secret(exact.record(kind, values)) == set(values)
    at = datetime(2026, 3, 2, tzinfo=UTC)
    event = Event("s", 1, EventType.TOOL_RESULT, NESTED, at, task_id=SECRET, tool_name=SECRET, principal="tool")
    assert find_secret(writer.event(event)) == set()
    assert find_secret(exact.event(event)) == {"data", "task_id", "tool_name"}


def test_what_is_no_credential_stays_as_it_is() -> None:
    values = {"state": {"n": 1, "at": "2026-03-02T12:00:00+00:00"}, "cost": "0.000123456789", "turns": 3, "labels": {}}
    assert json.loads(BundleWriter("s", redact=redact_json).record("columns", values)) == {"columns": values}
