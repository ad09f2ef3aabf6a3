"""A message that arrives while an answer is generated follows that answer in the next context."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from consolidator.context.conversation import build_conversation
from consolidator.context.messages import render_messages
from consolidator.models.event import Event
from consolidator.models.payload import EventType

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
USER, THINKING, ANSWER = EventType.USER_MESSAGE, EventType.THINKING_START, EventType.ASSISTANT_RESPONSE
CALL, RESULT = EventType.TOOL_CALL, EventType.TOOL_RESULT


def render_log(*log: tuple[EventType, dict[str, Any]]) -> list[tuple[str, Any]]:
    """Return the messages of a log as roles and texts."""
    events = [Event("s", seq, kind, data, NOON) for seq, (kind, data) in enumerate(log, 1)]
    return [
        (message["role"], message["content"]) for message in render_messages(build_conversation(events).turns, "openai")
    ]


def test_a_steer_comes_after_the_answer_that_it_cut_short() -> None:
    messages = render_log(
        (USER, {"text": "tell me all"}),
        (THINKING, {"message_id": "m1"}), (USER, {"text": "no, say blue", "mode": "steer"}),
        (ANSWER, {"text": "word0 word1", "message_id": "m1", "started_seq": 2}),
    )  # fmt: skip
    assert messages == [("user", "tell me all"), ("assistant", "word0 word1"), ("user", "no, say blue")]


def test_what_came_before_the_model_was_asked_stays_before_its_answer() -> None:
    messages = render_log(
        (USER, {"text": "one"}), (USER, {"text": "two"}), (THINKING, {"message_id": "m1"}),
        (ANSWER, {"text": "both", "message_id": "m1", "started_seq": 3}), (USER, {"text": "three"}),
    )  # fmt: skip
    assert messages == [("user", "one\n\ntwo"), ("assistant", "both"), ("user", "three")]


def test_calls_keep_their_results_before_what_was_said_meanwhile() -> None:
    messages = render_log(
        (USER, {"text": "look"}), (THINKING, {"message_id": "m1"}), (USER, {"text": "hurry"}),
        (ANSWER, {"text": "", "message_id": "m1", "started_seq": 2}),
        (CALL, {"call_id": "c", "tool": "look", "arguments": {}, "message_id": "m1"}),
        (RESULT, {"call_id": "c", "content": "seen", "status": "ok"}),
    )  # fmt: skip
    assert [role for role, _ in messages] == ["user", "assistant", "tool", "user"]
    assert messages[-1][1] == "hurry"


def test_what_came_between_the_context_and_the_question_comes_after_the_answer_too() -> None:
    messages = render_log(
        (USER, {"text": "one"}), (USER, {"text": "two", "mode": "steer"}),
        (THINKING, {"message_id": "m1", "upto_seq": 1}),
        (ANSWER, {"text": "first", "message_id": "m1", "started_seq": 3, "upto_seq": 1}),
    )  # fmt: skip
    assert messages == [("user", "one"), ("assistant", "first"), ("user", "two")]


def test_a_follow_up_that_was_held_back_comes_after_the_answer_that_ended_the_turn() -> None:
    messages = render_log(
        (USER, {"text": "look"}), (THINKING, {"message_id": "m1", "upto_seq": 1}),
        (ANSWER, {"text": "", "message_id": "m1", "started_seq": 2, "upto_seq": 1}),
        (CALL, {"call_id": "c", "tool": "look", "arguments": {}, "message_id": "m1"}),
        (USER, {"text": "and then?", "mode": "follow_up"}), (USER, {"text": "hurry"}),
        (RESULT, {"call_id": "c", "content": "seen", "status": "ok"}),
        (THINKING, {"message_id": "m2", "upto_seq": 7, "held": [5]}),
        (ANSWER, {"text": "done", "message_id": "m2", "started_seq": 8, "upto_seq": 7, "held": [5]}),
    )  # fmt: skip
    assert [role for role, _ in messages] == ["user", "assistant", "tool", "user", "assistant", "user"]
    assert [text for _, text in messages[2:]] == ["seen", "hurry", "done", "and then?"]
