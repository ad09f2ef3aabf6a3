"""Reads back what a question shows: the lines of a transcript, and the facts and sayings of a comparison."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_STRING = r'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(
    rf"^(?P<name>(?:s\d+)?[PASFECc]\d+)(?: (?P<detail>{_STRING}))?: (?P<words>{_STRING})(?: -> {_STRING})?$",
    re.MULTILINE,
)
_STATEMENT = re.compile(r"^([cf]\d+) (\{.*\})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line of a transcript as a model sees it."""

    name: str  # P1 to cite, c1 for context; s1P1 where several sessions are shown
    detail: str | None  # the speaker, or the call
    words: str

    @property
    def kind(self) -> str:
        """What the line shows: P, A, S, F, E, C, or c for context."""
        return self.name.lstrip("s0123456789")[0]

    @property
    def citable(self) -> bool:
        """Whether a fact may cite the line."""
        return self.kind == "P"


def parse_shown_lines(prompt: str) -> list[ShownLine]:
    """Return the lines of a transcript."""
    return [
        ShownLine(
            match["name"], json.loads(match["detail"]) if match["detail"] else None,
            json.loads(match["words"]),
        )
        for match in _LINE.finditer(prompt)
    ]  # fmt: skip


def parse_statements(prompt: str) -> dict[str, dict[str, Any]]:
    """Return the facts (f1, ...) and sayings (c1, ...) that a comparison shows, by name."""
    return {name: json.loads(statement) for name, statement in _STATEMENT.findall(prompt)}
