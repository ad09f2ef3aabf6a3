"""Tells whether a sentence denies a value: whether a negation governs it, and not something that stands beside it.

A negation governs what follows it in its own clause, and the subject that its verb follows ("tabs are never used").
Relative clauses, quotations and brackets without the value, and clauses with another subject or verb do not count. What
nobody told or knew is not denied ("nobody told me that the port is 5433"), nor what the sentence states of the value
beside another verb ("it fails on Windows, our main platform").
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
# Directly before the value: it is no longer so, unless the relation itself tells of what was.
_DEPARTURE = re.compile(
    r"\b(?:(?:mov|migrat|switch|shift|transition)(?:e?d|ing)\s+(?:away\s+from|off(?:\s+of)?|from)|"
    r"(?:got|gotten|getting)\s+rid\s+of|ditched|abandoned|phased\s+out)\s+(?:(?:the|our|my|their|his|her)\s+)?",
    re.IGNORECASE,
)
_PAST_RELATION = re.compile(
    r"\b(?:from|former\w*|previous\w*|past|origin\w*|old|ex|left|native|home ?town|grew|childhood|born|decision|"
    r"(?!(?:based|employed|interested|located|married)\b)\w+ed)\b",
    re.IGNORECASE,
)
# "Cannot recommend it enough", "cannot praise her too highly": the words after the denied verb.
_INABILITY = re.compile(r"\b(?:can(?:not|['’]t| not| never)|could(?:n['’]t| not| never))\b", re.IGNORECASE)
_ENOUGH = re.compile(
    r"\W*(?:(?:highly|strongly|warmly|often)\s+)?enough\b|\W*too\s+(?:highly|strongly|often|much)\b", re.IGNORECASE
)
# Verbs whose clause is not denied with them; "think", "believe" and "true" pass a denial on to it.
_TELLING = re.compile(
    r"\b(?:tell|tells|telling|told|kn[eo]w|knows|known|say|says|saying|said|notic(?:e|es|ed|ing)|mention(?:s|ed|ing)?|"
    r"reali[sz](?:e|es|ed|ing)|inform(?:s|ed|ing)?|remember(?:s|ed|ing)?|remind(?:s|ed|ing)?|hear|hears|heard|"
    r"learn(?:s|ed|t)?|discover(?:s|ed)?|aware|admit(?:s|ted)?|reveal(?:s|ed)?|announc(?:e|es|ed)|"
    r"explain(?:s|ed)?|warn(?:s|ed)?|f(?:ind|inds|ound) out|underst(?:and|ands|ood))\b",
    re.IGNORECASE,
)
_THAT = re.compile(r"\s+(?:[\w'’-]+\s+){0,4}?that\s", re.IGNORECASE)
_NO_CLAUSE = re.compile(r"\s+(?:[\w'’-]+\s+)?(?:how|to|what|why|who|about|of)\b", re.IGNORECASE)
_FINITE_VERB = re.compile(r"\s+(?:is|are|was|were|has|have|had|does|did|can|will|must|should|may)\b", re.IGNORECASE)
_OWNER = r"(?:an?|the|our|my|their|his|her|your|[\w-]+['’]s)"
_DEFINITE = r"(?:the|our|my|their|his|her|your|this|[\w-]+['’]s)"
_BEFORE_APPOSITION = re.compile(  # "... the GPU, a <value>"; "... their daughter, <value>" where that is the relation
    rf"\b{_DEFINITE}\s+(?P<noun>(?:[\w-]+\s+){{0,3}}[\w-]+),\s+(?P<article>{_OWNER}\s+(?:[\w-]+\s+){{0,2}})?$",
    re.IGNORECASE,
)
_LIST = re.compile(r"[^.;:]*\b(?:or|nor|and)\b", re.IGNORECASE)
_APPOSITION = re.compile(rf"\W*,\s+{_OWNER}\s+(?P<clause>[^,;.]*)", re.IGNORECASE)
_RELATIVE = re.compile(r"\s*,?\s*(?:which|where|whom)\s+(?P<clause>[^,;.]*)", re.IGNORECASE)
_REFERRING_BACK = re.compile(
    r"[^.;]*?(?:;|\b(?:but|though|although|yet|while))\s+(?P<clause>[^.;]*\b(?:there|it|them)\b[^.;]*)", re.IGNORECASE
)
_HAVING = re.compile(
    r"(?:we|i|they|he|she|(?:the|our|their|my) [\w-]+|[A-Z][\w-]+) (?:(?:all|still|now|mostly|currently) )?"
    r"(?:use|uses|have|has|run|runs|own|owns|rely on|relies on)\b"
)
_ATTITUDE = re.compile(
    r"\b(?:lik|lov|enjoy|prefer|hat|fond|recommend|want|plan|favou?rit|interest|support|trust|admir|need)\w*",
    re.IGNORECASE,
)
# Words that a sentence has for a relation that is called otherwise.
_OTHER_WORDS = {"home": "live reside", "based": "live", "residence": "live", "employer": "work employ", "job": "work"}
_AUXILIARIES = frozenset({"has", "have", "had", "the", "was", "are", "does", "did", "been", "not"})
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
    is_denied = is_negated(text) or _DENIAL.search(text) is not None or _DEPARTURE.search(text) is not None
    return is_denied or "refus" in text or "gave up" in text


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
    before = _own_clause(text[:start], text[end:], relation)
    if _departs(before):
        return _PAST_RELATION.search(relation) is None
    if _governs(before):
        return not _is_asserted_beside(before, sentence[end:], relation)
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


def _own_clause(before: str, after: str, relation: str) -> str:
    """Return the part of what stands before a value that belongs to the value's own clause."""
    clause = before[max((match.end() for match in _CLAUSE_BOUNDARY.finditer(before)), default=0) :]
    for coordination in reversed(list(_COORDINATION.finditer(clause))):
        if _OWN_VERB.search(clause, coordination.end()):
            return clause[coordination.end() :]
    for telling in reversed(list(_TELLING.finditer(clause))):
        if not _names_relation(telling[0], relation):
            told = clause[telling.end() :]
            if (that := _THAT.match(told)) is not None:
                return told[that.end() :]
            if not _NO_CLAUSE.match(told) and (_OWN_VERB.search(told) or _FINITE_VERB.match(after)):
                return told
    return clause


