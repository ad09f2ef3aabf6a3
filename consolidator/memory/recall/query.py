"""Judges a query: whether it is an error's text, and how many of its words a text covers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from consolidator.memory.text.words import split_words

_ERROR = re.compile(
    r"traceback|exception|errno|error\b|\bfail(?:ed|ure)\b|\bfatal\b|\bpanic\b|not found|no such file|"
    r"denied|refused|timed out|cannot |can't |could not|unable to|undefined|segfault|exit (?:code|status) [1-9]|"
    r"\bno module\b|\bunexpected\b|\binvalid\b|\bmissing\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"\s*(?:how|what|which|why|when|where|who|whose|did|does?|is|are|was|were|has|have|can|could|should|would|tell|show)\b"
    r"|[^\n]*(?:[?？]|か[。.]?)\s*\Z",
    re.IGNORECASE,
)
_STOP_WORDS = frozenset(
    split_words(
        "the and for with this that these those from not has have had was were are but you your our its into than then "
        "how what why when where who which does did can could should would will shall may must there here please"
    )
)


def looks_like_error(query: str) -> bool:
    """Tell whether a query may be the text of an error."""
    return bool(_ERROR.search(query))


def looks_like_question(query: str) -> bool:
    """Tell whether a query is worded as a question or a request, and not pasted from a tool's output."""
    return _QUESTION.match(query) is not None


def query_coverage(query_words: Sequence[str], texts: Iterable[str], *, min_shared: int = 1) -> float:
    """Return the share of a query's content words that the texts of a procedure or solution have; 0 for too few.

    Too few is less than half, less than two where there are two, and less than `min_shared`.
    """
    content = {word for word in query_words if (len(word) > 2 or not word.isascii()) and word not in _STOP_WORDS}
    if not content:
        return 0.0
    shared = len(content & frozenset[str]().union(*map(_split_once, texts)))
    enough = max(min_shared, min(2, len(content)))
    return shared / len(content) if shared >= enough and 2 * shared >= len(content) else 0.0


@lru_cache(maxsize=4096)
def _split_once(text: str) -> frozenset[str]:
    """Return the different words of a text: titles and solutions are compared with one question after another."""
    return frozenset(split_words(text))
