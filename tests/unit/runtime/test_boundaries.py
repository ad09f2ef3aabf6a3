"""Boundaries: each is used somewhere, and can be waited for."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import get_args

from consolidator.runtime.session.boundaries import Boundary, boundary
from consolidator.testing.kill_points import interrupt_at, record_boundaries

ROOT = Path(__file__).parents[3]


def test_every_boundary_is_used_and_no_other() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "consolidator" / "runtime").rglob("*.py"))
    named = set(re.findall(r'boundary\("([^"]+)"\)|, "(commit [^"]+)"\)', code))
    assert {plain or logged for plain, logged in named} == set(get_args(Boundary))


def test_a_boundary_is_passed_before_and_after_unless_what_is_between_fails() -> None:
    with record_boundaries() as passed:
        with boundary("send"), boundary("delivery"):
            pass
        with suppress(ValueError), boundary("tool"):
            raise ValueError
    assert passed == ["before send", "before delivery", "after delivery", "after send", "before tool"]


def test_one_can_wait_for_the_second_boundary_of_a_name() -> None:
    met: list[tuple[str, int]] = []
    sent = 0
    with interrupt_at(2, lambda name: met.append((name, sent)), "after send"):
        for sent in range(4):  # noqa: B007 - it is looked at above
            with boundary("lease"), boundary("send"):
                pass
    assert met == [("after send", 1)]
