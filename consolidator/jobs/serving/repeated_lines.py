"""Count the lines of the log that repeat instead of writing them: a flood of errors must not fill the disk."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

WINDOW_SECONDS = 60.0
SAME_LINES = 1  # written in a window, of lines that are the same in every character
SIMILAR_LINES = 30  # of lines that differ in numbers alone, or in the values of one message
_MAX_KINDS = 500  # of lines remembered; beyond them the oldest is forgotten, and its count written
_COMPARED = 500  # characters of a line
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)


@dataclass(slots=True)
class _Kind:
    """Lines of one kind in a window."""

    began: float
    record: logging.LogRecord  # the last one
    written: int = 0
    held_back: int = 0


_Kinds = OrderedDict[tuple[str, int, str], _Kind]  # by logger, level and text, oldest first


class RepeatedLines(logging.Filter):
    """A filter of a handler: passes the first lines of a kind, and the number of those that it held back."""

    def __init__(self, handler: logging.Handler, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._handler = handler
        self._clock = clock
        self._same: _Kinds = OrderedDict()
        self._similar: _Kinds = OrderedDict()  # apart: many different lines must not push out what they have in common
        self._lock = threading.RLock()  # writing a count comes back to this filter

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is to be written."""
        if getattr(record, "is_count", False):
            return True
        try:
            text = record.getMessage()[:_COMPARED]
        except Exception:  # noqa: BLE001 - logging itself reports a message that does not fit its values
            return True
        template = str(record.msg)[:_COMPARED] if record.args else text
        same = (record.name, record.levelno, text)
        similar = (record.name, record.levelno, _NUMBER.sub("#", template))
        with self._lock:
            self.write_counts(only_ended=True)
            is_new = self._count(self._same, same, record, SAME_LINES)
            return is_new and self._count(self._similar, similar, record, SIMILAR_LINES)

    def _count(self, kinds: _Kinds, key: tuple[str, int, str], record: logging.LogRecord, most: int) -> bool:
        """Count a line of a kind; return whether it is one of the first."""
        kind = kinds.get(key)
        if kind is None:
            while len(kinds) >= _MAX_KINDS:
                self._write_count(kinds.popitem(last=False)[1])
            kind = kinds[key] = _Kind(self._clock(), record)
        kind.record = record
        if kind.written < most:
            kind.written += 1
            return True
        kind.held_back += 1
        return False

    def write_counts(self, *, only_ended: bool = False) -> None:
        """Write how many lines were held back; with `only_ended` those of windows that are over."""
        with self._lock:
            for kinds in (self._same, self._similar):
                while kinds:
                    key, kind = next(iter(kinds.items()))
                    if only_ended and self._clock() - kind.began < WINDOW_SECONDS:
                        break
                    del kinds[key]
                    self._write_count(kind)

    def _write_count(self, kind: _Kind) -> None:
        if not kind.held_back:
            return
        last = kind.record
        text = last.getMessage()[:_COMPARED].partition("\n")[0]
        message = "repeated %d times: %s"
        count = logging.LogRecord(last.name, last.levelno, last.pathname, last.lineno, message, None, None)
        count.args = (kind.held_back, text)
        count.is_count = True
        self._handler.handle(count)


@contextmanager
def counted_repetitions() -> Iterator[list[RepeatedLines]]:
    """Count repeated lines of every handler of the root logger, and write what was held back at the end."""
    filters = [(handler, RepeatedLines(handler)) for handler in logging.getLogger().handlers]
    for handler, lines in filters:
        handler.addFilter(lines)
    try:
        yield [lines for _, lines in filters]
    finally:
        for handler, lines in filters:
            lines.write_counts()
            handler.removeFilter(lines)
