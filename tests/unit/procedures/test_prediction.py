"""The next call with its arguments filled in, from what other sessions did."""

from __future__ import annotations

from consolidator.memory.procedures.prediction import FREE, predict_next_calls
from tests.unit.calls.session_log import SessionLog, fold_events, learn_profiles
from tests.unit.procedures.test_tool_profiles import customer_session, learn_customer_profiles


def test_arguments_are_filled_from_an_earlier_result() -> None:
    log = (
        SessionLog()
        .user("Hi, this is bob_ray_2000")
        .call("get_user", {"user_id": "bob_ray_2000"}, {"orders": ["W9", "W8"]})
    )
    first = predict_next_calls(learn_customer_profiles(), fold_events(log.events, keep_values=True))[0]
    assert (first.tool, first.arguments) == ("get_order", {"order_id": "W9"})
    log.call("get_order", {"order_id": "W9"}, {"id": "W9"})
    second = predict_next_calls(learn_customer_profiles(), fold_events(log.events, keep_values=True))[0]
    assert (second.tool, second.arguments) == ("get_order", {"order_id": "W8"})


def test_the_first_call_takes_its_argument_from_the_users_words() -> None:
    first = predict_next_calls(
        learn_customer_profiles(),
        fold_events(SessionLog().user("I am bob_ray_2000").events, keep_values=True),
    )[0]
    assert (first.tool, first.arguments, first.confidence > 0.5) == ("get_user", {"user_id": "bob_ray_2000"}, True)
    assert "the user's words" in first.why


def test_a_free_argument_is_marked_and_takes_the_confidence() -> None:
    logs = [SessionLog().call("start").call("say", {"text": f"something new {number}"}) for number in range(3)]
    (only,) = predict_next_calls(learn_profiles(logs), fold_events(SessionLog().call("start").events, keep_values=True))
    assert (only.arguments, only.free, only.confidence) == ({"text": FREE}, ("text",), 0.0)
    assert only.likelihood > 0.3


def test_a_command_template_is_filled_with_an_earlier_operand() -> None:
    logs = [SessionLog().shell(f"bd show app-{n}").shell(f"bd update app-{n} --status in_progress") for n in range(4)]
    (only,) = predict_next_calls(
        learn_profiles(logs), fold_events(SessionLog().shell("bd show app-99").events, keep_values=True)
    )
    assert (only.tool, only.arguments) == ("bash", {"command": "bd update app-99 --status in_progress"})


def test_the_same_command_everywhere_is_suggested_as_it_is() -> None:
    logs = [SessionLog().call("Edit", {"p": f"a{n}"}).shell("mix test 2>&1 | tail -5") for n in range(3)]
    (only,) = predict_next_calls(
        learn_profiles(logs), fold_events(SessionLog().call("Edit", {"p": "z"}).events, keep_values=True)
    )
    assert only.arguments == {"command": "mix test 2>&1 | tail -5"}


def test_without_clear_values_only_constants_are_filled() -> None:
    digest = fold_events(SessionLog().user("I am bob_ray_2000").events)
    assert predict_next_calls(learn_customer_profiles(), digest)[0].free == ("user_id",)


def test_nothing_is_suggested_where_nothing_is_known() -> None:
    assert predict_next_calls({}, fold_events(customer_session(1).events, keep_values=True)) == []
    assert (
        predict_next_calls(
            learn_customer_profiles(), fold_events(SessionLog().call("never seen").events, keep_values=True)
        )
        == []
    )
