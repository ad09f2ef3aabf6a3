"""Reads whole JSON files; of an array that is too long to be held, its elements."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from consolidator.formats.base import Problem
from consolidator.formats.common.json_parsing import parse_json, parse_prefix
from consolidator.formats.common.log_files import open_log, read_whole

MAX_MEMBER = 64 * 1024 * 1024  # characters; a longer record is a Problem, and ends its file
_MAX_NOTE = 16 * 1024 * 1024  # bytes of a file beside a log
_CHUNK = 1024 * 1024
_SPACE = " \t\r\n\x00"


class _DamagedJson(Exception):
    """The text is not valid JSON from here on, so no further element can be found."""


class _TextWindow:
    """A window of the text that moves forward, and grows if an element needs it."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text = ""
        self._position = 0
        self._ended = False
        self.line = 1

    def _read_more(self) -> bool:
        """Read more, doubling the window, so that a long element is parsed only a few times."""
        if self._ended:
            return False
        rest = self._text[self._position :]
        chunk = self._file.read(max(_CHUNK, len(rest)))
        self._ended = not chunk
        self._text, self._position = rest + chunk, 0
        return not self._ended

    def _advance(self, end: int) -> None:
        self.line += self._text.count("\n", self._position, end)
        self._position = end

    def peek(self) -> str:
        """Return the next character that is not whitespace; an empty text at the end."""
        while True:
            end = self._position
            while end < len(self._text) and self._text[end] in _SPACE:
                end += 1
            self._advance(end)
            if end < len(self._text):
                return self._text[end]
            if not self._read_more():
                return ""

    def expect(self, expected: str) -> None:
        """Consume one of the expected characters."""
        character = self.peek()
        if not character or character not in expected:
            raise _DamagedJson(
                f"expected one of {expected!r}, found {character!r}" if character else "the file ends too early"
            )
        self._advance(self._position + 1)

    def read_value(self) -> Any:
        """Consume and return the next JSON value."""
        self.peek()
        while True:
            try:
                value, end = parse_prefix(self._text, self._position)
            except ValueError as error:
                # The value may continue beyond the window.
                if len(self._text) - self._position > MAX_MEMBER or not self._read_more():
                    raise _DamagedJson(str(error)) from None
                continue
            if end == len(self._text) and self._read_more():
                continue  # a number may continue
            self._advance(end)
            return value


def read_elements(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield line and value of each element of the array in a file.

    If the text is damaged or nested too deeply, the last value is a Problem.
    """
    with io.TextIOWrapper(open_log(path), encoding="utf-8-sig", errors="replace", newline="") as file:
        window = _TextWindow(file)
        try:
            window.expect("[")
            is_first = True
            while window.peek() != "]":
                if not is_first:
                    window.expect(",")
                    window.peek()
                is_first = False
                yield window.line, window.read_value()
            window.expect("]")
            if window.peek():
                raise _DamagedJson("more text after the end of the JSON value")
        except _DamagedJson as damage:
            yield window.line, Problem(str(damage), window.line)


def read_note(path: Path) -> dict[str, Any]:
    """Return the object that a file beside a log is, an array as its `items`; an empty one where it cannot be read."""
    try:
        value = read_json(path, _MAX_NOTE)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {"items": value} if isinstance(value, list) else {}


def read_json(path: Path, most: int) -> Any:
    """Return the JSON value that a file is; a Problem where it is none, or has more than `most` bytes."""
    content = read_whole(path, most)
    if content is None:
        return Problem(f"one JSON value of more than {most} bytes")
    try:
        return parse_json(content.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        return Problem(str(error))
