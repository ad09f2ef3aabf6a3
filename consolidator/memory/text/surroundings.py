"""Finds the sentence and the paragraph that a passage of a text stands in, and the heading above it."""

from __future__ import annotations

import re

_SENTENCE_END = re.compile(r"[.!?][\"')\]”’]*\s+|[。！？]|\n+")
_HEADING = re.compile(r"^[ \t]*(?:#+[ \t]+\S.*|\[{1,2}[^\[\]\n]+\]{1,2}[ \t]*|\S+[ \t]+\S.*:[ \t*_]*)$", re.MULTILINE)
_PARAGRAPH_END = re.compile(r"\n[ \t>]*\n")


def sentence_around(text: str, passage: str) -> str:
    """Return the sentences of a text that a passage is in or reaches into; the passage itself where it is not there."""
    return _span_around(text, passage, _SENTENCE_END)


def paragraph_around(text: str, passage: str) -> str:
    """Return the paragraphs of a text that a passage is in; the passage itself where it is not there."""
    return _span_around(text, passage, _PARAGRAPH_END)


def heading_above(text: str, passage: str) -> str:
    """Return the nearest line above a passage that heads what follows it: "## Tools", "[tool.ruff]"; "" without one."""
    start = text.find(passage)
    line_start = text.rfind("\n", 0, max(start, 0)) + 1
    headings = _HEADING.findall(text[:line_start])
    return headings[-1].strip() if headings else ""


def _span_around(text: str, passage: str, end: re.Pattern[str]) -> str:
    start = text.find(passage)
    if start < 0:
        return passage
    before = [match.end() for match in end.finditer(text, 0, start)]
    after = end.search(text, max(start + len(passage) - 1, start))
    return text[before[-1] if before else 0 : after.end() if after else len(text)].strip()
