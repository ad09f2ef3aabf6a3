"""Reads back what a question shows: the lines of a transcript, and the facts and sayings of a comparison."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_STRING = r'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(
    rf"^(?P<name>(?:s\d+)?[ce]\d+) (?P<source>\w+)(?: (?P<detail>{_STRING}))?: (?P<words>{_STRING})$",
    re.MULTILINE,
)
_STATEMENT = re.compile(r"^([cf]\d+) (\{.*\})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line of a transcript as a model sees it."""

    name: str  # e1 to cite, c1 for context; s1e1 where several sessions are shown
    source: str  # user | tool | agent | approval
    detail: str | None  # the speaker, or the call
    words: str

    @property
    def citable(self) -> bool:
        """Whether the line may be cited."""
        return "e" in self.name


def parse_shown_lines(prompt: str) -> list[ShownLine]:
    """Return the lines of a transcript."""
    return [
        ShownLine(
            match["name"], match["source"], json.loads(match["detail"]) if match["detail"] else None,
            json.loads(match["words"]),
        )
        for match in _LINE.finditer(prompt)
    ]  # fmt: skip


def parse_statements(prompt: str) -> dict[str, dict[str, Any]]:
    """Return the facts (f1, ...) and sayings (c1, ...) that a comparison shows, by name."""
    return {name: json.loads(statement) for name, statement in _STATEMENT.findall(prompt)}
