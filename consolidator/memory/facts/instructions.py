"""Finds instructions that say how to do something; one alone is of its task, one that is repeated may last.

Different names of files and the like become "files", so that "read @a.py in full" and "read it in full" are one.
"""

from __future__ import annotations

import re

from consolidator.memory.text.phrasing import (
    is_hypothetical,
    is_question,
    is_transient,
    strip_lead_in,
    strip_punctuation,
)

MAX_WORDS = 14
_ORDER = re.compile(
    r"(?:read|write|run|use|check|show|explain|commit|test|format|name|keep|put|look|list|answer|review|search|follow|"
    r"update|verify|go|work|split|do|make|ask|open|create|add|edit|build|plan|think|start|print|log|return|call|give|"
    r"compare|prefer|double-check|re-read|reread)\b",
    re.IGNORECASE,
)
# Says how, and not only what: this is what may be meant for other tasks, too.
_MANNER = re.compile(
    r"\b(?:in full|fully|completely|entirely|thoroughly|carefully|properly|in detail|first|only|instead|without|before|"
    r"after|step by step|one by one|one at a time|as you go|at once|in parallel|verbatim|by hand)\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(
    r"\s*(?:[,;:!?]|\.\s|\s[-–—]\s|\b(?:please|pls|thanks|then|so that|and (?:then )?(?:tell|let|give|i|we)\b))"
)
_REFERENCE = r"(?:@\S+|(?:[\w.~-]*/)+[\w.@~-]*\w|[\w-]+\.[a-z]\w{0,4}\b|`[^`]+`)"
_OBJECT = re.compile(
    rf"(?:\b(?:this|that|these|those|the|all|both)\s+(?=files?\b|{_REFERENCE}))?"
    rf"(?:{_REFERENCE}(?:\s*,?\s*(?:and\s+)?{_REFERENCE})*(?:\s+files?\b)?|\b(?:files?)\b)",
    re.IGNORECASE,
)
_BARE_OBJECT = re.compile(r"\b(?:it|them|this|that|these|those)\b", re.IGNORECASE)


def find_instruction(sentence: str) -> str | None:
    """Return the order that a sentence gives, in a form that is the same for other files; None where it gives none."""
    if is_question(sentence) or is_hypothetical(sentence):
        return None
    order = strip_lead_in(sentence)
    if not _ORDER.match(order):
        return None
    end = _CLAUSE_END.search(order)
    order = _OBJECT.sub("files", order[: end.start()] if end else order)
    order = _BARE_OBJECT.sub("files", order).lower()
    order = strip_punctuation(re.sub(r"\s+", " ", re.sub(r"\b(?:the|a|an) ", "", order)))
    if not 3 <= len(order.split()) <= MAX_WORDS or not _MANNER.search(order) or is_transient(order):
        return None
    return order
