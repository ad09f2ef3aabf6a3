"""Tells whether a sentence denies a value: whether a negation governs it, and not something that stands beside it.

A negation governs what follows it in its own clause, and the subject that its verb follows ("tabs are never used").
Relative clauses, quotations and brackets without the value, and clauses with another subject or verb do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from consolidator.memory.text.similarity import is_negated, is_past

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
# Directly before the value: it is no longer so, unless the relation itself tells of what was.
_DEPARTURE = re.compile(
    r"\b(?:(?:mov|migrat|switch|shift|transition)(?:e?d|ing)\s+(?:away\s+from|off(?:\s+of)?|from)|"
    r"(?:got|gotten|getting)\s+rid\s+of|ditched|abandoned|phased\s+out)\s+(?:(?:the|our|my|their|his|her)\s+)?$",
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
_ASIDE = re.compile(
    r"\"[^\"]*\"|“[^”]*”|`[^`]*`|\([^()]*\)|\[[^\[\]]*\]"
    r"|,\s*(?:who|which|whose|whom|where)\b[^,;]*(?:,|$)",
    re.IGNORECASE,
)
_CLAUSE_BOUNDARY = re.compile(
    r"[;:]\s|\s[-–—]\s|—|[.!?]\s|\b(?:because|since|so|although|though|while|whereas|when|if|unless|but|which|who|whose|"
    r"that|aber|sondern|weil|mais|pero)\b",
    re.IGNORECASE,
)
_COORDINATION = re.compile(r",|\b(?:and|or|und|et|y)\b", re.IGNORECASE)
_OWN_VERB = re.compile(  # a verb, or the pronoun before one: what follows "and" is then a clause of its own
    r"\b(?:is|are|was|were|has|have|had|does|do|did|can|will|must|should|may|they|he|she|it|we|i|you)\b"
    r"|\b\w{2,}(?:s|ed)(?=\s*$|\s+(?!or\b|and\b)\w)",
    re.IGNORECASE,
)
_AUXILIARIES = frozenset({"has", "have", "had", "the", "was", "are", "does", "did", "been", "not"})
_STEM_CHARS = 4


def denies_value(sentence: str, predicate: str, value: str) -> bool:
    """Tell whether a sentence denies what a predicate and a value assert by themselves."""
    relation = predicate.replace("_", " ")
    if is_negated(f"{relation} {value}"):
        return False
    spans = list(_find_value(sentence, value))
    if not spans:
        return _governs(_CLAUSE_BOUNDARY.split(_without_asides(sentence, 0, 0), maxsplit=1)[0])
    return all(_is_denied_at(sentence, start, end, relation) for start, end in spans)


def _find_value(sentence: str, value: str) -> Iterator[tuple[int, int]]:
    """Yield the places of a value in a sentence; where it has other words, those of its last word that is there."""
    words = re.findall(r"\w+", value)
    whole = r"(?<!\w)" + r"\W+".join(map(re.escape, words)) + r"(?!\w)"
    stems = [re.escape(word[: max(_STEM_CHARS, len(word) - 2)]) for word in words if len(word) >= _STEM_CHARS]
    for pattern in [whole, *(rf"\b{stem}\w*" for stem in reversed(stems))] if words else ():
        if matches := list(re.finditer(pattern, sentence, re.IGNORECASE)):
            yield from (match.span() for match in matches)
            return


def _is_denied_at(sentence: str, start: int, end: int, relation: str) -> bool:
    text = _without_asides(sentence, start, end)
    before = _own_clause(text[:start])
    if _DEPARTURE.search(before):
        return not is_past(relation)
    if _governs(before):
        return True
    after = _COORDINATION.split(_CLAUSE_BOUNDARY.split(text[end:], maxsplit=1)[0], maxsplit=1)[0]
    denial = _FOLLOWING_DENIAL.match(after)
    if denial is not None:
        return _DENIED_USE.match(denial["rest"]) is not None or _names_relation(denial["rest"], relation)
    return _FOLLOWING_FOREIGN_DENIAL.search(after) is not None


def _without_asides(sentence: str, start: int, end: int) -> str:
    """Return a sentence of the same length in which the asides without the value are blank."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match.start() <= start and end <= match.end() else " " * len(match[0])

    return _ASIDE.sub(blank, sentence)


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
    """Tell whether a text has a word of a relation, by its beginning: "where they live" of "lives in"."""
    stems, named = (
        {word[:_STEM_CHARS] for word in re.findall(r"\w{3,}", part.casefold()) if word not in _AUXILIARIES}
        for part in (relation, text)
    )
    return not stems.isdisjoint(named)
