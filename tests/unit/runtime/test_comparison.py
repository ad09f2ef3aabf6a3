"""Comparison of two runs: what is the same is told apart from what was changed, added and removed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.runtime.rerun.turns import RecordedTurn, RunFold, canonical_arguments, compare_runs

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def price(model: str, *, input_tokens: int, cached_tokens: int, output_tokens: int) -> Decimal | None:
    return None if model == "?" else Decimal(input_tokens + output_tokens)


def fold(*steps: tuple[EventType, dict[str, Any]]) -> list[RecordedTurn]:
    run = RunFold()
    with mock.patch("consolidator.runtime.rerun.turns.calculate_cost", price):
        for seq, (event_type, data) in enumerate(steps, 1):
            run.feed(Event("s", seq, event_type, data, NOW))
    return run.turns


def asked(text: str, **more: Any) -> tuple[EventType, dict[str, Any]]:
    return EventType.USER_MESSAGE, {"text": text, **more}


def answered(text: str, model: str = "m", tokens: Sequence[int] = (10, 2, 3)) -> tuple[EventType, dict[str, Any]]:
    usage = dict(zip(("input", "cached", "output"), tokens, strict=True))
    return EventType.ASSISTANT_RESPONSE, {"text": text, "model": model, "usage": usage}


def called(call_id: str, **arguments: Any) -> tuple[EventType, dict[str, Any]]:
    return EventType.TOOL_CALL, {"call_id": call_id, "tool": "look", "arguments": arguments}


def resulted(call_id: str, content: Any) -> tuple[EventType, dict[str, Any]]:
    return EventType.TOOL_RESULT, {"call_id": call_id, "content": content}


RUN = (asked("hi"), answered("hello"), called("c", what="a", where="b"), resulted("c", "view"), answered("done"))


def test_an_answer_belongs_to_the_message_that_the_model_had_seen() -> None:
    def says(text: str, **more: Any) -> tuple[EventType, dict[str, Any]]:
        return EventType.ASSISTANT_RESPONSE, {**answered(text)[1], **more}

    first, later = fold(
        asked("hi"),
        asked("and then?", mode="follow_up"),
        says("looking", message_id="m", upto_seq=1),
        (EventType.TOOL_CALL, {**called("c")[1], "message_id": "m"}),
        resulted("c", "view"),
        says("seen", message_id="n", upto_seq=5, held=[2]),
        says("then this", message_id="o", upto_seq=6),
    )
    assert (first.answers, [call.tool for call in first.calls]) == (["looking", "seen"], ["look"])
    assert (later.answers, later.calls) == (["then this"], [])


def test_a_run_differs_in_nothing_from_itself() -> None:
    comparison = compare_runs(fold(*RUN), fold(*RUN))
    assert comparison.is_empty
    assert comparison.as_json()["differences"] == []
    assert (comparison.left.calls, comparison.left.output_tokens, comparison.left.cost) == (1, 6, Decimal(26))


def test_what_memory_or_a_harness_says_is_no_message_of_its_own() -> None:
    assert len(fold(asked("hi"), asked("recalled", origin="memory"), answered("hello"))) == 1


def test_the_order_and_the_form_of_arguments_make_no_other_call() -> None:
    assert canonical_arguments({"a": 1, "b": 2}) == canonical_arguments('{"b": 2, "a": 1}')
    assert canonical_arguments(None) == canonical_arguments("") == "{}"
    assert canonical_arguments("{") == '"{"'


def test_another_result_of_the_same_call_is_a_difference() -> None:
    other = (*RUN[:3], resulted("c", "another view"), RUN[4])
    (turn,) = compare_runs(fold(*RUN), fold(*other)).differences()
    assert [call.status for call in turn.calls] == ["changed"]
    assert not turn.answers_differ


def test_a_call_that_was_put_in_between_does_not_change_those_after_it() -> None:
    other = (*RUN[:2], called("x", what="first"), resulted("x", "1"), *RUN[2:])
    (turn,) = compare_runs(fold(*RUN), fold(*other)).differences()
    assert [call.status for call in turn.calls] == ["added", "same"]


def test_turns_of_different_messages_are_not_compared() -> None:
    comparison = compare_runs(
        fold(*RUN, asked("something else"), answered("sure"), asked("and more"), answered("yes")),
        fold(*RUN, asked("a steer"), answered("steered")),
    )
    told = [(turn["status"], turn["message"]) for turn in comparison.as_json()["differences"]]
    assert told == [("removed", "something else"), ("removed", "and more"), ("added", "a steer")]
    steer = comparison.as_json()["differences"][2]
    assert (steer["left"], steer["right"]["message"], steer["right"]["answers"]) == (None, "a steer", ["steered"])


def test_a_turn_of_one_run_alone_is_added_or_removed() -> None:
    longer = (*RUN, asked("more"), answered("yes"))
    assert [turn.status for turn in compare_runs(fold(*RUN), fold(*longer)).turns] == ["same", "added"]
    assert [turn.status for turn in compare_runs(fold(*longer), fold(*RUN)).turns] == ["same", "removed"]


def test_a_cost_without_a_price_is_unknown() -> None:
    assert fold(asked("hi"), answered("hello", model="?"))[0].figures.cost is None


def test_a_reused_call_id_pairs_with_its_calls_in_order() -> None:
    turns = fold(asked("hi"), called("c", n=1), called("c", n=2), resulted("c", "1"), resulted("c", "2"))
    assert [call.result for call in turns[0].calls] == ["1", "2"]


STEPS = st.lists(
    st.one_of(
        st.sampled_from("ab").map(asked),
        st.sampled_from("xyz").map(answered),
        st.sampled_from("12").map(lambda number: called("c", n=number)),
        st.sampled_from("uv").map(lambda content: resulted("c", content)),
    ),
    max_size=30,
)


@given(STEPS, STEPS)
def test_a_comparison_is_empty_only_for_equal_runs_and_turns_around(
    left: list[tuple[EventType, dict[str, Any]]], right: list[tuple[EventType, dict[str, Any]]]
) -> None:
    there, back = compare_runs(fold(*left), fold(*right)), compare_runs(fold(*right), fold(*left))
    assert there.is_empty == back.is_empty
    assert compare_runs(fold(*left), fold(*left)).is_empty
    if left == right:
        assert there.is_empty
    assert (there.left, there.right) == (back.right, back.left)
