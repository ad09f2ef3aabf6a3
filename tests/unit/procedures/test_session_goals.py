"""What the sessions of a procedure were for."""

from __future__ import annotations

import pytest

from consolidator.memory.text.title import order_goals


@pytest.mark.parametrize(
    ("titles", "goals"),
    [
        ([], []),
        (["Hi!", "Hello there"], []),
        (["Hi there! I need to cancel a reservation. Could you…"], ["I need to cancel a reservation"]),
        (["Work on bead a-1. Run bd show a-1 to see the issue…"], ["Work on bead a-1"]),
        (
            ["We solve the following issue.…", "We solve the issue of…"],
            ["We solve the following issue", "We solve the issue of…"],
        ),
        (["Please. Release the shop"], ["Please. Release the shop"]),
        (["historic data is wrong"], ["Historic data is wrong"]),
        (
            ["go on", "release the shop", "release the old shop now"],
            ["Release the shop", "Release the old shop now", "Go on"],
        ),
    ],
)
def test_the_most_typical_goal_comes_first(titles: list[str], goals: list[str]) -> None:
    assert order_goals(titles) == goals
