"""What a person says while an answer is on its way stands after that answer in the next context."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from consolidator.context.messages import conversation, rendered
from consolidator.models.event import Event
from consolidator.models.payload import EventType

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
U, T, A = EventType.USER_MESSAGE, EventType.THINKING_START, EventType.ASSISTANT_RESPONSE
C, R = EventType.TOOL_CALL, EventType.TOOL_RESULT


def told(*log: tuple[EventType, dict[str, Any]]) -> list[tuple[str, Any]]:
    """Return the messages of a log as roles and texts."""
    events = [Event("s", seq, kind, data, NOON) for seq, (kind, data) in enumerate(log, 1)]
    return [(one["role"], one["content"]) for one in rendered(conversation(events).turns, "openai")]


def test_a_steer_comes_after_the_answer_that_it_cut_short() -> None:
    found = told(
        (U, {"text": "tell me all"}), (T, {"message_id": "m1"}), (U, {"text": "no, say blue", "mode": "steer"}),
        (A, {"text": "word0 word1", "message_id": "m1", "started_seq": 2}),
    )  # fmt: skip
    assert found == [("user", "tell me all"), ("assistant", "word0 word1"), ("user", "no, say blue")]


def test_what_came_before_the_model_was_asked_stays_before_its_answer() -> None:
    found = told(
        (U, {"text": "one"}), (U, {"text": "two"}), (T, {"message_id": "m1"}),
        (A, {"text": "both", "message_id": "m1", "started_seq": 3}), (U, {"text": "three"}),
    )  # fmt: skip
    assert found == [("user", "one\n\ntwo"), ("assistant", "both"), ("user", "three")]


def test_calls_keep_their_results_before_what_was_said_meanwhile() -> None:
    found = told(
        (U, {"text": "look"}), (T, {"message_id": "m1"}), (U, {"text": "hurry"}),
        (A, {"text": "", "message_id": "m1", "started_seq": 2}),
        (C, {"call_id": "c", "tool": "look", "arguments": {}, "message_id": "m1"}),
        (R, {"call_id": "c", "content": "seen", "status": "ok"}),
    )  # fmt: skip
    assert [role for role, _ in found] == ["user", "assistant", "tool", "user"]
    assert found[-1][1] == "hurry"


def test_what_came_between_the_context_and_the_question_comes_after_the_answer_too() -> None:
    found = told(
        (U, {"text": "one"}), (U, {"text": "two", "mode": "steer"}), (T, {"message_id": "m1", "upto_seq": 1}),
        (A, {"text": "first", "message_id": "m1", "started_seq": 3, "upto_seq": 1}),
    )  # fmt: skip
    assert found == [("user", "one"), ("assistant", "first"), ("user", "two")]


def test_a_follow_up_that_was_held_back_comes_after_the_answer_that_ended_the_turn() -> None:
    found = told(
        (U, {"text": "look"}), (T, {"message_id": "m1", "upto_seq": 1}),
        (A, {"text": "", "message_id": "m1", "started_seq": 2, "upto_seq": 1}),
        (C, {"call_id": "c", "tool": "look", "arguments": {}, "message_id": "m1"}),
        (U, {"text": "and then?", "mode": "follow_up"}), (U, {"text": "hurry"}),
        (R, {"call_id": "c", "content": "seen", "status": "ok"}), (T, {"message_id": "m2", "upto_seq": 7, "held": [5]}),
        (A, {"text": "done", "message_id": "m2", "started_seq": 8, "upto_seq": 7, "held": [5]}),
    )  # fmt: skip
    assert [role for role, _ in found] == ["user", "assistant", "tool", "user", "assistant", "user"]
    assert [text for _, text in found[2:]] == ["seen", "hurry", "done", "and then?"]
