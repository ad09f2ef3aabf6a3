"""The markers around what memory puts into a prompt, so that the nights do not learn from it.

`strip_recalled` is what memory reads messages, reasons, goals and answers of the log through, and results where facts
are read from them; passages that people mark as private go with it. Calls and results for procedures and solutions are
read by `read_tool_value`, which takes out private passages alone.
"""

from __future__ import annotations

import re

from consolidator.memory.text.private import strip_private

RECALL_BEGIN, RECALL_END = "<recalled-memory>", "</recalled-memory>"
# Of a context's other blocks.
SUMMARY_TAG, SCRATCHPAD_TAG, EARLIER_TAG = "session-summary", "working_memory", "earlier-thread"
_TAGS = f"{SUMMARY_TAG}|{SCRATCHPAD_TAG}|{EARLIER_TAG}"
_RECALL_BLOCK = re.compile(rf"{re.escape(RECALL_BEGIN)}.*?(?:{re.escape(RECALL_END)}|\Z)", re.DOTALL | re.IGNORECASE)
_OTHER_BLOCK = re.compile(rf"<({_TAGS})>(?:(?!<(?:{_TAGS})>).)*?</\1>", re.DOTALL | re.IGNORECASE)
_CITATION = re.compile(r"\[(?:[a-z]+:|(?=[a-z]_))((?:[a-z]_)?[0-9a-f]{6,})\]")
_MARKER = re.compile(rf"<(/?)(recalled-memory|{_TAGS})>", re.IGNORECASE)


def strip_recalled(text: str) -> str:
    """Return a text without the blocks that memory put there, and without what its writer marked as private.

    A recall block without an end goes to the text's end.
    """
    text = strip_private(text)
    return _OTHER_BLOCK.sub(" ", _RECALL_BLOCK.sub(" ", text)) if "<" in text else text


def escape_markers(text: str) -> str:
    """Return a text that can neither begin nor end a block."""
    return _MARKER.sub(r"(\1\2)", text)


def wrap_block(text: str, tag: str) -> str:
    """Return a text as a block of a context; nothing in the text can end the block."""
    return f"<{tag}>\n{escape_markers(text)}\n</{tag}>"


def find_citations(text: str | None) -> list[str]:
    """Return the ids of what memory cites in a text, each once."""
    return list(dict.fromkeys(_CITATION.findall(text or "")))