def _is_asserted_beside(before: str, after: str, relation: str) -> bool:
    """Tell whether a value is asserted although its clause is denied: that is about something else, or exaggerates."""
    if _INABILITY.search(before) and _ENOUGH.match(after):
        return True
    relation = " ".join([relation, *(words for name, words in _OTHER_WORDS.items() if name in relation.split())])
    apposed = _BEFORE_APPOSITION.search(before)
    if _names_relation(before[: apposed.start()] if apposed else before, relation):
        return False
    if apposed and not _LIST.match(after) and (apposed["article"] or _names_relation(apposed["noun"], relation)):
        return True
    if (apposition := _APPOSITION.match(after)) is not None and _names_relation(apposition["clause"], relation):
        return True
    for clause in (match["clause"] for form in (_RELATIVE, _REFERRING_BACK) if (match := form.match(after))):
        has_it = _HAVING.match(clause) is not None and not _ATTITUDE.search(relation)
        if not _has_denial(clause) and (has_it or _names_relation(clause, relation)):
            return True
    return False


def _departs(before: str) -> bool:
    """Tell whether the words before a value say that it is left behind ("moved away from")."""
    return any(match.end() == len(before) for match in _DEPARTURE.finditer(before))


def _governs(before: str) -> bool:
    """Tell whether a negation governs what follows these words of its clause."""
    denial = _DENIAL.search(before)
    if denial is None:
        return _WEAK_DENIAL.search(before) is not None
    return _REVERSAL.search(before, denial.end()) is None


def _names_relation(text: str, relation: str) -> bool:
    """Tell whether a text has a word of a relation, in any form: "where they live" of "lives in"."""
    words = _stems(relation)
    return bool((words - _AUXILIARIES or words) & _stems(text))


def _stems(text: str) -> set[str]:
    """Return the beginnings of the longer words of a text: of "used" and "uses" the same."""
    words = (word.casefold() for word in re.findall(r"\w{3,}", text))
    return {re.sub(r"(?:es|ed|ing|e|s)$", "", word)[:_STEM_CHARS] if len(word) > 3 else word for word in words} | {
        word[:_STEM_CHARS].casefold() for word in re.findall(r"\w{3,}", text)
    }
