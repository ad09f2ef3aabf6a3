"""Compares two sentences: the words that they share, and whether their numbers, names, negation and time agree."""

from __future__ import annotations

import re
from functools import lru_cache

from consolidator.memory.text.words import split_words

SAME = 0.6  # word overlap from which two sentences say the same, if their details agree
SIMILAR = 0.3  # word overlap from which two sentences need a comparison
_STEM = 4  # letters that two forms of a word begin with
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_PAST = re.compile(r"\b(?:was|were|had|did|used to|former\w*|previous\w*|ex|\w{2,}ed)\b", re.IGNORECASE)
_NAME = re.compile(r"[\w@][\w@./:+#-]*")
FOREIGN_DENIAL = (  # of languages other than English, where its words are no words of English
    r"[不勿]|禁止|(?<![区區分个個特级級类類])[别別](?![人的处處])|ない|지\s?(?:마|말)|마라|말\s?것|"
    r"\b(?:не|никогда|n[ãa]o|nunca|jam(?:ais|[aá]s)|nie|niemals|nicht|keine?[mnrs]?|pas)\b"
)
_NEGATION = re.compile(
    rf"{FOREIGN_DENIAL}|n['’]t\b|\b(?:no|not|never|none|without|nobody|nothing|neither|nor|cannot|avoid\w*|stop|stopped"
    r"|dislik\w*|hat(?:e|es|ed|ing)|detest\w*|loath\w*|despis\w*|refus\w*|reject\w*|forbid\w*|forbade|ban|bans|banned"
    r"|prohibit\w*|disallow\w*|disabl\w*|against|allergic|lack|lacks|lacking|unable|hardly|barely|rarely|seldom"
    r"|ohne|sans|non|sin|mai)\b",
    re.IGNORECASE,
)
_STOP_WORDS = frozenset(
    split_words(
        "a an the this that is are was were be been has have had of in on at to for from with by and or as it its s t "
        "user users use uses where which who what that"
    )
)


@lru_cache(maxsize=20_000)
def content_words(text: str) -> frozenset[str]:
    """Return the words of a sentence that say what it is about."""
    return frozenset(split_words(text)) - _STOP_WORDS


def word_overlap(first: str, second: str) -> float:
    """Return the share of the content words of two sentences that both have (Jaccard index): 0 to 1."""
    first_words, second_words = content_words(first), content_words(second)
    if not first_words or not second_words:
        return 0.0
    return len(first_words & second_words) / len(first_words | second_words)


def adds_no_word(sentence: str, other: str) -> bool:
    """Tell whether a sentence has only content words of another: one more may say more, or the contrary ("hates")."""
    return content_words(sentence) <= content_words(other)


def has_form(word: str, words: frozenset[str]) -> bool:
    """Tell whether a word is among words, in any form that begins the same."""
    if word in words:
        return True
    return len(word) >= _STEM and any(
        len(other) >= _STEM and (other.startswith(word) or word.startswith(other)) for other in words
    )


def numbers(text: str) -> frozenset[str]:
    """Return the numbers, dates, versions and times of a text."""
    return frozenset(_NUMBER.findall(text))


def is_negated(text: str) -> bool:
    """Tell whether a sentence denies something."""
    return _NEGATION.search(text) is not None


def is_past(text: str) -> bool:
    """Tell whether a sentence may be about the past, as "worked" is and "works" is not."""
    return _PAST.search(text) is not None


@lru_cache(maxsize=20_000)
def name_words(text: str) -> frozenset[str]:
    """Return the words of what looks like a name: with capitals, digits or a path.

    The first letter of the sentence does not count.
    """
    words: set[str] = set()
    for position, name in enumerate(match.strip(".:/-+#") for match in _NAME.findall(text)):
        cased = name[1:] if position == 0 else name
        if any(char.isupper() for char in cased) or re.search(r"[\d@./_#]", name[1:]):
            words |= content_words(name.lower())  # SendGrid is sendgrid, not also a grid
    return frozenset(words)


def lost_details(old: str, new: str) -> str | None:
    """Return the numbers, else the names, that a sentence has and one in its place would lose; None where none."""
    lost = sorted(numbers(old) - numbers(new)) or sorted(name_words(old) - content_words(new))
    return ", ".join(lost[:5]) or None


def details_agree(first: str, second: str) -> bool:
    """Tell whether the numbers, names, negation and time of two sentences are the same."""
    return (
        numbers(first) == numbers(second)
        and is_negated(first) == is_negated(second)
        and is_past(first) == is_past(second)
        and name_words(first) <= content_words(second)
        and name_words(second) <= content_words(first)
    )


def is_same_value(first: str, second: str) -> bool:
    """Tell whether two values have the same content words in the same order."""
    return _ordered_words(first) == _ordered_words(second)


def is_same_but_numbers(first: str, second: str) -> bool:
    """Tell whether two values differ in their numbers alone, as two versions of one program do."""
    blanked = [_NUMBER.sub("0", value).casefold().split() for value in (first, second)]
    return blanked[0] == blanked[1] and numbers(first) != numbers(second)


def _ordered_words(value: str) -> list[str]:
    return [word for word in split_words(value) if word not in _STOP_WORDS] or split_words(value)
