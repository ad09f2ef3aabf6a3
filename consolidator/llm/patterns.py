"""Expressions that are compiled when they are first used: a command that answers one question needs few of them.

Those that ignore case search plain ASCII in lower case, which is several times faster.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LazyPattern:
    """Stands for a compiled expression; what is asked of it once is its own from then on."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern, self.flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(re.compile(self.pattern, self.flags), name)
        setattr(self, name, value)
        return value


def lazy_regex(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return an expression that is compiled by its first search; the functions of `re` do not take it."""
    return cast(re.Pattern[str], _LazyPattern(pattern, flags))


_CAPITAL = lazy_regex(r"\\.|\(\?P<\w+>|[A-Z]", re.DOTALL)  # of a pattern: an escape and a name stay as they are


class AnyCase:
    """An expression that ignores case; what it matches may be in lower case, and stands where it does in the text.

    One of its `stems`, in lower case and separated by "|", is in each match of ASCII characters: to look for them is
    faster still. Without any, nothing is looked for.
    """

    def __init__(self, pattern: str, flags: re.RegexFlag = re.NOFLAG, *, stems: str = "") -> None:
        self.pattern = lazy_regex(pattern, flags | re.IGNORECASE)
        lowered = _CAPITAL.sub(lambda part: part[0].lower() if len(part[0]) == 1 else part[0], pattern)
        self._lower = lazy_regex(lowered, flags)
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
