"""Standard output and standard error as they are: texts, flushed, without colours or tables.

It needs the standard library only, so that a command that is not found costs no more than saying so.
"""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar

_AS_JSON = ContextVar("json", default=False)


class OutputClosed(Exception):
    """The reader of our output, such as `head`, has closed it: not an error, but nothing more can be written."""


def set_json(is_asked: bool) -> None:
    """Have commands print JSON for programs from now on, as the option --json does, or what people read."""
    _AS_JSON.set(is_asked)


def is_json() -> bool:
    """Tell whether the command prints JSON for programs."""
    return _AS_JSON.get()


def write_text(text: str) -> None:
    """Write a text to standard output as it is."""
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise OutputClosed from None


def write_now(text: str) -> None:
    """Write a text to standard output and flush it."""
    write_text(text)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise OutputClosed from None


def flush_output() -> OSError | None:
    """Flush standard output; return why it cannot be written to, such as a full disk, but not that its reader is gone.

    Either way, keep the interpreter from reporting it at exit.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return None if isinstance(error, BrokenPipeError) else error
    return None


def write_error(text: str, colour: int = 31) -> None:
    """Write a line to standard error, on a terminal in a colour of ANSI's (31 is red, 33 yellow)."""
    is_plain = not sys.stderr.isatty() or os.environ.get("TERM") in ("dumb", "unknown") or os.environ.get("NO_COLOR")
    sys.stderr.write(f"{text}\n" if is_plain else f"\x1b[{colour}m{text}\x1b[0m\n")
