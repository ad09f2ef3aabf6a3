"""Tells whether a sentence denies a value: by what stands before it in its own clause, or by the verb after it."""

from __future__ import annotations

import re

from consolidator.memory.text.similarity import is_negated

_DENIAL = re.compile(
    r"n['’]t\b|\b(?:cannot|never|no|nobody|none|neither|nor|without|stopp\w+|gave up|kein\w*|nie|ohne|jamais|nunca)\b"
    r"|(?<![-\w])not\b(?!-| (?:only|just|necessarily|more|less)\b)|\bnicht\b(?! nur)|\bpas\b(?! seulement)",
    re.IGNORECASE,
)
# After a denial these make an assertion of it: "does not mind", "cannot do without".
_REVERSAL = re.compile(r"\b(?:mind\w*|miss\w*|wait|enough|without|stop\w*|until)\b", re.IGNORECASE)
_DENIED_AFTER = re.compile(
    r"\W*(?:(?:is|are|was|were|may|must)(?:n['’]t| not| never| no longer)|nicht|pas)\b", re.IGNORECASE
)
_CLAUSE_END = re.compile(
    r"[;:,.]\s|\s[-–—]\s|\b(?:because|since|although|while|when|if|unless|until|but|which|who|that|and|how|aber|sondern|"
    r"mais|pero)\b",
    re.IGNORECASE,
)


def denies_value(sentence: str, predicate: str, value: str) -> bool:
    """Tell whether a sentence denies what a predicate and a value assert by themselves."""
    if is_negated(f"{predicate.replace('_', ' ')} {value}"):
        return False
    place = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", sentence, re.IGNORECASE)
    before = _CLAUSE_END.split(sentence[: place.start()])[-1] if place else _CLAUSE_END.split(sentence, maxsplit=1)[0]
    denial = _DENIAL.search(before)
    if denial is not None:
        return _REVERSAL.search(before, denial.end()) is None
    return place is not None and _DENIED_AFTER.match(sentence, place.end()) is not None
