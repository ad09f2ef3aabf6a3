"""How near two sentences are: the words they share, and whether their numbers, names and negation agree. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from consolidator.memory.text.words import split_words

SAME = 0.6  # of all words that two sentences have between them, shared: they say the same if all else agrees
SIMILAR = 0.3  # from here on somebody has to look
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_PAST = re.compile(r"\b(?:was|were|had|did|used to|former\w*|previous\w*|ex|\w{2,}ed)\b", re.IGNORECASE)
_NAME = re.compile(r"[\w@][\w@./:+#-]*")
_NEGATIONS = re.compile(
    r"n['’]t\b|\b(?:no|not|never|none|without|nobody|nothing|neither|nor|cannot|avoid\w*|stop|stopped"
    r"|dislik\w*|hat(?:e|es|ed|ing)|detest\w*|loath\w*|despis\w*|refus\w*|reject\w*|forbid\w*|forbade|ban|bans|banned"
    r"|prohibit\w*|disallow\w*|disabl\w*|against|allergic|lack|lacks|lacking|unable|hardly|barely|rarely|seldom"
    r"|kein\w*|nicht|nie|ohne|pas|jamais|sans|non|nunca|sin|nao|não|mai)\b",
    re.IGNORECASE,
)
_DENIAL = re.compile(r"n['’]t\b|\b(?:not|never|no longer|nicht|nie|kein\w*|pas|jamais|nunca)\b", re.IGNORECASE)
_LIGHT = frozenset(
    split_words(
        "a an the this that is are was were be been has have had of in on at to for from with by and or as it its s t "
        "user users use uses where which who what that"
    )
)


@lru_cache(maxsize=20_000)
def content_words(text: str) -> frozenset[str]:
    """Return the words of a sentence that say what it is about."""
    return frozenset(split_words(text)) - _LIGHT


def word_overlap(one: str, other: str) -> float:
    """Return the share of all words of two sentences that both have: 0 to 1."""
    ours, theirs = content_words(one), content_words(other)
    return len(ours & theirs) / len(ours | theirs) if ours and theirs else 0.0


def adds_no_word(one: str, other: str) -> bool:
    """Tell whether a sentence has no word that another has not: one more may say more, or the contrary ("hates")."""
    return content_words(one) <= content_words(other)


def numbers(text: str) -> frozenset[str]:
    """Return the numbers, dates, versions and times of a text."""
    return frozenset(_NUMBER.findall(text))


def is_negated(text: str) -> bool:
    """Tell whether a sentence denies something."""
    return _NEGATIONS.search(text) is not None


def denies_value(sentence: str, predicate: str, value: str) -> bool:
    """Tell whether a sentence denies what a predicate and a value assert by themselves."""
    told = f"{predicate.replace('_', ' ')} {value}"
    return _DENIAL.search(sentence) is not None and not is_negated(told)


def is_past(text: str) -> bool:
    """Tell whether a sentence may speak of what is over, as "worked" does and "works" does not."""
    return _PAST.search(text) is not None


@lru_cache(maxsize=20_000)
def name_words(text: str) -> frozenset[str]:
    """Return the words of what looks like names: capitals, digits, paths. The first word's own capital says nothing."""
    found: set[str] = set()
    for number, word in enumerate(one.strip(".:/-+#") for one in _NAME.findall(text)):
        telling = word[1:] if number == 0 else word
        if any(c.isupper() for c in telling) or re.search(r"[\d@./_#]", word[1:]):
            found |= content_words(word)
    return frozenset(found)


def lost_details(old: str, new: str) -> str | None:
    """Return what of a sentence's numbers and names another one in its place would lose; None where nothing."""
    missing = sorted(numbers(old) - numbers(new)) or sorted(name_words(old) - content_words(new))
    return ", ".join(missing[:5]) or None


def details_agree(one: str, other: str) -> bool:
    """Tell whether the numbers, names, negation and time of two sentences are the same."""
    return (
        numbers(one) == numbers(other)
        and is_negated(one) == is_negated(other)
        and is_past(one) == is_past(other)
        and name_words(one) <= content_words(other)
        and name_words(other) <= content_words(one)
    )


def is_same_value(one: str, other: str) -> bool:
    """Tell whether two values are the same words in the same order."""
    return _said(one) == _said(other)


def _said(value: str) -> list[str]:
    return [word for word in split_words(value) if word not in _LIGHT] or split_words(value)
