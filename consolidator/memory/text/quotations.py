"""Tells what the author of a message only passes on: it is no word of theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator

_QUOTED = re.compile(  # of a line of dashes alone every one could begin it, and each would read to the end of the line
    r"^[ \t]*>|^-{3,}(?!-).{0,200}?(?:forwarded|original) message|^begin forwarded message", re.IGNORECASE
)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)")
_INK = re.compile(r"\S")
_BLOT = "\0"  # no white space, so that what is left out is cut and stripped as the words would be


def quoted_text(text: str) -> str:
    """Return the part of a message that its author quotes or pastes: quoted lines, fenced blocks, forwarded mail."""
    found = (line.lstrip().removeprefix(">") for line, others in _lines(text) if others)
    return "".join(found).rstrip("\r\n")


def split_quoted(text: str) -> tuple[str, str]:
    """Return a message with its author's own lines alone, and with those alone that they pass on.

    What is left out is blotted out: every word stays where it is, and no two stand together that did not before.
    """
    own, others = [], []
    for line, passed in _lines(text):
        blotted = _INK.sub(_BLOT, line)
        own.append(blotted if passed else line)
        others.append(line if passed else blotted)
    return "".join(own), "".join(others)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a message with their ends, and whether its author only passes them on."""
    fenced = forwarded = False
    for line in text.splitlines(keepends=True):
        fence = bool(_FENCE.match(line))
        quoted = bool(_QUOTED.match(line))
        forwarded = forwarded or (quoted and not line.lstrip().startswith(">"))
        yield line, fenced or fence or quoted or forwarded
        fenced = fenced != fence
