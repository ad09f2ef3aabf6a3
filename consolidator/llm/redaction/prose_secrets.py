"""Finds credentials that a sentence gives away, as in "the import token is fl_stg_T9x2"."""

from __future__ import annotations

import re

from consolidator.llm.redaction.credential_formats import Span

_WORDS = ("token", "password", "passwd", "passcode", "passphrase", "secret", "credential", "key")
_TOLD = re.compile(
    r"(?i)\b(?:(?P<weak>(?:api|access|private|secret|auth|license|signing|encryption)[ _-]?key)"
    r"|token|password|passwd|passcode|passphrase|secret|credentials?)"
    r"(?:\s{1,3}(?:is|was|are|still|now|remains|again|called|reads)){1,3}\s{0,3}[:=]?\s{0,3}[\"'`(<]?"
    r"(?P<value>[^\s\"'`()<>,;]{6,300})"
)
_END = re.compile(r"[.!?:]+$")
_PROSE = re.compile(r"^(?:https?://|[~./])|^[a-z]+(?:-[a-z]+)*$", re.IGNORECASE)


def find_told(text: str, lowered: str) -> list[Span]:
    """Return where sentences name a credential; a value without a digit is taken for a word."""
    if not any(word in lowered for word in _WORDS):
        return []
    spans: list[Span] = []
    for found in _TOLD.finditer(text):
        value = _END.sub("", found["value"])
        if any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and not _PROSE.search(value):
            start = found.start("value")
            spans.append((start, start + len(value), "secret"))
    return spans
