"""Command lines with holes for their operands."""

from __future__ import annotations

import pytest

from consolidator.memory.calls.command_templates import extract_template, usage_pattern


@pytest.mark.parametrize(
    ("line", "pattern", "operands"),
    [
        ("bd close app-12", "bd close {1}", ("app-12",)),
        (
            "cd x && mix test test/a_test.exs 2>&1 | tail -5",
            "cd x && mix test {1} 2>&1 | tail -5",
            ("test/a_test.exs",),
        ),
        ("git push -u origin main", "git push -u {1} {2}", ("origin", "main")),
        ("git status", "git status", ()),
        ("git add a", "git add {1}", ("a",)),
        ("git checkout -b b", "git checkout -b {1}", ("b",)),
        ("cd /home/ada/git.repo && git add .", "cd /home/ada/git.repo && git add {1}", (".",)),
        ("bd close app-1.3 && bd close app-1", "bd close app-1.3 && bd close {1}", ("app-1",)),
        ("grep 'two words' notes.md", "grep '{1}' {2}", ("two words", "notes.md")),
        ("awk '{print $1}' file", "awk '{print $1}' file", ()),
    ],
)
def test_operands_become_holes(line: str, pattern: str, operands: tuple[str, ...]) -> None:
    assert extract_template(line) == (pattern, operands)


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ("cd /x && git commit -m 'a long message' 2>&1 | tail -3", "git commit -m <free>"),
        ("bd update app-12 --status in_progress", "bd update <1> --status in_progress"),
        ('bd close app-12 --reason="All of it works"', "bd close <1> --reason=<free>"),
        ("mix test test/a_test.exs", "mix test <1>"),
        ("git add a b c d e f", "git add <1> <2> <3> …"),
        ("mix credo --strict 2>&1 | tail -5", "mix credo --strict"),
        ("# nothing", None),
    ],
)
def test_how_a_program_is_used(line: str, used: str | None) -> None:
    assert usage_pattern(line) == used
