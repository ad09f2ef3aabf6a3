"""Finds credentials in sentences, as in "the import token is fl_stg_T9x2" or "das Passwort lautet T9x2!q"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from consolidator.llm.redaction.credential_formats import CredentialSpan
from consolidator.llm.redaction.credential_names import is_credential_key
from consolidator.llm.redaction.value_shapes import looks_random, mixes_kinds

_VERB = "is|was|are|still|now|remains|again|called|reads|ist|lautet|war|est|c'est|es|era|é|è|är|er|to|это"
_PARTICLE = "は|是|为|為|는|은"  # no space follows these
# "password for the staging box is X" and "password (staging): X" say what it is for; "key you need: X" who needs it.
_PURPOSE = (
    r"(?P<purpose>(?:\s{1,3}(?:for|of|to|on|in|at|from|für|zum|pour|para|de|voor)\s{1,3}[\w./@'-]{1,40}"
    r"(?:\s{1,3}[\w./@'-]{1,40}){0,3}?)?(?:\s{0,3}\([^()\n]{1,40}\))?(?:\s{1,3}(?:you|we|they)\s{1,3}[a-z]{2,12})?)"
)
# What follows the telling part of a noun: its end, its purpose, what joins it to the credential, and this.
_AFTER_NOUN = re.compile(
    rf"(?i)(?:s|e|et|n|nr|ña)?{_PURPOSE}"
    rf"(?:(?:\s{{1,3}}(?:{_VERB})(?![a-z])){{1,3}}\s{{0,3}}[:=]?|\s{{0,3}}(?:{_PARTICLE})|(?P<colon>\s{{0,3}}[:=：]))"
    r"\s{0,3}[\"'`(<«„“「]{0,2}(?P<value>[^\s\"'`()<>,;»“”」、。，！]{6,300})"
)
_ENGLISH = frozenset(["token", "password", "passwd", "passcode", "passphrase", "secret", "credential", "creds", "key"])
_NO_NOUN = frozenset(["auth", "psk", "jwt", "pwd", "_pat", "_pw"])
# "credentials: ops / X", "log in with ops / X"
_PAIR = re.compile(
    r"(?i)(?:credentials?|creds|log\s?in)\b[^\n/]{0,40}?[\s:]\s{0,3}[\w.@-]{1,64}\s{1,2}/\s{1,2}(?P<value>[^\s\"'`()<>,;]{6,128})"
)
_TRAILING_PUNCTUATION = re.compile(r"[.!?:]+$")
_ASCII_PREFIX = re.compile(r"[\x21-\x7e]+")
_NO_SECRET = re.compile(r"^(?:https?://|[~./])|^[a-z]+(?:-[a-z]+)*$", re.IGNORECASE)


def find_prose_secrets(text: str, lowered: str, names: Sequence[re.Match[str]]) -> Iterator[CredentialSpan]:
    """Yield the credentials that sentences contain; a value without a digit counts as a word.

    `names` are the telling words that `credential_names` found.
    """
    for name in names:
        word = name.group()
        if word in _NO_NOUN or (word == "pass" and not lowered.startswith("mot de ", name.start() - 7)):
            continue
        if word == "key" and not is_credential_key(text, lowered, name.start()):
            continue
        match = _AFTER_NOUN.match(text, name.end())
        if match is None:
            continue
        span = _judge(match["value"], match.start("value"))
        if span is None or (match["colon"] and not _is_told_by_colon(word, match["purpose"], text[span[0] : span[1]])):
            continue
        yield span
    if names and " / " in text:
        for match in _PAIR.finditer(text):
            span = _judge(match["value"], match.start("value"))
            if span is not None:
                yield span


def _is_told_by_colon(noun: str, purpose: str, value: str) -> bool:
    """Tell whether a colon is enough; after an English noun alone it is an assignment, which is judged elsewhere."""
    return (bool(purpose) or noun not in _ENGLISH) and (looks_random(value) or mixes_kinds(value))


def _judge(found: str, start: int) -> CredentialSpan | None:
    value = _TRAILING_PUNCTUATION.sub("", found)
    ascii_part = _ASCII_PREFIX.match(value)
    if ascii_part is not None and len(ascii_part.group()) >= 6:
        value = ascii_part.group()  # Japanese goes on without a space
    if any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and not _NO_SECRET.search(value):
        return start, start + len(value), "secret"
    return None
