"""Whether a fix that an agent was shown was applied, and whether the call then worked, is read from the log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from consolidator.memory.solutions.fix_outcome import MAX_CALLS, judge_fix
from consolidator.models.event import Event, NewEvent
from tests.support import call_and_result, user_message

NOW = datetime(2026, 3, 2, tzinfo=UTC)
FAILED = call_and_result("a", "Bash", {"command": "git push", "description": "Push"}, "no upstream", "error")
PUSH = {"kind": "call", "tool": "Bash", "arguments": {"command": "git push --set-upstream origin main"}}
INSTALL = {"kind": "step", "tool": "Bash", "arguments": {"command": "pip install foo"}}


def judge(fix: dict[str, Any], *later: NewEvent) -> str | None:
    """What came of a fix that was shown for the first call."""
    logged: Sequence[NewEvent] = [*FAILED, *later]
    events = [Event("s", seq, new.type, new.data, NOW) for seq, new in enumerate(logged, 1)]
    return judge_fix(events, "a", fix)


def bash(call_id: str, command: str, status: str = "ok") -> list[NewEvent]:
    """A shell call with its result."""
    return call_and_result(call_id, "Bash", {"command": command, "description": "x"}, "out", status)


def test_a_call_in_place_of_the_failed_one_worked_or_failed() -> None:
    assert judge(PUSH, *bash("b", "git status"), *bash("c", "git push  --set-upstream origin main")) == "worked"
    assert judge(PUSH, *bash("b", "git push --set-upstream origin main", "error")) == "failed"


def test_a_step_worked_if_the_failed_call_then_did() -> None:
    assert judge(INSTALL, *bash("b", "pip install foo"), *bash("c", "git push")) == "worked"
    assert judge(INSTALL, *bash("b", "pip install foo"), *bash("c", "git push", "error")) == "failed"
    assert judge(INSTALL, *bash("b", "pip install foo"), user_message("stop")) == "failed"


def test_a_log_may_name_the_shell_otherwise_than_the_hook() -> None:
    applied = call_and_result("b", "exec_command", {"cmd": "git push --set-upstream origin main"}, "out", "ok")
    assert judge(PUSH, *applied) == "worked"


def test_what_the_log_does_not_tell_yet_is_left_open() -> None:
    assert judge(PUSH) is None
    assert judge(PUSH, *bash("b", "ls")) is None
    assert judge(INSTALL, *bash("b", "pip install foo")) is None
    assert judge_fix([], "a", PUSH) is None


@pytest.mark.parametrize(
    "later", [[user_message("never mind")], [event for n in range(MAX_CALLS) for event in bash(f"c{n}", "ls")]]
)
def test_what_was_not_tried_in_time_was_not_tried(later: list[NewEvent]) -> None:
    assert judge(PUSH, *later) == "not_tried"
