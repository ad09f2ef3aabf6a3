"""What a stated value must be to become a fact: a name, an identifier, a practice. Each check is a predicate."""

from __future__ import annotations

import re

from consolidator.memory.facts.verbs import begins_order
from consolidator.memory.text.phrasing import is_deictic, is_transient, word_set

_NOT_A_NAME = word_set(
    """
    not on in under wrong misspelled misspelt spelled listed
    also correct back when if later at the a an to gold silver platinum bronze regular sorry sure
    very afraid happy good fine done ready right new here out german french english american tomorrow today maybe your
    no yes is was really quite still never always bad
    """
)
_NOT_A_PRACTICE = re.compile(
    r"(?:to|for|in|at|up|as|on|by|from|with|of|an?|some|my|your|our|more|less|too|about|only|both|either|different|same|broken|down|slow)\b"
    r"|the (?!(?-i:\S*[A-Z`]))",
    re.IGNORECASE,
)
_NOT_A_CHOICE = re.compile(
    r"(?:ahead|on|with|for|back|through|over|\d|[a-d]\b|both|all|yes|no)\b|.*\b(?:my|your|his|her|their|former|latter)\b"
    r"|(?:the )?(?:\w+ )?(?:option|choice|one|flight|suggestion)s?\b",
    re.IGNORECASE,
)
_ORDER = re.compile(r"(?:always|never ever|never|don't ever|do not ever) ", re.IGNORECASE)


def is_name(text: str) -> bool:
    """Tell whether a text can be a name of at most four words."""
    parts = text.split()
    return (
        0 < len(parts) <= 4
        and parts[0].lower().strip(".") not in _NOT_A_NAME
        and all(part[0].isalpha() for part in parts)
        and not is_deictic(text)
    )


def is_standing_order(text: str) -> bool:
    """Tell whether a text says what to do always or never: not "always a pleasure", no complaint."""
    words = _ORDER.sub("", text).lower().split()
    says_what = len(words) > 1 and begins_order(words) and not is_deictic(" ".join(words[1:3]))
    return says_what and not is_transient(text)


def is_lasting_clause(text: str) -> bool:
    """Tell whether a clause of its own may last: it may say "the", but neither point nor be of the moment."""
    return not is_deictic(text, within=2) and not is_transient(text) and len(text.split()) >= 2


def is_full_clause(text: str) -> bool:
    """Tell whether a text can stand for itself, and so be remembered."""
    return len(text.split()) >= 3 and is_lasting_clause(text)


def is_specific(text: str) -> bool:
    """Tell whether a text is particular: a version, path, number, proper name or quoted word, of at most six words."""
    return len(text.split()) <= 6 and re.search(r"\d|`|[A-Z]|[./_]", text) is not None and _lasts(text)


def is_practice(text: str) -> bool:
    """Tell whether a text is what people use: not "the same", not "the first one"; "the" only before a name."""
    return len(text.split()) <= 10 and _lasts(text) and _NOT_A_PRACTICE.match(text) is None


def is_choice(text: str) -> bool:
    """Tell whether a text can have been decided on: no option's number, nothing that only this conversation knows."""
    return len(text) >= 3 and _lasts(text) and _NOT_A_CHOICE.match(text) is None


def _lasts(text: str) -> bool:
    return not is_deictic(text) and not is_transient(text)
