"""Tells whether a sentence denies a value: whether a negation governs it, and not something that stands beside it.

A negation governs what follows it in its own clause, and the subject that its verb follows ("tabs are never used").
Relative clauses, quotations and brackets without the value, and clauses with another subject or verb do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from consolidator.memory.text.similarity import is_negated

_DENIAL = re.compile(
    r"n['’]t\b|\b(?:cannot|never|no longer|nobody|no one|none|neither|nor|nicht(?! nur| mehr als)|nie|kein\w*|"
    r"pas(?! seulement)|jamais|nunca)\b"
    r"|(?<![-\w])not\b(?!-| (?:only|just|merely|simply|necessarily|(?:more|less|fewer|later|earlier) than)\b)",
    re.IGNORECASE,
)
# Directly before the value: in "no better tool than X" nothing is said against X.
_WEAK_DENIAL = re.compile(
    r"\b(?:no|without|ohne|sans)\s+(?:\w+\s+)?$"
    r"|\b(?:stopp\w+|stops|quit|ceased|gave up|given up|refus\w+ to|declin\w+ to)\s+\w+\b",
    re.IGNORECASE,
)
# After a denial these make an assertion of it: "does not mind", "cannot do without", "never stopped".
_REVERSAL = re.compile(
    r"\b(?:mind\w*|miss\w*|forget\w*|fail\w*|avoid\w*|dislike\w*|hate\w*|refuse\w*|reject\w*|stop\w*|quit|lack\w*|regret\w*|"
    r"without|object\w*|wait|get enough|resist|help but|imagine)\b|\b(?:until|till|before)\s+(?:\w+\s+)?$",
    re.IGNORECASE,
)
_FOLLOWING_DENIAL = re.compile(
    r"\W*(?:cannot|can['’]t|(?:is|are|was|were|do|does|did|has|have|had|could|may|might|must|should|will|would|shall|need|"
    r"wo)(?:n['’]t|\s+(?:not|never|no longer)))\b(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_FOLLOWING_FOREIGN_DENIAL = re.compile(r"\b(?:nicht|nie|pas|jamais|nunca)\b", re.IGNORECASE)
_DENIED_USE = re.compile(
    r"\s*(?:be |been |being )?(?:used|allowed|permitted|wanted|welcome|available|an option|in use|the case|true)\b",
    re.IGNORECASE,
)
_QUOTATION = re.compile(r"\"[^\"]*\"|“[^”]*”|`[^`]*`|\([^()]*\)|\[[^\[\]]*\]")
_RELATIVE_CLAUSE = re.compile(r",\s*(?:who|which|whose|whom|where)\b[^,;]*(?:,|$)", re.IGNORECASE)
_CLAUSE_BOUNDARY = re.compile(
    r"[;:]\s|\s[-–—]\s|—|[.!?]\s|\b(?:because|since|so|although|though|while|whereas|when|if|unless|but|which|who|whose|"
    r"aber|sondern|weil|mais|pero)\b",
    re.IGNORECASE,
)
_COORDINATION = re.compile(r",|\b(?:and|or|und|et|y)\b", re.IGNORECASE)
_RELATIVE_PRONOUN = re.compile(r",|\b(?:that|and|und|et)\b", re.IGNORECASE)
_OWN_VERB = re.compile(  # a verb, or the pronoun before one: what follows "and" is then a clause of its own
    r"\b(?:is|are|was|were|has|have|had|does|do|did|can|will|must|should|may|they|he|she|it|we|i|you)\b"
    r"|\b\w{2,}(?:s|ed)(?=\s*$|\s+(?!or\b|and\b)\w)",
    re.IGNORECASE,
)
_STEM_CHARS = 4


def denies_value(sentence: str, predicate: str, value: str) -> bool:
    """Tell whether a sentence denies what a predicate and a value assert by themselves."""
    relation = predicate.replace("_", " ")
    if is_negated(f"{relation} {value}") or not _has_denial(sentence):
        return False
    spans = list(_find_value(sentence, value))
    if not spans:
        first_clause = _CLAUSE_BOUNDARY.split(_without_asides(sentence, 0, 0), maxsplit=1)[0]
        return _governs(first_clause)
    denials = [_is_denied_at(sentence, start, end, relation) for start, end in spans]
    return all(denials) or any(
        denied and _names_relation(sentence[:start].rpartition(",")[2], relation)
        for denied, (start, _) in zip(denials, spans, strict=True)
    )


def _has_denial(text: str) -> bool:
    return is_negated(text) or _DENIAL.search(text) is not None or "refus" in text or "gave up" in text


def _find_value(sentence: str, value: str) -> Iterator[tuple[int, int]]:
    """Yield the places of a value in a sentence; where it has other words, those of its last word that is there."""
    words = re.findall(r"\w+", value)
    if not words:
        return
    whole = re.compile(r"(?<!\w)" + r"\W+".join(map(re.escape, words)) + r"(?!\w)", re.IGNORECASE)
    matches = list(whole.finditer(sentence))
    for word in () if matches else reversed(words):
        if len(word) >= _STEM_CHARS:
            matches = list(re.finditer(rf"\b{re.escape(word[: max(_STEM_CHARS, len(word) - 2)])}\w*", sentence, re.I))
            if matches:
                break
    yield from (match.span() for match in matches)


def _is_denied_at(sentence: str, start: int, end: int, relation: str) -> bool:
    text = _without_asides(sentence, start, end)
    before = _own_clause(text[:start])
    if _governs(before):
        return True
    after = _RELATIVE_PRONOUN.split(_CLAUSE_BOUNDARY.split(text[end:], maxsplit=1)[0], maxsplit=1)[0]
    denial = _FOLLOWING_DENIAL.match(after)
    if denial is not None:
        return _DENIED_USE.match(denial["rest"]) is not None or _names_relation(denial["rest"], relation)
    return _FOLLOWING_FOREIGN_DENIAL.search(after) is not None


def _without_asides(sentence: str, start: int, end: int) -> str:
    """Return a sentence of the same length in which the asides without the value are blank."""

    def blank(match: re.Match[str]) -> str:
        has_value = match.start() <= start and end <= match.end()
        return match[0] if has_value else " " * len(match[0])

    return _RELATIVE_CLAUSE.sub(blank, _QUOTATION.sub(blank, sentence))


def _own_clause(before: str) -> str:
    """Return the part of what stands before a value that belongs to the value's own clause."""
    clause = before[max((match.end() for match in _CLAUSE_BOUNDARY.finditer(before)), default=0) :]
    for coordination in reversed(list(_COORDINATION.finditer(clause))):
        if _OWN_VERB.search(clause, coordination.end()):
            return clause[coordination.end() :]
    return clause


def _governs(before: str) -> bool:
    """Tell whether a negation governs what follows these words of its clause."""
    denial = _DENIAL.search(before)
    if denial is None:
        return _WEAK_DENIAL.search(before) is not None
    return _REVERSAL.search(before, denial.end()) is None


def _names_relation(text: str, relation: str) -> bool:
    """Tell whether a text has a word of a relation, in any form: "where they live" of "lives in"."""
    stems = {word[:_STEM_CHARS].casefold() for word in re.findall(r"\w{3,}", relation)}
    return any(word[:_STEM_CHARS].casefold() in stems for word in re.findall(r"\w{3,}", text))
