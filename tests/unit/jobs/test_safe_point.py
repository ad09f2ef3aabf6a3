"""How far a session may be read tonight: never into the middle of a call or a task, unless it was abandoned."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from consolidator.jobs.consolidation.session_window import find_safe_point, find_window_end
from consolidator.models.event import Event, NewEvent
from consolidator.models.payload import EventType
from tests.conftest import NOON
from tests.support import assistant_response, call_and_result, tool_call, tool_result, user_message

QUIET, ABANDONED = timedelta(minutes=15), timedelta(hours=24)
TASK = [
    NewEvent(EventType.TASK_START, {"task_id": "t"}),
    user_message("do it"),
    NewEvent(EventType.TASK_END, {"task_id": "t"}),
]


def numbered(new: Sequence[NewEvent], first: int = 1) -> list[Event]:
    """Return events as the log has them, numbered from `first`."""
    return [Event("s", seq, event.type, event.data, NOON) for seq, event in enumerate(new, first)]


def safe_point_of(new: Sequence[NewEvent], *, idle: timedelta, ended: bool = False, first: int = 1) -> int:
    """Return the safe point of events after an idle time."""
    return find_safe_point(
        numbered(new, first), ended=ended, last=NOON, now=NOON + idle, quiet=QUIET, abandoned=ABANDONED
    )  # fmt: skip


def test_nothing_to_read_has_no_safe_point() -> None:
    assert safe_point_of([], idle=timedelta(days=3)) == 0


def test_a_quiet_session_may_be_read_to_its_end() -> None:
    assert safe_point_of([user_message("a"), assistant_response("b")], idle=QUIET) == 2


def test_a_session_at_work_may_not_be_read() -> None:
    assert safe_point_of([user_message("a"), assistant_response("b")], idle=QUIET - timedelta(seconds=1)) == 0


def test_a_closed_task_may_be_read_at_once() -> None:
    assert safe_point_of([*TASK, user_message("next")], idle=timedelta(0)) == 3
    assert safe_point_of([*TASK, *TASK, user_message("next")], idle=timedelta(0)) == 6


def test_an_ended_session_may_be_read_at_once_even_with_an_open_call() -> None:
    assert safe_point_of([user_message("a"), tool_call("c", "Bash", {})], idle=timedelta(0), ended=True) == 2


@pytest.mark.parametrize("idle", [QUIET, ABANDONED - timedelta(seconds=1)])
def test_a_quiet_session_is_read_up_to_its_open_call(idle: timedelta) -> None:
    assert safe_point_of([user_message("a"), tool_call("c", "Bash", {}), user_message("b")], idle=idle) == 1
    assert safe_point_of([tool_call("c", "Bash", {})], idle=idle) == 0


def test_a_call_nobody_answers_is_given_up_after_a_day() -> None:
    assert safe_point_of([user_message("a"), tool_call("c", "Bash", {}), user_message("b")], idle=ABANDONED) == 3


def test_an_open_call_within_a_closed_task_stops_before_it() -> None:
    new = [TASK[0], tool_call("c", "Bash", {}), TASK[2], user_message("next")]
    assert safe_point_of(new, idle=timedelta(0)) == 1


def test_results_pair_in_order_where_an_id_is_reused() -> None:
    twice = [tool_call("c", "Bash", {}), tool_call("c", "Bash", {}), tool_result("c", "first")]
    assert safe_point_of(twice, idle=QUIET) == 1
    assert safe_point_of([*twice, tool_result("c", "second")], idle=QUIET) == 4
    assert safe_point_of([*call_and_result("c", "Bash", {}), tool_call("c", "Bash", {})], idle=QUIET) == 2


def test_a_result_without_its_call_stops_nothing() -> None:
    assert safe_point_of([tool_result("gone", "late"), user_message("a")], idle=QUIET, first=41) == 42


def test_the_middle_of_two_open_calls_is_before_the_first() -> None:
    new = [user_message("a"), tool_call("c", "Bash", {}), tool_call("d", "Bash", {}), tool_result("d", "ok")]
    assert safe_point_of(new, idle=QUIET) == 1


def test_a_window_is_cut_between_calls() -> None:
    assert (
        find_window_end(
            numbered([user_message("a"), *call_and_result("c", "Bash", {}), tool_call("d", "Bash", {})], 11)
        )
        == 13
    )


def test_a_window_of_one_open_call_is_cut_at_its_end() -> None:
    assert find_window_end(numbered([tool_call("d", "Bash", {}), user_message("a"), user_message("b")], 11)) == 13
