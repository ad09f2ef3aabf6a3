"""The session summary lists what happened, stays small, holds no secret, and can be folded in any number of parts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from consolidator.memory.summary import SummaryFold, render_summary
from consolidator.models.event import Event
from consolidator.models.payload import EventType as Kind

UNHURRIED = settings(deadline=None)  # the machine may be busy
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def create_events(*entries: tuple[Kind, dict[str, Any]]) -> list[Event]:
    return [Event("s", seq, kind, data, START + timedelta(minutes=seq)) for seq, (kind, data) in enumerate(entries, 1)]


def fold_summary(events: list[Event]) -> SummaryFold:
    fold = SummaryFold()
    for event in events:
        fold.feed(event)
    return fold


def tool_call(number: int, tool: str = "Bash", **arguments: Any) -> tuple[Kind, dict[str, Any]]:
    return Kind.TOOL_CALL, {"call_id": str(number), "tool": tool, "arguments": arguments}


def tool_result(number: int, content: str = "", **more: Any) -> tuple[Kind, dict[str, Any]]:
    return Kind.TOOL_RESULT, {"call_id": str(number), "content": content, **more}


DAY_EVENTS = create_events(
    (Kind.USER_MESSAGE, {"text": "push it"}),
    (Kind.USER_MESSAGE, {"text": "reminder", "origin": "harness"}),
    tool_call(1, command="git push"),
    tool_result(1, "Exit code 128\nfatal: no upstream branch", status="error"),
    tool_call(2, command="git push"),
    tool_result(2, "Exit code 128\nfatal: no upstream branch", status="error"),
    tool_call(3, command="git push --force"),
    tool_result(3, "The user doesn't want to proceed", status="error", reason="rejected"),
    (Kind.APPROVAL_DENIED, {"call_id": "3", "tool": "Bash"}),
    tool_call(4, "Read", file_path="a.py"),
    tool_result(4, "text"),
    (Kind.SUBAGENT_SPAWN, {"child": "x", "goal": "find the tests"}),
    (Kind.SUBAGENT_COMPLETE, {"child": "x", "status": "ok"}),
)


def test_the_summary_lists_what_happened() -> None:
    """A11."""
    assert render_summary(fold_summary(DAY_EVENTS).to_json()) == (
        "Session so far: 1 message from the user, 2026-03-01 09:01 to 2026-03-01 09:13 UTC.\n"
        "Tools used: Bash 3x, Read.\n"
        "Errors met (2):\n"
        "- Bash: fatal: no upstream branch (2 times)\n"
        "Approvals: denied Bash git push.\n"
        "Sub-agents (1):\n"
        "- find the tests (ok)"
    )


def test_a_session_without_events_has_a_summary() -> None:
    assert render_summary(SummaryFold().to_json()) == "Session so far: 0 messages from the user, nothing yet."


def test_a_rejected_call_is_no_error() -> None:
    assert fold_summary(DAY_EVENTS).error_count == 2


def test_no_secret_is_in_the_state() -> None:
    events = create_events(
        tool_call(1, command="curl -H 'Authorization: Bearer abcdefghij0123456789' x"),
        tool_result(1, "error: token=q8Zk2LmP9xWv4RtY refused", status="error"),
        (Kind.SUBAGENT_SPAWN, {"goal": "use password=hunter2x9"}),
    )
    state = json.dumps(fold_summary(events).to_json())
    assert not any(secret in state for secret in ("abcdefghij0123456789", "q8Zk2LmP9xWv4RtY", "hunter2x9"))


def test_the_state_and_the_text_stay_small() -> None:
    entries: list[tuple[Kind, dict[str, Any]]] = []
    for number in range(500):
        entries += [
            tool_call(number, f"tool{number}"),
            tool_result(number, f"error: {chr(97 + number % 26) * 500} {number}", status="error"),
        ]
        entries += [(Kind.APPROVAL_GRANTED, {"tool": f"tool{number}"}), (Kind.SUBAGENT_SPAWN, {"goal": "g" * 9000})]
        entries.append(tool_call(-number - 1, "never answered"))
    fold = fold_summary(create_events(*entries))
    assert len(json.dumps(fold.to_json())) < 40_000
    assert len(render_summary(fold.to_json())) < 5_000
    assert sum(fold.tools.values()) == 1000


@UNHURRIED
@given(st.sets(st.integers(1, len(DAY_EVENTS))))
def test_however_the_log_is_cut_the_summary_is_the_same(cuts: set[int]) -> None:
    fold = SummaryFold()
    for event in DAY_EVENTS:
        if event.seq in cuts:
            fold = SummaryFold.from_json(json.loads(json.dumps(fold.to_json())))
        fold.feed(event)
    assert fold.to_json() == fold_summary(DAY_EVENTS).to_json()
