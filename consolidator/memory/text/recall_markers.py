"""The marks round what memory puts into a prompt, by which the nights tell it from what was said."""

from __future__ import annotations

import re

RECALL_BEGIN, RECALL_END = "<recalled-memory>", "</recalled-memory>"
SUMMARY_TAG, SCRATCHPAD_TAG = "session-summary", "working_memory"  # the tags of a context's other blocks
_BLOCK = re.compile(rf"{re.escape(RECALL_BEGIN)}.*?(?:{re.escape(RECALL_END)}|\Z)", re.DOTALL | re.IGNORECASE)
_TAGS = f"{SUMMARY_TAG}|{SCRATCHPAD_TAG}"
_OTHER = re.compile(rf"<({_TAGS})>(?:(?!<(?:{_TAGS})>).)*?</\1>", re.DOTALL | re.IGNORECASE)
_MARK = re.compile(rf"<(/?)(recalled-memory|{_TAGS})>", re.IGNORECASE)


def strip_recalled(text: str) -> str:
    """Return a text without the blocks that memory put there; a recalled one that does not end goes to the end."""
    return _OTHER.sub(" ", _BLOCK.sub(" ", text)) if "<" in text else text


def escape_markers(text: str) -> str:
    """Return a text that cannot begin or end a block."""
    return _MARK.sub(r"(\1\2)", text)


def wrap_block(text: str, tag: str) -> str:
    """Return a text as a block of a context, which nothing in it can end."""
    return f"<{tag}>\n{escape_markers(text)}\n</{tag}>"
