"""Wrong tokens are bounded by address, and keep nobody out whose token was right."""

from __future__ import annotations

import pytest

from consolidator.api.guard import WrongTokens


class Seconds:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_address_that_tries_too_many_waits_and_others_do_not() -> None:
    clock = Seconds()
    wrong = WrongTokens(6, clock)
    for _ in range(6):
        assert wrong.wait("a", b"x") == 0
        wrong.add_wrong("a")
    assert wrong.wait("a", b"x") == 10
    assert wrong.wait("b", b"x") == 0
    clock.now = 9.0
    assert wrong.wait("a", b"y") == pytest.approx(1)
    clock.now = 10.1
    assert wrong.wait("a", b"y") == 0


def test_a_token_that_was_right_is_looked_at_whatever_its_address_tried() -> None:
    wrong = WrongTokens(1, Seconds())
    wrong.add_right(b"right")
    wrong.add_wrong("proxy")
    wrong.add_wrong("proxy")
    assert wrong.wait("proxy", b"right") == 0
    assert wrong.wait("proxy", b"other") > 0


def test_what_is_remembered_is_bounded() -> None:
    wrong = WrongTokens(1, Seconds())
    for number in range(10_100):
        wrong.add_wrong(str(number))
        wrong.add_right(str(number).encode())
    assert len(wrong._rates._buckets) == len(wrong._right) == 10_000
    assert wrong.wait("0", b"x") == 0
    assert wrong.wait("10099", b"x") > 0
