"""How programs are used: command lines with holes for their operands."""

from __future__ import annotations

import pytest

from consolidator.memory.calls.symbols import usage_pattern


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ("cd /x && git commit -m 'a long message' 2>&1 | tail -3", "git commit -m <free>"),
        ("bd update app-12 --status in_progress", "bd update <free> --status in_progress"),
        ('bd close app-12 --reason="All of it works"', "bd close <free> --reason=<free>"),
        ("mix test test/a_test.exs", "mix test <free>"),
        ("git add a b c d e f", "git add <free>"),
        ("mix credo --strict 2>&1 | tail -5", "mix credo --strict"),
        ("# nothing", None),
    ],
)
def test_how_a_program_is_used(line: str, used: str | None) -> None:
    assert usage_pattern(line) == used
