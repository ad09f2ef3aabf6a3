"""No expression repeats a group possessively: where one fails, Python before 3.11.5 goes on at a wrong place."""

from __future__ import annotations

import re
from pathlib import Path

import consolidator

POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{\{?\d+,?\d*\}\}?)\+|\(\?>")


def test_no_expression_repeats_a_group_possessively() -> None:
    sources = Path(consolidator.__file__).parent.rglob("*.py")
    lines = [
        f"{path}:{number}: {line.strip()}"
        for path in sources
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if POSSESSIVE_GROUP.search(line)
    ]
    assert not lines, lines
