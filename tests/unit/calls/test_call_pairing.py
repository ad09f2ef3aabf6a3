"""Folds may share the pairing of a session's calls, though not every call is a step of its work."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from consolidator.memory.calls.call_pairing import CallPairer
from consolidator.memory.lessons.trace import Trace, TraceFold
from consolidator.memory.procedures.digest import Digest
from consolidator.models.event import Event
from consolidator.models.payload import EventType

START = datetime(2026, 5, 4, tzinfo=UTC)


def make_call(seq: int, tool: str, **more: Any) -> list[Event]:
    call = {"call_id": f"c{seq}", "tool": tool, "arguments": {"name": "x"}, **more}
    result = {"call_id": f"c{seq}", "content": "done"}
    return [
        Event("s", number, kind, data, START + timedelta(seconds=number))
        for number, kind, data in ((seq, EventType.TOOL_CALL, call), (seq + 1, EventType.TOOL_RESULT, result))
    ]


def test_an_event_that_two_folds_feed_is_paired_once() -> None:
    pairer = CallPairer()
    call, result = make_call(1, "get")

    assert [pairer.feed(call), pairer.feed(call)] == [None, None]
    assert len(pairer.pending) == 1
    assert pairer.feed(result) is pairer.feed(result) is not None


def test_a_call_that_keeps_the_books_is_traced_but_is_no_step() -> None:
    events = [*make_call(1, "get"), *make_call(3, "plan", builtin=True), *make_call(5, "put")]
    digest = Digest(str, b"salt")
    trace = TraceFold(str, pairer=digest.pairer)

    for event in events:
        digest.feed(event)
        trace.feed(event)

    assert digest.completed_calls == digest.pairer.count == 2
    assert [call.name for call in Trace.unpack("s", "s", "", trace.pack()).calls] == ["get", "plan", "put"]


def test_a_call_that_keeps_the_books_and_waits_leaves_no_step_open() -> None:
    digest = Digest(str, b"salt")

    for event in [*make_call(1, "get"), make_call(3, "plan", builtin=True)[0]]:
        digest.feed(event)

    assert digest.since_last_call == ""
    assert CallPairer.from_json(digest.pairer.to_json()).pending[0]["is_step"] is False
