"""Tells what the author of a message only passes on: it is no word of theirs."""

from __future__ import annotations

import re

_QUOTED = re.compile(  # of a line of dashes alone every one could begin it, and each would read to the end of the line
    r"^[ \t]*>|^-{3,}(?!-).{0,200}?(?:forwarded|original) message|^begin forwarded message", re.IGNORECASE
)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)")


def passed_on(text: str) -> str:
    """Return the part of a message that its author quotes or pastes: quoted lines, fenced blocks, forwarded mail."""
    found: list[str] = []
    fenced = forwarded = False
    for line in text.splitlines():
        fence = bool(_FENCE.match(line))
        quoted = bool(_QUOTED.match(line))
        forwarded = forwarded or (quoted and not line.lstrip().startswith(">"))
        if fenced or fence or quoted or forwarded:
            found.append(line.lstrip().removeprefix(">"))
        fenced = fenced != fence
    return "\n".join(found)
