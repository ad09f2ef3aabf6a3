"""What a stated value must be before it is a fact: a name, an identifier, a practice; each check answers yes or no."""

from __future__ import annotations

import re

from consolidator.memory.text.phrasing import is_general, is_past, is_transient, points, words

_NO_VERB = words(
    """
    a an the so too mind again again, heard that this it in on at for with before after once more happy sure there
    here nice good great easy hard my your our his her their i we you he she they works worked fails seems looks
    feels gets happens comes goes really ever quite only enough gonna
    """
)
_NO_NAME = words(
    """
    not on in under spelled wrong misspelled listed already also correct incorrect back when if later at crazy old
    the a an to gold silver platinum bronze regular sorry sure afraid happy good fine done ready ok okay sick
    right new here out german french english spanish american british italian chinese indian canadian tomorrow today
    maybe anything whatever your daddy no yes is was very really quite extremely still never always bad
    """
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|uses?|needs?|must|should|can(?:not|'t)?|don't|doesn't|won't|will|runs?|lives?|"
    r"prefers?|likes?|wants?|always|never|goes|works?|requires?|belongs?|means?|takes?|comes?|costs?|hates?|speaks?|"
    r"i'm|we're|expires?|depends?|owns?|handles?|hosts?|deploys?|starts?|ends?|breaks?|only)\b|\w's\b",
    re.IGNORECASE,
)
_NO_THING = re.compile(r"(?:an?|some|any|more|less|to|for|in|as)\b", re.IGNORECASE)
_NO_KIND = re.compile(
    r"(?:an?|some|all|you|u|me|us|being able|to (?:see|know|hear|get|have|change|book|cancel|make|keep|use))\b"
    r"|.*\b(?:idea|approach|plan|design|option|suggestion|proposal|result|solution|version|look|sound)s?\b",
    re.IGNORECASE,
)
_NO_PRACTICE = re.compile(
    r"(?:to|for|in|at|up|an?|some|my|your|our|more|less|too|about|only|both|either|different|same)\b"
    r"|the (?!(?-i:\S*[A-Z`]))",
    re.IGNORECASE,
)
_NO_CHOICE = re.compile(
    r"(?:the|ahead|on|with|for|back|through|over|\d|[a-d]\b|both|all|yes|no)\b"
    r"|.*\b(?:options?|choices?|first|second|third|fourth|former|latter|last|cheapest|flights?|plan|suggestion)\b",
    re.IGNORECASE,
)


def lasts(text: str) -> bool:
    """Tell whether a clause of its own may last: it may say "the", but not point, nor be of the moment."""
    return not points(text, within=2) and not is_transient(text) and len(text.split()) >= 2


def imperative(text: str) -> bool:
    """Tell whether a text says what to do always or never: not "always a pleasure", not "never mind"."""
    said = text.split()
    first = said[0].lower().strip(",.!") if said else ""
    return (
        len(said) >= 2
        and first.isalpha()
        and first not in _NO_VERB
        and not first.endswith("ing")
        and not is_past(text)
        and not points(" ".join(said[1:3]))
        and not is_transient(text)
    )


def named(text: str) -> bool:
    """Tell whether a text can be a name, of at most four words."""
    said = text.split()
    return (
        0 < len(said) <= 4
        and said[0].lower().strip(".") not in _NO_NAME
        and all(word[0].isalpha() for word in said)
        and not points(text)
    )


def identifier(text: str) -> bool:
    """Tell whether a text is an identifier rather than a word."""
    return bool(re.fullmatch(r"[\w.@+-]{4,64}", text)) and any(char.isdigit() or char in "_@" for char in text)


def token(text: str) -> bool:
    """Tell whether a text is particular: a version, path, number, proper name or quoted word, of at most six words."""
    return (
        len(text.split()) <= 6
        and re.search(r"\d|`|[A-Z]|[./_]", text) is not None
        and not is_transient(text)
        and not points(text)
    )


def thing(text: str) -> bool:
    """Tell whether a text names a tool or a technique: no article, a few words."""
    return len(text.split()) <= 6 and is_general(text) and _NO_THING.match(text) is None


def kind_of_thing(text: str) -> bool:
    """Tell whether a text is what one can like in general: no article, and no word for what was just proposed."""
    return is_general(text) and _NO_KIND.match(text) is None


def practice(text: str) -> bool:
    """Tell whether a text is what people use: not "the same", not "the first one"; "the" only before a name."""
    return len(text.split()) <= 10 and not points(text) and not is_transient(text) and _NO_PRACTICE.match(text) is None


def choice(text: str) -> bool:
    """Tell whether a text can have been decided on: no option's number, nothing that only this conversation knows."""
    return len(text) >= 3 and not points(text) and not is_transient(text) and _NO_CHOICE.match(text) is None


def clause_with_verb(text: str) -> bool:
    """Tell whether a text is a clause that can stand for itself, and so be remembered."""
    return len(text.split()) >= 3 and lasts(text) and _VERB.search(text) is not None
