"""Searches texts in any case. In plain ASCII this is several times faster than an expression that ignores case."""

from __future__ import annotations

import re

_CAPITAL = re.compile(r"\\.|\(\?P<\w+>|[A-Z]", re.DOTALL)  # of a pattern: an escape and a name stay as they are


class AnyCase:
    """An expression that ignores case; what it matches may be in lower case, and stands where it does in the text.

    One of its `stems`, in lower case and separated by "|", is in each match of ASCII characters: to look for them is
    faster still. Without any, nothing is looked for.
    """

    def __init__(self, pattern: str, flags: re.RegexFlag = re.NOFLAG, *, stems: str = "") -> None:
        self.pattern = re.compile(pattern, flags | re.IGNORECASE)
        lowered = _CAPITAL.sub(lambda part: part[0].lower() if len(part[0]) == 1 else part[0], pattern)
        self._lower = re.compile(lowered, flags)
        self._stems = stems.split("|")

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        """Return the first match in a text, from a position on."""
        if not text.isascii():
            return self.pattern.search(text, start)
        lowered = text.lower()
        return self._lower.search(lowered, start) if any(map(lowered.__contains__, self._stems)) else None

    def match(self, text: str) -> re.Match[str] | None:
        """Return the match at the beginning of a text."""
        return self._lower.match(text.lower()) if text.isascii() else self.pattern.match(text)
