"""What people paste has lines of any length: reading one takes no more than a moment, however it is made.

Nothing here is timed: read in quadratic time these would take many minutes.
"""

from __future__ import annotations

import pytest

from consolidator.memory.calls.argument_summary import strip_command
from consolidator.memory.recall.query import looks_like_error
from consolidator.memory.text.pasted import quoted_text
from consolidator.memory.text.sentences import split_sentences

LONG = 2_000_000
AGAIN = 300  # how often a line is read that is cut to some kilobytes before


def test_a_rule_of_dashes_is_no_forwarded_mail() -> None:
    assert quoted_text("-" * LONG) == ""
    assert quoted_text(f"{'-' * LONG} Forwarded message\nhello").endswith("\nhello")
    assert quoted_text("look\n-----Original Message-----\nhello") == "-----Original Message-----\nhello"


def test_a_long_word_is_asked_for() -> None:
    assert not looks_like_error("a" * LONG)
    assert looks_like_error("a" * LONG + "Error")
    assert looks_like_error("an error")
    assert not looks_like_error("errors of mine")


@pytest.mark.parametrize(
    ("line", "short"),
    [
        ("x" + " " * 16_000 + "y", "x" + " " * 16_000 + "y"),
        ("x" + " " * 16_000 + "2>&1", "x"),
        ('git commit -m "$(cat <<E\n' + "\n" * 16_000, 'git commit -m "$(cat <<E'),
        ('git commit -m "$(cat <<E\na\n' + "\n" * 16_000 + '  E\n)" && ls | tail -3', "git commit -m … && ls"),
    ],
)
def test_a_command_with_much_white_space_is_read(line: str, short: str) -> None:
    assert {strip_command(line) for _ in range(AGAIN)} == {short}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<a>" * 16_000, []),
        ("<a><b>" * 8_000, []),
        ("".join(f"<a{n}>" for n in range(7_000)), []),
        ("Use tabs. <a>no</a> <b c='d'>not <b>\nthis</b> Use spaces.</b>", ["Use tabs."]),
    ],
)
def test_tags_that_nothing_closes_are_read(text: str, expected: list[str]) -> None:
    for _ in range(AGAIN // 10):
        assert [sentence for sentence in split_sentences(text) if "<a" not in sentence] == expected
