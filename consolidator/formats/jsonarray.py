"""Reads the elements of a large JSON array one by one, so that a file of 500 MB needs the memory of an element.

One element may be as large as a line of JSONL; what comes after an element that is no JSON cannot be found again.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from consolidator.formats.base import Problem
from consolidator.formats.jsonl import MAX_LINE, parse_prefix

_CHUNK = 1024 * 1024
_SPACE = " \t\r\n\ufeff\x00"


def read_elements(path: Path) -> Iterator[Any]:
    """Yield each element of the array that a file is, then a Problem where it ends early or is no JSON."""
    with path.open("rb") as file:
        buffer = _Buffer(file)
        if buffer.skip() != "[":
            yield Problem("not a JSON array")
            return
        buffer.position += 1
        first = True
        while (mark := buffer.skip()) != "]":
            if not first and mark == ",":
                buffer.position += 1
                buffer.skip()
            elif not first or not mark:
                yield Problem("the array is not finished" if not mark else f"no comma but {mark!r} in the array")
                return
            try:
                yield buffer.element()
            except ValueError as error:
                yield Problem(str(error))
                return
            first = False


class _Buffer:
    """The part of the file's text that is at hand; invalid UTF-8 becomes U+FFFD."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._ended = False
        self.position = 0

    def skip(self) -> str:
        """Move past white space and return the character there; empty at the end."""
        while True:
            while self.position < len(self._text) and self._text[self.position] in _SPACE:
                self.position += 1
            if self.position < len(self._text):
                return self._text[self.position]
            if not self._more(_CHUNK):
                return ""

    def element(self) -> Any:
        """Return the value that begins here and move past it; raise ValueError with a reason if there is none."""
        while True:
            try:
                value, end = parse_prefix(self._text, self.position)
            except ValueError:
                # Perhaps the value only goes on beyond the buffer. Doubling keeps the work linear.
                if len(self._text) - self.position > MAX_LINE or not self._more(max(_CHUNK, len(self._text))):
                    raise
                continue
            if end == len(self._text) and self._more(_CHUNK):
                continue  # a number may go on
            self.position = end
            return value

    def _more(self, size: int) -> bool:
        """Read on, forgetting what was passed; tell whether anything came."""
        if self._ended:
            return False
        raw = self._file.read(size)
        self._ended = not raw
        self._text = self._text[self.position :] + self._decoder.decode(raw, final=self._ended)
        self.position = 0
        return bool(raw)
