"""Finds the sentence and the paragraph that a passage of a text stands in."""

from __future__ import annotations

import re

_SENTENCE_END = re.compile(r"[.!?][\"')\]”’]*\s+|[。！？]|\n+")
_PARAGRAPH_END = re.compile(r"\n[ \t>]*\n")


def sentence_around(text: str, passage: str) -> str:
    """Return the sentences of a text that a passage is in or reaches into; the passage itself where it is not there."""
    return _span_around(text, passage, _SENTENCE_END)


def paragraph_around(text: str, passage: str) -> str:
    """Return the paragraphs of a text that a passage is in; the passage itself where it is not there."""
    return _span_around(text, passage, _PARAGRAPH_END)


def _span_around(text: str, passage: str, end: re.Pattern[str]) -> str:
    start = text.find(passage)
    if start < 0:
        return passage
    before = [match.end() for match in end.finditer(text, 0, start)]
    after = end.search(text, max(start + len(passage) - 1, start))
    return text[before[-1] if before else 0 : after.end() if after else len(text)].strip()
