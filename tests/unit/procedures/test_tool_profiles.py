"""Known bindings are found, with their precision, and nothing is bound that is not."""

from __future__ import annotations

from consolidator.memory.procedures.tool_profiles import Binding, ToolProfile
from tests.unit.calls.session_log import SessionLog, learn_profiles


def customer_session(number: int) -> SessionLog:
    """A user names themselves, their orders are read one by one, and the last is cancelled."""
    ident, orders = f"ada_lee_{1000 + number}", [f"W{number}{n}77" for n in range(3)]
    log = SessionLog(f"s{number}").user(f"Hello, I am {ident}.")
    log.call("get_user", {"user_id": ident}, {"orders": orders, "cards": {f"card_{number}881": {"kind": "visa"}}})
    for order in orders:
        log.call("get_order", {"order_id": order}, {"id": order, "items": [{"sku": f"k{number}-{order}", "n": 1}]})
    log.call("cancel", {"order_id": orders[-1], "reason": "no longer needed", "card": f"card_{number}881"})
    return log


def learn_customer_profiles(count: int = 4) -> dict[str, ToolProfile]:
    return learn_profiles(customer_session(number) for number in range(count))


def best_binding(profile: ToolProfile, path: str) -> Binding:
    return next(binding for binding in profile.bindings[path] if binding.is_reliable)


def test_an_argument_comes_from_the_next_unused_item_of_a_list() -> None:
    binding = best_binding(learn_customer_profiles()["get_order"], "order_id")
    assert (binding.kind, binding.source, binding.path) == ("result", "get_user", "orders[]")
    assert (binding.precision, binding.hits, binding.applicable, binding.roots) == (1.0, 12, 12, 4)


def test_an_argument_comes_from_the_users_words() -> None:
    binding = best_binding(learn_customer_profiles()["get_user"], "user_id")
    assert (binding.kind, binding.path) == ("user", "a_a_9999")


def test_an_argument_repeats_an_earlier_steps_argument() -> None:
    sources = {
        (b.kind, b.source, b.path): b.precision for b in learn_customer_profiles()["cancel"].bindings["order_id"]
    }
    assert sources["argument", "get_order", "order_id"] == 1.0
    assert sources["result", "get_order", "id"] == 1.0


def test_keys_that_look_like_ids_are_values() -> None:
    binding = best_binding(learn_customer_profiles()["cancel"], "card")
    assert (binding.kind, binding.source, binding.path) == ("result", "get_user", "cards.keys[]")


def test_an_argument_that_is_always_the_same_is_a_constant() -> None:
    binding = best_binding(learn_customer_profiles()["cancel"], "reason")
    assert (binding.kind, binding.value) == ("constant", "no longer needed")


def test_two_sessions_are_too_few_to_tell() -> None:
    assert learn_customer_profiles(2)["cancel"].bindings["reason"][0].is_reliable is False


def test_chances_lower_the_precision() -> None:
    logs = []
    for number in range(6):
        log = SessionLog().call("list", {}, {"first": f"i_{number}"})
        logs.append(log.call("open", {"id": f"i_{number}" if number % 2 else f"other_{number}"}))
    binding = learn_profiles(logs)["open"].bindings["id"][0]
    assert (binding.path, binding.hits, binding.applicable, binding.precision) == ("first", 3, 6, 0.5)


def test_whole_lists_are_bound_column_by_column() -> None:
    logs = []
    for number in range(3):
        flights = [{"no": f"H{number}0{n}", "day": f"2026-05-{number}{n}", "price": n} for n in (1, 2)]
        log = SessionLog().call("get", {"id": f"r_{number}"}, {"flights": flights})
        logs.append(log.call("rebook", {"flights": [{"no": f["no"], "day": f["day"]} for f in flights]}))
    profile = learn_profiles(logs)["rebook"]
    assert best_binding(profile, "flights[].no").path == "flights[].no"
    assert best_binding(profile, "flights[].day").path == "flights[].day"


def test_profiles_survive_storage() -> None:
    for profile in learn_customer_profiles().values():
        assert ToolProfile.from_json(profile.to_json()) == profile


def test_failures_count_though_only_one_session_had_them() -> None:
    logs = [SessionLog(f"s{number}").call("deploy", {"to": "prod"}, "ok") for number in range(3)]
    for _ in range(20):
        logs[2].call("deploy", {"to": "prod"}, "boom", status="error")
    profile = learn_profiles(logs)["deploy"]
    assert (profile.calls, profile.failed) == (23, 20)
