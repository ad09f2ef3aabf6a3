"""Requests of a token come at a rate, and its streams are counted."""

from __future__ import annotations

from consolidator.api.guard import Places, RequestRates


def test_a_burst_is_let_through_and_then_the_rate() -> None:
    now = 0.0
    rates = RequestRates(10, clock=lambda: now)
    assert [rates.take("a") for _ in range(20)] == [0.0] * 20
    assert 0 < rates.take("a") <= 0.1
    assert rates.take("b") == 0  # another token's are its own
    now += 0.5
    assert [rates.take("a") for _ in range(5)] == [0.0] * 5
    assert rates.take("a") > 0
    now += 1000
    assert sum(rates.take("a") == 0 for _ in range(50)) == 20  # what was not used is not saved up


def test_less_than_one_request_a_second_is_a_rate() -> None:
    now = 0.0
    rates = RequestRates(0.1, clock=lambda: now)
    assert rates.take("a") == 0
    assert round(rates.take("a"), 6) == 10
    now += 10
    assert rates.take("a") == 0


def test_streams_are_counted_while_they_are_open() -> None:
    streams = Places(2)
    with streams.opened("a") as first, streams.opened("a") as second:
        assert (first, second) == (True, True)
        with streams.opened("a") as third, streams.opened("b") as other:
            assert (third, other) == (False, True)
    with streams.opened("a") as again:
        assert again


def test_places_are_bounded_for_each_credential_and_in_all() -> None:
    places = Places(2, 3)
    with places.opened("a"), places.opened("a"), places.opened("a") as third, places.opened("b") as other:
        assert (third, other) == (False, True)
        with places.opened("b") as full, places.opened("c") as also_full:
            assert (full, also_full, places.count) == (False, False, 3)
    with places.opened("b") as first, places.opened("b") as second:
        assert (first, second) == (True, True)
