"""Separates a message's own words from what its author only quotes: quoted lines, pasted blocks, forwarded mail."""

from __future__ import annotations

import re
from collections.abc import Iterator

from consolidator.memory.text.pasted import find_pasted

# Dashes must be followed by something else: in a long line of dashes every one would start a search to its end.
_QUOTED_LINE = re.compile(
    r"^[ \t]*>|^-{3,}(?!-).{0,200}?(?:forwarded|original) message|^begin forwarded message", re.IGNORECASE
)
_NON_SPACE = re.compile(r"\S")
BLANK = "\0"  # no white space, so that blanked words are cut and stripped as words are


def quoted_text(text: str) -> str:
    """Return the part of a message that its author quotes or pastes."""
    quoted = (line.lstrip().removeprefix(">") for line, is_quoted in _mark_lines(text) if is_quoted)
    return "".join(quoted).rstrip("\r\n")


def split_quoted(text: str) -> tuple[str, str]:
    """Return a message with its author's own lines alone, and with the quoted lines alone.

    The other lines are blanked out: every word stays in its place, and no two become neighbours that were not.
    """
    own, quoted = [], []
    for line, is_quoted in _mark_lines(text):
        blanked = _NON_SPACE.sub(BLANK, line)
        own.append(blanked if is_quoted else line)
        quoted.append(line if is_quoted else blanked)
    return "".join(own), "".join(quoted)


def _mark_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines and blocks of a message in order, with their ends, and whether its author only quotes them."""
    in_forwarded = False
    done = 0
    for start, end in [*find_pasted(text, inline=False), (len(text), len(text))]:
        for line in text[done:start].splitlines(keepends=True):
            is_quoted = bool(_QUOTED_LINE.match(line))
            in_forwarded = in_forwarded or (is_quoted and not line.lstrip().startswith(">"))
            yield line, is_quoted or in_forwarded
        yield from ((line, True) for line in text[start:end].splitlines(keepends=True))
        done = end
