"""Procedures that recent calls are in the middle of."""

from __future__ import annotations

from typing import Any

import pytest

from consolidator.memory.procedures.prediction import find_procedures_under_way
from consolidator.models.procedure import ProcedureRow
from tests.conftest import NOON

STEPS = ["Edit", "sh:make test", "sh:git commit", "sh:git push"]


def procedure(steps: list[str], mean: float = 0.9, command: str = "") -> ProcedureRow:
    body: dict[str, Any] = {
        "steps": [{"symbol": step, "command": command if step == steps[-1] else ""} for step in steps],
        "success": {"mean": mean},
    }
    title = " → ".join(steps)
    return ProcedureRow(title, "coder", None, title, 3, 1.0, 1.0, body, NOON, NOON, None, None, "run")


@pytest.mark.parametrize(
    ("recent", "left"),
    [
        (["Edit", "sh:make test"], [("git commit", "git push")]),
        (["Read", "Edit", "Edit", "sh:make test", "sh:make test"], [("git commit", "git push")]),
        (["sh:make test", "sh:git commit"], [("git push",)]),
        (["sh:make test"], []),  # one call is no routine
        (STEPS, []),  # nothing is left
        (["Edit", "sh:ls"], []),
        ([], []),
    ],
)
def test_what_is_left_follows_the_longest_match(recent: list[str], left: list[tuple[str, ...]]) -> None:
    assert [found.left for found in find_procedures_under_way([procedure(STEPS)], recent)] == left


def test_what_mostly_fails_is_not_suggested_and_commands_show_what_is_open() -> None:
    told = procedure(STEPS, command="git push origin <free>")
    (found,) = find_procedures_under_way([procedure(STEPS, mean=0.49), told], STEPS[:3])
    assert found.left == ("git push origin …",)
