"""The next call with its arguments filled in, from what other sessions did."""

from __future__ import annotations

from consolidator.memory.procedures.prediction import FREE, predict_next_calls
from consolidator.models.payload import EventType
from consolidator.service.memory.suggestions import suggest_from_events
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
    unknown = SessionLog().call("never seen", {"id": "u_1"})
    suggestions = predict_next_calls(learn_customer_profiles(), fold_events(unknown.events, keep_values=True))
    assert [(call.tool, call.arguments, call.confidence) for call in suggestions] == [("never seen", {"id": FREE}, 0.0)]


def open_call(log: SessionLog, tool: str, arguments: dict[str, str]) -> SessionLog:
    return log.add(EventType.TOOL_CALL, call_id=f"open{len(log.events)}", tool=tool, arguments=arguments)


def parallel_session(number: int) -> SessionLog:
    """One message reads all orders at once; their results come after the last call."""
    orders = [f"W{number}{n}77" for n in range(3)]
    log = SessionLog(f"p{number}").user("Hello").call("get_user", {}, {"orders": orders})
    first = len(log.events)
    for order in orders:
        open_call(log, "get_order", {"order_id": order})
    for offset, order in enumerate(orders):
        name = f"open{first + offset}"
        log.add(EventType.TOOL_RESULT, call_id=name, tool="get_order", status="ok", content={"id": order})
    return log.call("report", {})


def test_calls_under_way_count_as_made() -> None:
    profiles = learn_profiles(parallel_session(number) for number in range(4))
    log = SessionLog().user("Hello").call("get_user", {}, {"orders": ["W9", "W8", "W7"]})
    for order in ("W9", "W8", "W7"):
        first = predict_next_calls(profiles, fold_events(log.events, keep_values=True))[0]
        assert (first.tool, first.arguments) == ("get_order", {"order_id": order})
        open_call(log, "get_order", {"order_id": order})


def test_what_is_under_way_is_not_suggested() -> None:
    profiles = learn_profiles(SessionLog(f"s{n}").call("start").call("deploy", {"to": "prod"}) for n in range(4))
    log = SessionLog().call("start")
    assert predict_next_calls(profiles, fold_events(log.events, keep_values=True))[0].arguments == {"to": "prod"}
    open_call(open_call(log, "deploy", {"to": "prod"}), "start", {})
    (only,) = predict_next_calls(profiles, fold_events(log.events, keep_values=True))
    assert (only.tool, only.arguments, only.free, only.confidence) == ("deploy", {"to": FREE}, ("to",), 0.0)


def test_a_call_that_failed_after_the_next_one_frees_its_values() -> None:
    log = open_call(SessionLog().call("get_user", {}, {"orders": ["W9", "W8"]}), "get_order", {"order_id": "W9"})
    open_call(log, "note", {})
    digest = fold_events(log.events, keep_values=True)
    (order,) = digest.bindings.hash_values(["W9"])
    assert order in digest.bindings.used("get_order", "order_id")
    log.add(EventType.TOOL_RESULT, call_id="open2", tool="get_order", status="error", content="boom")
    digest = fold_events(log.events, keep_values=True)
    assert order not in digest.bindings.used("get_order", "order_id")
    assert [step.symbol for step in digest.last_steps] == ["get_order!", "note"]


def test_the_live_suggestion_sees_open_calls() -> None:
    profiles = learn_profiles(parallel_session(number) for number in range(4))
    log = SessionLog().user("Hello").call("get_user", {}, {"orders": ["W9", "W8"]})
    open_call(log, "get_order", {"order_id": "W9"})
    assert suggest_from_events(profiles, log.events, 1)[0]["arguments"] == {"order_id": "W8"}


def test_the_form_of_what_the_user_said_tells_the_tool() -> None:
    logs = []
    for number in range(24):
        log = SessionLog(f"s{number}")
        if number % 3:
            log.user(f"I am bob_ray_{2000 + number}").call("get_user", {"user_id": f"bob_ray_{2000 + number}"})
        else:
            log.user(f"bob_ray_{2000 + number}, about order W{1000 + number}").call(
                "get_order", {"order_id": f"W{1000 + number}"}
            )
        logs.append(log)
    profiles = learn_profiles(logs)
    for text, tool in (("I am ada_lee_1000", "get_user"), ("ada_lee_1000, order W9999", "get_order")):
        digest = fold_events(SessionLog().user(text).events, keep_values=True)
        assert max(predict_next_calls(profiles, digest), key=lambda call: call.likelihood).tool == tool


def test_a_tool_never_seen_before_may_be_called_again_as_other_tools_are() -> None:
    logs = [SessionLog(f"s{n}").shell(f"tool{n} x", "no", "error").shell(f"tool{n} x").call("end") for n in range(6)]
    profiles = learn_profiles(logs)
    log = SessionLog().shell("brandnew y", "no", "error")
    first = predict_next_calls(profiles, fold_events(log.events, keep_values=True))[0]
    assert (first.tool, first.symbol, first.arguments) == ("bash", "sh:brandnew", {"command": "brandnew y"})
    log.shell("brandnew y")
    assert predict_next_calls(profiles, fold_events(log.events, keep_values=True)) == []
