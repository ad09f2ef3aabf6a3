"""The marks round what recall puts into a prompt, by which the nights tell it from what was said."""

from __future__ import annotations

import re

BEGIN, END = "<recalled-memory>", "</recalled-memory>"
_BLOCK = re.compile(rf"{re.escape(BEGIN)}.*?(?:{re.escape(END)}|\Z)", re.DOTALL | re.IGNORECASE)
_MARK = re.compile(r"<(/?)recalled-memory>", re.IGNORECASE)


def without_recalled(text: str) -> str:
    """Return a text without the blocks that recall put there; one that does not end goes to the end of the text."""
    return _BLOCK.sub(" ", text) if "<" in text else text


def unmarked(text: str) -> str:
    """Return a text that cannot begin or end a block."""
    return _MARK.sub(r"(\1recalled-memory)", text)
