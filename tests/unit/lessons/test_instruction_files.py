"""A line that contradicts a project's own instructions says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from consolidator.memory.lessons.lesson import Lesson
from consolidator.service.memory.telling.instruction_files import mark_contradictions

FAILS = Lesson(
    "always_fails",
    "wrapper wrap pnpm",
    "`wrap pnpm …` always fails (40 of 40).",
    9.0,
    4,
    match={"kind": "wrapper", "wrapper": "wrap", "program": "pnpm"},
    warns=True,
)


@pytest.mark.parametrize(
    ("text", "says_otherwise"),
    [
        ("Run the tests with `wrap pnpm run test`.", True),
        ("Tests:\n\n```bash\n$ wrap pnpm run test\n```\n", True),
        ("**Always** prefix commands with `wrap`: it is always safe.", True),
        ("Never run `wrap pnpm run test`.", False),
        ("Don't do this:\n```\nwrap pnpm run test\n```\n", False),
        ("`wrap` shortens the output of `git`.", False),
        ("Run `pnpm run test`.", False),
        ("", False),
    ],
)
def test_a_line_says_where_an_instruction_file_says_otherwise(tmp_path: Path, text: str, says_otherwise: bool) -> None:
    (tmp_path / "CLAUDE.md").write_text(text)
    (lesson,) = mark_contradictions([FAILS], str(tmp_path))
    assert lesson.line.endswith(" CLAUDE.md says otherwise.") is says_otherwise


def test_a_folder_that_is_not_here_changes_nothing(tmp_path: Path) -> None:
    assert mark_contradictions([FAILS], str(tmp_path / "gone")) == [FAILS]
    (tmp_path / "AGENTS.md").write_bytes(b"`wrap pnpm` " * 10_000)  # too large to be read at a session's start
    assert mark_contradictions([FAILS], str(tmp_path)) == [FAILS]
