"""Finds the orders that people give, and tells which of them say the same; one that is repeated may be meant for good.

Of an order counts what it is about: not politeness, articles, "always", the form of its verb, or which file it names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from consolidator.memory.facts.verbs import begins_order
from consolidator.memory.text.phrasing import (
    is_deictic,
    is_hypothetical,
    is_question,
    is_stump,
    is_transient,
    mend_contractions,
    strip_lead_in,
    strip_punctuation,
    word_set,
)
from consolidator.memory.text.similarity import is_negated, numbers
from consolidator.memory.text.words import STOP_WORDS, has_unspaced, split_words

MAX_WORDS = 14
MAX_TURN_CHARS, MAX_TURN_BREAKS = 600, 5  # of a message that orders are read in; a longer one is a plan or a report
SAME_SHARE, MAX_MORE_WORDS = 0.6, 2  # of the words of two orders that say the same
MAX_OF_MOMENT = 3  # words
_POLITE = re.compile(
    r"(?:(?:please|pls|kindly|always|just|also|then|now|ok|and|(?:can|could|would|will) you|you (?:really )?(?:need to|"
    r"have to|"
    r"must|should|ought to|are to)|i want you to|make sure (?:to|you)|remember to|don't forget to|from now on),? )+",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"(?:(?:can|could|would|will) you|(?:why don't|shouldn't|can't|couldn't) (?:you|we)) (?:please |also |just )*"
    r"(?!(?:explain|tell|say|see|think)\b)",
    re.IGNORECASE,
)
_REPROACH = re.compile(  # a question that blames: who asks it wants it done
    r"(?:why (?:(?:aren't|don't|isn't|didn't) |(?:are|do|did) (?:we|you) not )|"
    r"(?:shouldn't|couldn't|can't) (?=(?:we|you|this|that|these|those|it|they|the [\w-]+)\b))",
    re.IGNORECASE,
)
_ARTICLE = r"(?:(?:the|an?|our|my|your) )?"
_NO_MEANS = (
    r"(?:the|an?|our|my|your|to|for|in|on|as|and|or|where|when|if|so|that|which|instead|not|from|of|but|with|by|at|"
    r"then|per|is|are|be|until|since|because|while|before|after|here|now|again|please|only|it|this|these|those|you|we|"
    r"i|according|well|would|will|wont)\b"
)
_MEANS = re.compile(  # what work is done with; after "with" only a name
    r"(?P<denied>\b(?:not|n't|never|stop|avoid|consider|than|of|for (?:all|every|any|each|other|new)"
    r"(?: [\w-]+){1,2}) )?\b(?:us(?:e|ing)|delegat\w+ (?:[\w'-]+ ){0,4}?to|"
    rf"be ?\w+(?:ed|en) as|(?:with|via)(?= {_ARTICLE}(?:(?-i:[A-Z])|[\w.-]+ \d))) {_ARTICLE}"
    rf"(?P<what>(?:(?!{_NO_MEANS})\w[\w/.-]*(?: |(?!\S)|(?=[^\w\s]))){{1,3}})",
    re.IGNORECASE,
)
_PLACE = re.compile(  # what it goes into, which is there already
    r"\b(?:add|put|fold|fix ?up|squash|amend|mov|merg|includ)\w* (?:(?!and\b)[\w'()-]+ ){0,4}?(?:in|into|to|onto) "
    rf"{_ARTICLE}(?:right|current|existing|same|previous|original|correct) (?P<what>[a-z-]+)",
    re.IGNORECASE,
)
_CLAUSES = re.compile(r"\s*(?:[,;+]|\b(?:and|but|then)\b)\s*")
_SHOULD = re.compile(
    r"(?!(?:i|you|we|it|he|she|they|there)\b)(?:[\w`.-]+ ){1,5}?(?:should|must)(?: not|n't)? (?!be\b|have \w+ed\b)\w",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(
    r"\s*(?:[;:!?]|,(?! and\b)|\.\s|\s[-–—]\s|\b(?:please|pls|thanks|then|so that|when you're done|when done|"
    r"and (?:then )?(?:tell|let|give|i|we|go)\b))"
)
_KNOWN_FILE = re.compile(
    r"@?(?:[\w.~-]*/)*(?<!\w)(?P<name>changelog|readme|contributing|agents|claude|license|package|makefile)"
    r"(?:\.(?:md|json|txt|rst))?\b",
    re.IGNORECASE,
)
_REFERENCE = r"(?:@\S+|(?:[\w.~-]*/)+[\w.@~-]*\w|[\w-]+\.[a-z]\w{0,4}\b|`[^`]+`)"
_NAME_IN_CODE = re.compile(r"`([a-z][a-z\d-]*(?: [a-z][a-z\d:-]*){0,2})`")  # a program or package, and what it does
_FILES = re.compile(
    rf"(?:\b(?:all|both)\s+)?(?:{_REFERENCE}(?:\s*,?\s*(?:and\s+)?{_REFERENCE})*(?:\s+files?\b)?|\bfiles?\b)",
    re.IGNORECASE,
)
_OBJECT = re.compile(  # what is at hand, and nothing else: "commit this", "commit your changes"
    r"\s*\b(?:it|them|this|that|these|those|everything|(?:(?:all|the|your|these|my|our) )+(?:recent )?(?:changes?|"
    r"work))(?=$| (?:and|in|before|after|first|as|with|without|then|only)\b)",
    re.IGNORECASE,
)
_AT_HAND = re.compile(r"\b(?:this|that|these|those|here|there|it)\b|\d{3,}|https?:", re.IGNORECASE)
_AT_HAND_THINGS = word_set(  # of a brief order
    "ahead look again push commit merge plan task work code codebase files changes branch pr handoff test tests issue "
    "issues bug bugs error errors fail failing findings conflicts feature"
)
_ARTICLES = re.compile(r"\b(?:the|an?|my|your|our) ", re.IGNORECASE)
_LANGUAGES = re.compile(r"[英中日德法韓韩俄][文語语]|日本語|(?:영|한국|일본|중국)어")
# Of scripts without spaces: what a sign is, and what says nothing of what an order is about.
_SIGN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]|[\u30a1-\u30ff]+|[\uac00-\ud7af]{1,2}")
_FILLERS = re.compile(
    r"[请請麻烦煩您你我的了]|[帮幫][我忙]?|[给給]我|[谢謝]{2}|[时時]候?|一?下|之?[后後]|[\u3041-\u309f]|お願い|세요|십시오|해\s?주?|줘"
)
SAME_IF_NAMED = 0.5  # of the stems of two such orders that name the same things in Latin letters
_TURN = re.compile(r"(?:^| )(before|after) ", re.IGNORECASE)
_LIMITS = frozenset(split_words("before after only all each every in on with without once until instead not never no"))
_DENIALS = frozenset(split_words("not never no"))
_SAYS_HOW = word_set("before after only every each without until first in with as by")
_EMPTY = STOP_WORDS | frozenset(split_words("always please use kindly make sure ensure also then file files"))
_OCCASION = {
    "commit": "committing",
    "push": "pushing",
    "release": "releasing",
    "merge": "merging",
    "deploy": "deploying",
}


def find_instruction(sentence: str) -> str | None:
    """Return the order that a sentence gives, in a form that is the same for other files; None where it gives none."""
    order = _NAME_IN_CODE.sub(r"\1", strip_lead_in(mend_contractions(sentence)))
    if "://" in order:
        return None
    if (request := _REQUEST.match(order)) is not None:
        order = order[request.end() :].rstrip("?")
    elif is_question(sentence) or is_hypothetical(sentence):
        return None
    order = _without_politeness(order)
    end = _CLAUSE_END.search(order)
    order = order[: end.start()] if end else order
    order = _FILES.sub("files", _KNOWN_FILE.sub(lambda match: match["name"], order))
    order = _OBJECT.sub("", order.lower().replace(", and ", " and "))
    order = strip_punctuation(re.sub(r"\s+", " ", _ARTICLES.sub("", order)))
    words = order.split()
    if not 2 <= len(words) <= MAX_WORDS or _AT_HAND.search(order) or is_transient(order):
        return None
    if (
        not says_enough(order)
        or words.count("files") > 1  # which ones is what it said
        or (is_brief(order) and not _AT_HAND_THINGS.isdisjoint(words))
        or (begins_order(words) is None and _SHOULD.match(order) is None)
        or is_stump(order)
    ):
        return None
    return order


def says_enough(order: str) -> bool:
    """Tell whether an order has a word more than its verb."""
    return len(_stems(order)) >= 2


def is_brief(order: str) -> bool:
    """Tell whether an order has only a verb and an object: mostly of its task."""
    stems = _stems(order)
    signs = len(_signs(stems))
    is_short = len(stems) == 2 or 0 < signs >= 2 * len(stems) - 4  # two signs make a word
    return is_short and not _SAYS_HOW.intersection(order.split())


_OF_MOMENT = frozenset({"run", "start", "restart", "launch", "open", "look", "show", "check", "read", "see", "stop"})


def says_little(order: str) -> bool:
    """Tell whether an order is one of the moment by its verb, and has few words: "run the dev server"."""
    return order.split(" ", 1)[0] in _OF_MOMENT and len(_stems(order)) <= MAX_OF_MOMENT


def find_wishes(sentence: str) -> list[str]:
    """Return what a request, or a question that blames, wants work to be done with and to go into, whatever the work.

    As orders that are the same in other words: "use x", "amend existing x".
    """
    text = _NAME_IN_CODE.sub(r"\1", strip_lead_in(mend_contractions(sentence)))
    reproach = _REPROACH.match(text)
    start = reproach or _REQUEST.match(text)
    if start is None and (is_question(sentence) or is_hypothetical(sentence)):
        return []
    text = text[start.end() :] if start else _without_politeness(text)
    clauses = [clause.lower().split() for clause in _CLAUSES.split(text)]
    if reproach is None and all(begins_order(clause) is None for clause in clauses):
        return []
    means = [match["what"].strip(" .-") for match in _MEANS.finditer(text) if not match["denied"]]
    wishes = [f"use {what.lower()}" for what in means if not (is_deictic(what) or is_transient(what))]
    return [*wishes, *(f"amend existing {match['what'].lower()}" for match in _PLACE.finditer(text))]


def is_short_turn(text: str) -> bool:
    """Tell whether a message is so short that it orders something, and does not show or plan it."""
    return len(text) <= MAX_TURN_CHARS and text.strip().count("\n") <= MAX_TURN_BREAKS


@lru_cache(maxsize=4096)
def order_key(order: str) -> tuple[str, ...]:
    """Return what an order says without its politeness and the forms of its words: equal orders have equal keys."""
    words = split_words(_ARTICLES.sub("", _without_politeness(mend_contractions(order))))
    return tuple(word for word in words if word not in _EMPTY or word in _LIMITS) or tuple(words)


def hold_alike(first: str, second: str) -> bool:
    """Tell whether two orders say alike when, where or for what they hold."""
    words = [split_words(mend_contractions(order)) for order in (first, second)]
    limits, others = (_LIMITS.intersection(each) - _DENIALS for each in words)
    return limits == others and not _is_reversed(first, second)


def is_same_order(first: str, second: str) -> bool:
    """Tell whether two orders say the same: most of their words, the same numbers, and both or none a denial."""
    stems, others = _stems(first), _stems(second)
    if first == second:
        return True
    is_contrary = is_negated(first) != is_negated(second) or _is_reversed(first, second)
    if is_contrary or numbers(first) != numbers(second):
        return False
    shared, signs = len(stems & others), _signs(stems | others)
    if signs:
        names = stems - signs  # in Latin letters; what is named differently is another order
        is_alike = names == others - signs and _LANGUAGES.findall(first) == _LANGUAGES.findall(second)
        return is_alike and shared >= (SAME_IF_NAMED if names else SAME_SHARE) * len(stems | others)
    is_part = min(len(stems), len(others)) >= 2 and shared == min(len(stems), len(others))
    return shared >= SAME_SHARE * len(stems | others) or (is_part and abs(len(stems) - len(others)) <= MAX_MORE_WORDS)


def _is_reversed(first: str, second: str) -> bool:
    """Tell whether two orders want the same done in the contrary order: "test before you push", "after the push"."""
    (begin, then), (other_begin, other_then) = parts_in_time(first), parts_in_time(second)
    return len(begin & other_then) + len(then & other_begin) > len(begin & other_begin) + len(then & other_then)


def parts_in_time(order: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the stems of what an order wants first, and of what then; none where it does not say."""
    match = _TURN.search(order)
    if match is None:
        return frozenset(), frozenset()
    main, other = order[: match.start()], order[match.end() :]
    if not main:
        other, _, main = other.partition(",")
    parts = _stems(main), _stems(other)
    return parts if match[1].lower() == "before" else parts[::-1]


