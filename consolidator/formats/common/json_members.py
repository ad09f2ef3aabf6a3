"""Reads the members of one JSON object or array from a file, one after the other, holding one at a time.

For files that are a single JSON text of many records; nothing here knows a format.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from consolidator.formats.base import Problem
from consolidator.formats.common.jsonl import parse_prefix

MAX_MEMBER = 64 * 1024 * 1024  # characters; a longer record is a Problem, and ends the reading of its file
_CHUNK = 1024 * 1024
_SPACE = " \t\r\n\x00"


class _Damaged(Exception):
    """The text stops being JSON here; without its structure nothing after it can be found."""


class _Window:
    """A window of the text that moves forward, and grows where one member needs it."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text = ""
        self._position = 0
        self._ended = False
        self.line = 1

    def _grow(self) -> bool:
        """Read more, twice as much each time, so that a long member costs no more than a few tries."""
        if self._ended:
            return False
        rest = self._text[self._position :]
        more = self._file.read(max(_CHUNK, len(rest)))
        self._ended = not more
        self._text, self._position = rest + more, 0
        return not self._ended

    def _advance(self, end: int) -> None:
        self.line += self._text.count("\n", self._position, end)
        self._position = end

    def peek(self) -> str:
        """Return the next character that is not space, or nothing at the end."""
        while True:
            end = self._position
            while end < len(self._text) and self._text[end] in _SPACE:
                end += 1
            self._advance(end)
            if end < len(self._text):
                return self._text[end]
            if not self._grow():
                return ""

    def skip(self, expected: str) -> None:
        """Go past one of the characters expected."""
        found = self.peek()
        if not found or found not in expected:
            raise _Damaged(f"expected one of {expected!r}, found {found!r}" if found else "the file ends too early")
        self._advance(self._position + 1)

    def value(self) -> Any:
        """Return the next JSON value and go past it."""
        self.peek()
        while True:
            try:
                value, end = parse_prefix(self._text, self._position)
            except ValueError as error:
                # Perhaps it only goes on beyond the window.
                if len(self._text) - self._position > MAX_MEMBER or not self._grow():
                    raise _Damaged(str(error)) from None
                continue
            if end == len(self._text) and self._grow():
                continue  # a number may go on
            self._advance(end)
            return value


def read_members(path: Path) -> Iterator[tuple[int, str, Any]]:
    """Yield line, key and value of each member of the one object or array in a file; an array's keys are its indexes.

    Where the text is damaged, or nested too deeply to be held, a last Problem says so.
    """
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        window = _Window(file)
        try:
            yield from _members(window)
        except _Damaged as damage:
            yield window.line, "", Problem(str(damage), window.line)


def _members(window: _Window) -> Iterator[tuple[int, str, Any]]:
    opening = window.peek()
    window.skip("{[")
    closing = "}" if opening == "{" else "]"
    index = 0
    while window.peek() != closing:
        if index:
            window.skip(",")
        window.peek()
        line, key = window.line, str(index)
        if opening == "{":
            key = str(window.value())
            window.skip(":")
        yield line, key, window.value()
        index += 1
    window.skip(closing)
    if window.peek():
        raise _Damaged("there is more after the end of the JSON text")
