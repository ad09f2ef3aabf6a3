"""Finds instructions that say how to do something; one alone is of its task, one that is repeated may last.

Different names of files and the like become "files", so that "read @a.py in full" and "read it in full" are one.
"""

from __future__ import annotations

import re

from consolidator.memory.text.phrasing import (
    is_hypothetical,
    is_question,
    is_transient,
    mend_contractions,
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
_OBLIGATION = re.compile(r"you (?:really )?(?:need to|have to|must|should|ought to|are to) (?:please )?", re.IGNORECASE)
# What something is to do or be: "components should use css modules". Of nobody's doing or wishing, and no guess.
_SHOULD = re.compile(
    r"(?!(?:i|you|we|it|this|that|these|those|they|he|she|there|here|what|which|who|if|when|why|how|then|so|and|but|"
    r"or)\b)"
    r"(?:[\w`.-]+ ){1,5}?(?:should(?: not|n't)?) (?:use|return|throw|raise|follow|have|contain|start|end|live|be|"
    r"accept|"
    r"call|log|inherit|extend|import|export|take|read|write)\b(?! (?:been|\w+ed\b|fine|ok|okay|able|done|easy|"
    r"enough|good)\b)",
    re.IGNORECASE,
)
# How something is to be made, without a verb: "commit messages in english".
_FORM = re.compile(
    r"(?:commit messages|commits|messages|comments|docs|documentation|answers|replies|tests|names|identifiers|strings|"
    r"variables|functions|classes|components|files|errors|logs|dates|code)(?: names)? (?:only )?(?:in|as|with|without) "
    r"(?!the\b|my\b|this\b|that\b|order\b)\w",
    re.IGNORECASE,
)
# Says how, and not only what: this is what may be meant for other tasks, too.
_MANNER = re.compile(
    r"\b(?:in full|fully|completely|entirely|thoroughly|carefully|properly|in detail|(?<!the )first|only|instead|"
    r"without|before|after|step by step|one by one|one at a time|as you go|at once|in parallel|verbatim|by hand|"
    r"(?:to|in|on|under) (?:one|a single|two|three|\d+) (?:lines?|sentences?|words?|paragraphs?|chars|characters)|"
    r"short|shorter|small|"
    r"smaller|brief|concise|simple|minimal|in (?:english|german|french|spanish|plain \w+|(?:camel|snake|kebab|"
    r"pascal)[ _-]?case))\b",
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
    sentence = mend_contractions(sentence)
    if is_question(sentence) or is_hypothetical(sentence):
        return None
    order = strip_lead_in(sentence)
    order = order[obligation.end() :] if (obligation := _OBLIGATION.match(order)) else order
    says_how = _SHOULD.match(order) is not None or _FORM.match(order) is not None
    if not says_how and not _ORDER.match(order):
        return None
    end = _CLAUSE_END.search(order)
    order = _OBJECT.sub("files", order[: end.start()] if end else order)
    order = _BARE_OBJECT.sub("files", order).lower()
    order = strip_punctuation(re.sub(r"\s+", " ", re.sub(r"\b(?:the|a|an) ", "", order)))
    if not 3 <= len(order.split()) <= MAX_WORDS or not (says_how or _MANNER.search(order)) or is_transient(order):
        return None
    return order
