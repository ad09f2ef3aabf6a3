"""What identifies a person or case comes from the session it belongs to, or is left open."""

from __future__ import annotations

from typing import Any

from consolidator.memory.procedures.prediction import FREE, Suggestion, predict_next_calls
from consolidator.memory.procedures.tool_profiles import ToolProfile
from consolidator.models.event import Event
from tests.unit.calls.session_log import SessionLog, fold_events, learn_profiles

ADA = ("Ada", "Lovelace", "20512")


def verified(number: int, customer: tuple[str, str, str], *, is_told: bool = True) -> SessionLog:
    """A customer gives name and zip code, and is looked up by them."""
    first, last, zip_code = customer
    log = SessionLog(f"s{number}")
    log.user(f"Hello, I'm {first} {last}. My zip code is {zip_code}." if is_told else "Hello!")
    log.call("find_customer", {"first_name": first, "last_name": last, "zip": zip_code}, f"customer_{number}")
    return log.call("close_case", {"reason": "solved", "notify": True})


def predict(profiles: dict[str, ToolProfile], events: list[Event]) -> Suggestion:
    return predict_next_calls(profiles, fold_events(events, keep_values=True))[0]


def test_the_second_customer_is_not_answered_with_the_first_ones_name_and_zip() -> None:
    profiles = learn_profiles(verified(number, ADA) for number in range(5))
    before = predict(profiles, SessionLog().user("Hello!").events)
    assert (before.tool, before.confidence) == ("find_customer", 0.0)
    assert before.arguments == dict.fromkeys(("first_name", "last_name", "zip"), FREE)
    told = predict(profiles, SessionLog().user("Good day, I am Bob Rayward, zip 90210").events)
    assert told.arguments == {"first_name": FREE, "last_name": FREE, "zip": "90210"}


def test_a_value_that_few_sessions_use_is_no_constant_though_nobody_said_it() -> None:
    customers = [(f"Name{n // 2}", f"Last{n // 2}", f"2051{n // 2}") for n in range(20)]
    profiles = learn_profiles(verified(number, customer, is_told=False) for number, customer in enumerate(customers))
    assert set(predict(profiles, SessionLog().user("Hello!").events).arguments.values()) == {FREE}


def test_what_all_cases_share_is_still_filled() -> None:
    profiles = learn_profiles(
        verified(number, ADA if number % 2 else ("Bob", "Rayward", "90210")) for number in range(6)
    )
    log = SessionLog().user("I am Eve Newton, zip 10001").call("find_customer", {"zip": "10001"}, "customer_9")
    assert predict(profiles, log.events).arguments == {"reason": "solved", "notify": True}


def test_a_value_that_sessions_give_is_filled_where_this_session_gave_it() -> None:
    logs = []
    for number in range(6):
        log = SessionLog(f"s{number}").user("I want it in economy").call("find", {}, {"seat": number})
        logs.append(log.call("book", {"cabin": "economy"}))
    profiles = learn_profiles(logs)

    def filled(text: str) -> Any:
        return predict(profiles, SessionLog().user(text).call("find", {}, {"seat": 9}).events).arguments

    assert filled("Economy, please") == {"cabin": "economy"}
    assert filled("The cheapest, please") == {"cabin": FREE}


def test_an_operand_of_a_command_of_another_session_is_left_open() -> None:
    logs = [SessionLog(f"s{n}").user("switch to feat/points").shell("git checkout feat/points") for n in range(4)]
    profiles = learn_profiles(logs)
    for text in ("go on", "switch to fix/badge"):
        assert predict(profiles, SessionLog().user(text).events).arguments == {"command": FREE}
