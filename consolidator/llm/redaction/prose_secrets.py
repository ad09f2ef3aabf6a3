"""Finds credentials in sentences, as in "the import token is fl_stg_T9x2"."""

from __future__ import annotations

import re

from consolidator.llm.redaction.credential_formats import CredentialSpan

_CREDENTIAL_WORDS = ("token", "password", "passwd", "passcode", "passphrase", "secret", "credential", "key")
_SENTENCE = re.compile(
    r"(?i)\b(?:(?P<weak>(?:api|access|private|secret|auth|license|signing|encryption)[ _-]?key)"
    r"|token|password|passwd|passcode|passphrase|secret|credentials?)"
    r"(?:\s{1,3}(?:is|was|are|still|now|remains|again|called|reads)){1,3}\s{0,3}[:=]?\s{0,3}[\"'`(<]?"
    r"(?P<value>[^\s\"'`()<>,;]{6,300})"
)
_TRAILING_PUNCTUATION = re.compile(r"[.!?:]+$")
_NO_SECRET = re.compile(r"^(?:https?://|[~./])|^[a-z]+(?:-[a-z]+)*$", re.IGNORECASE)


def find_prose_secrets(text: str, lowered: str) -> list[CredentialSpan]:
    """Return the credentials that sentences contain; a value without a digit counts as a word."""
    if not any(word in lowered for word in _CREDENTIAL_WORDS):
        return []
    spans: list[CredentialSpan] = []
    for match in _SENTENCE.finditer(text):
        value = _TRAILING_PUNCTUATION.sub("", match["value"])
        if any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and not _NO_SECRET.search(value):
            start = match.start("value")
            spans.append((start, start + len(value), "secret"))
    return spans