def has_words_of(order: str, other: str) -> bool:
    """Tell whether an order has all words that say what another is about."""
    return _stems(other) <= _stems(order)


def group_orders(orders: Iterable[str]) -> list[list[str]]:
    """Group orders by what they say; each joins the first group whose first order says the same as it."""
    groups: list[list[str]] = []
    by_word: dict[str, list[list[str]]] = {}
    for order in orders:
        near = (group for word in sorted(_stems(order)) for group in by_word.get(word, ()))
        group = next((group for group in near if is_same_order(group[0], order)), None)
        if group is not None:
            group.append(order)
            continue
        groups.append([order])
        for word in _stems(order):
            by_word.setdefault(word, []).append(groups[-1])
    return groups


def as_rule(order: str) -> str:
    """Return an order as a rule: "commit and update changelog" is no order to commit."""
    occasion, _, rest = order.partition(" and ")
    return f"when {_OCCASION[occasion]}, {rest}" if rest and occasion in _OCCASION else order


def _without_politeness(order: str) -> str:
    polite = _POLITE.match(order)
    return order[polite.end() :] if polite else order


@lru_cache(maxsize=4096)
def _stems(order: str) -> frozenset[str]:
    if not has_unspaced(order):
        return frozenset(split_words(order)) - _EMPTY
    plain = _FILLERS.sub(" ", order)
    return (frozenset(split_words(_SIGN.sub(" ", plain))) | frozenset(_SIGN.findall(plain))) - _EMPTY


def _signs(stems: Collection[str]) -> frozenset[str]:
    """Return the stems that are signs of a script without spaces."""
    return frozenset(filter(has_unspaced, stems))
