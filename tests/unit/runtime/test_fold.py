"""The fold of a log's open end: what is open, whatever came after it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from consolidator.models.event import Event
from consolidator.models.payload import EventType as E
from consolidator.runtime.session.fold import OpenState, fold_open_state
from tests.conftest import NOON


def create_log(*entries: tuple[E, dict[str, Any]], first: int = 1) -> list[Event]:
    """Return events with dense seqs."""
    return [Event("s", first + n, kind, data, NOON) for n, (kind, data) in enumerate(entries)]


def user_message(text: str = "hi", mode: str = "message") -> tuple[E, dict[str, Any]]:
    return E.USER_MESSAGE, {"text": text, "mode": mode}


def thinking(name: str, upto: int, **more: Any) -> tuple[E, dict[str, Any]]:
    return E.THINKING_START, {"message_id": name, "upto_seq": upto, **more}


def answer(name: str) -> tuple[E, dict[str, Any]]:
    return E.ASSISTANT_RESPONSE, {"message_id": name, "text": "x"}


def call(name: str, group: int = 1, message: str = "m") -> tuple[E, dict[str, Any]]:
    return E.TOOL_CALL, {"call_id": name, "tool": "t", "arguments": {}, "message_id": message, "group": group}


def result(name: str) -> tuple[E, dict[str, Any]]:
    return E.TOOL_RESULT, {"call_id": name, "tool": "t", "status": "ok"}


def decision(decision: str, **more: Any) -> tuple[E, dict[str, Any]]:
    return E.POLICY_DECISION, {"decision": decision, **more}


def fold(events: list[Event], settled_to: int = 0) -> OpenState:
    return fold_open_state(events, settled_to=settled_to, head=settled_to + len(events))


def states(state: OpenState) -> dict[str, str]:
    return {call.call_id: call.state for call in state.calls}


def test_a_message_is_unanswered_until_a_model_that_saw_it_has_answered() -> None:
    assert [event.seq for event in fold(create_log(user_message())).unanswered] == [1]
    assert fold(create_log(user_message(), thinking("m", 1))).needs_model
    done = fold(create_log(user_message(), thinking("m", 1), answer("m")))
    assert done.is_settled
    assert done.settled_to == 3


def test_a_message_that_came_while_the_model_spoke_is_still_unanswered() -> None:
    state = fold(create_log(user_message(), thinking("m", 1), user_message("and this"), answer("m")))
    assert [event.seq for event in state.unanswered] == [3]
    assert state.settled_to == 2


def test_what_is_left_open_is_found_again_from_the_mark_it_left() -> None:
    events = create_log(user_message(), thinking("m", 1), user_message("and this"), answer("m"))
    first = fold(events)
    again = fold_open_state(events[first.settled_to :], settled_to=first.settled_to, head=4)
    assert again == first


def test_a_call_stays_open_behind_a_steer() -> None:
    state = fold(create_log(user_message(), thinking("m", 1), answer("m"), call("c"), user_message("stop", "steer")))
    assert states(state) == {"c": "maybe_ran"}
    assert state.steer_seq == 5
    assert state.settled_to == 3


def test_only_the_first_open_group_of_calls_may_have_run() -> None:
    calls = [call("a", 1), call("b", 1), call("c", 2)]
    events = create_log(user_message(), thinking("m", 1), answer("m"), *calls)
    assert states(fold(events)) == {"a": "maybe_ran", "b": "maybe_ran", "c": "not_started"}
    more = create_log(user_message(), thinking("m", 1), answer("m"), *calls, result("a"), result("b"))
    assert states(fold(more)) == {"c": "maybe_ran"}


def test_a_call_that_awaits_a_person_never_ran_before_their_word_was_acted_on() -> None:
    start = [user_message(), thinking("m", 1), answer("m"), call("a"), (E.APPROVAL_REQUESTED, {"call_id": "a"})]
    assert states(fold(create_log(*start))) == {"a": "waiting"}
    granted = [*start, (E.APPROVAL_GRANTED, {"call_id": "a"})]
    assert states(fold(create_log(*granted))) == {"a": "granted"}
    assert states(fold(create_log(*start, (E.APPROVAL_DENIED, {"call_id": "a", "reason": "no"})))) == {"a": "denied"}
    assert states(fold(create_log(*granted, decision("call_started", call_ids=["a"])))) == {"a": "maybe_ran"}


def test_results_that_the_model_has_not_seen_go_on() -> None:
    state = fold(create_log(user_message(), thinking("m", 1), answer("m"), call("a"), result("a")))
    assert state.unseen_results == (5,)
    assert state.needs_model
    assert state.unanswered == ()


def test_a_generation_is_open_until_it_ends_one_way_or_another() -> None:
    begun = [user_message(), thinking("m", 1)]
    generation = fold(create_log(*begun)).generation
    assert generation is not None
    assert generation.message_id == "m"
    replaced = fold(create_log(*begun, decision("generation_replaced", message_id="m")))
    assert replaced.generation is None
    assert replaced.needs_model
    interrupted = fold(create_log(*begun, decision("turn_interrupted", message_id="m")))
    assert interrupted.is_settled
    passing = fold(create_log(*begun, (E.ERROR, {"message": "x", "message_id": "m", "again": True})))
    assert passing.needs_model
    lasting = fold(create_log(*begun, (E.ERROR, {"message": "x", "message_id": "m", "again": False})))
    assert lasting.is_settled


def test_a_budget_stop_ends_the_turn() -> None:
    stop = [decision("budget_stop", upto_seq=1), (E.ERROR, {"message": "x", "upto_seq": 1})]
    assert fold(create_log(user_message(), *stop)).is_settled
    assert fold(create_log(user_message(), user_message(), *stop)).needs_model


def test_a_follow_up_that_was_held_back_waits_for_the_next_turn() -> None:
    start = [user_message(), thinking("m", 1), answer("m"), call("a"), user_message("later", "follow_up"), result("a")]
    withheld_state = fold(create_log(*start, thinking("n", 6, held=[5]), answer("n")))
    assert [event.seq for event in withheld_state.unanswered] == [5]
    answered_state = fold(create_log(*start, thinking("n", 6, held=[5]), answer("n"), thinking("o", 8), answer("o")))
    assert answered_state.is_settled


def test_errors_of_imported_or_other_kinds_change_nothing() -> None:
    state = fold(create_log(user_message(), (E.ERROR, {"message": "a tool's"}), (E.TASK_START, {"task_id": "t"})))
    assert [event.seq for event in state.unanswered] == [1]


def test_what_a_stop_ended_is_not_asked_again_wherever_it_came() -> None:
    stop = decision("turn_stopped")
    ends = [decision("turn_interrupted", message_id="m")]
    for log in (
        [user_message(), stop],
        [user_message(), thinking("m", 1), stop, *ends],
        [user_message(), thinking("m", 1), user_message("later", "follow_up"), stop, *ends],
        [user_message(), thinking("m", 1), answer("m"), call("a"), stop, result("a")],
        [user_message(), thinking("m", 1), stop, answer("m"), call("a"), result("a")],  # the answer came first
        [user_message(), stop, thinking("m", 1), answer("m"), call("a"), result("a")],  # asked before it was seen
    ):
        state = fold(create_log(*log))
        assert state.is_settled, log
        assert state.settled_to == len(log)


def test_a_stop_withdraws_the_calls_that_are_open_as_a_steer_does() -> None:
    start = [user_message(), thinking("m", 1), answer("m"), call("a", 1)]
    assert fold(create_log(*start, decision("turn_stopped"))).steer_seq == 5
    over = [*start, decision("turn_stopped"), result("a")]
    again = fold(create_log(*over, user_message(), thinking("n", 7), answer("n"), call("b", 2, "n")))
    assert (again.steer_seq, states(again)) == (0, {"b": "maybe_ran"})  # what is said next runs


def test_what_is_said_after_a_stop_is_answered() -> None:
    state = fold(create_log(user_message(), decision("turn_stopped"), user_message("go on"), thinking("m", 1)))
    assert [event.seq for event in state.unanswered] == [3]


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    """Return what turns of a session may leave, whole or cut anywhere."""
    entries: list[tuple[E, dict[str, Any]]] = []
    for turn in range(draw(st.integers(1, 5))):
        entries.append(user_message(mode=draw(st.sampled_from(["message", "steer", "follow_up"]))))
        name = f"m{turn}"
        entries.append(thinking(name, len(entries)))
        entries += [decision("turn_stopped")] * draw(st.integers(0, 1))
        if draw(st.booleans()):
            entries.append(user_message())
        entries.append(answer(name))
        count = draw(st.integers(0, 3))
        entries += [call(f"{name}{n}", n, name) for n in range(count)]
        entries += [decision("turn_stopped")] * draw(st.integers(0, 1))
        entries += [result(f"{name}{n}") for n in range(draw(st.integers(0, count)))]
    return create_log(*entries)[: draw(st.integers(0, len(entries)))]


@given(logs(), st.data())
def test_looking_from_any_settled_mark_finds_the_same(events: list[Event], data: st.DataObject) -> None:
    whole = fold_open_state(events, settled_to=0, head=len(events))
    cut = data.draw(st.integers(0, len(events)))
    while cut < len(events) and events[cut].type is E.TOOL_CALL:  # an answer and its calls are appended as one
        cut += 1
    mark = fold_open_state(events[:cut], settled_to=0, head=cut).settled_to
    again = fold_open_state(events[mark:], settled_to=mark, head=len(events))
    assert (again.calls, again.generation, again.unanswered, again.unseen_results) == (
        whole.calls, whole.generation, whole.unanswered, whole.unseen_results,
    )  # fmt: skip
    assert again.settled_to == whole.settled_to


def test_an_approval_that_names_no_call_opens_nothing() -> None:
    approvals = [(kind, {"tool": "Bash"}) for kind in (E.APPROVAL_REQUESTED, E.APPROVAL_GRANTED, E.APPROVAL_DENIED)]
    assert fold(create_log(*approvals)).is_settled
