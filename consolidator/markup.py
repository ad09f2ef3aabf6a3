"""Finds tags of given names in a text, however they are spelled: in capitals, with spaces or invisible characters.

A tag that is spelled otherwise than a harness writes it hides text as the exact one does, but never reveals any.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

_ENTITY = re.compile(r"&(?:(lt|#0*60|#x0*3c)|(?:gt|#0*62|#x0*3e));?", re.IGNORECASE)
_PART = re.compile(rf"{_ENTITY.pattern}|(?P<plain>(?-i:[\t-\r -%'-~]+))|.", re.IGNORECASE | re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_SEPARATOR = re.compile(r"[-_]")
_TAG_END = (">", " ", "\t", "\r", "\n")
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # letters without a shape


@dataclass(frozen=True, slots=True)
class Tag:
    """The beginning of a tag in a text: of an opening one the name alone, without attributes and bracket."""

    name: str
    start: int
    end: int
    is_closing: bool
    is_exact: bool  # spelled to the letter, as a program writes it
    is_mentioned: bool  # between backticks: named by its writer


def find_tags(text: str, names: Collection[str]) -> list[Tag]:
    """Return the tags of these names (in lower case) in the order of the text."""
    beginning, pattern = _tag_patterns(frozenset(names))
    if beginning.search(text) is None:
        return []
    folded, starts, ends = _fold(text)
    tags = []
    for match in pattern.finditer(folded):
        name = next(name for name in names if _SEPARATOR.sub("", name) == re.sub(r"[-_\s]", "", match["name"]))
        start, end = (match.start(), match.end()) if not starts else (starts[match.start()], ends[match.end() - 1])
        spelled = text[start:end]
        is_closing = bool(match["slash"])
        is_exact = spelled == (f"</{name}>" if is_closing else f"<{name}")
        is_exact = is_exact and (is_closing or text[end : end + 1] in _TAG_END)
        bracket = end if is_closing else text.find(">", end) + 1
        is_mentioned = text[start - 1 : start] == "`" and bracket > 0 and text[bracket : bracket + 1] == "`"
        tags.append(Tag(name, start, end, is_closing, is_exact, is_mentioned))
    return tags


def is_invisible(char: str) -> bool:
    """Tell whether a character has neither a shape nor a width: format and control characters, fillers, selectors."""
    if char.isascii():
        return _CONTROL.match(char) is not None
    category = unicodedata.category(char)
    return category in ("Cf", "Cc") or char in _FILLERS or "\ufe00" <= char <= "\ufe0f" or char >= "\U000e0000"


def skip_blank(text: str, position: int) -> int:
    """Return the place of the next character that is seen, or the length of the text."""
    while position < len(text) and (text[position].isspace() or is_invisible(text[position])):
        position += 1
    return position


@lru_cache(maxsize=64)
def _tag_patterns(names: frozenset[str]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what is in each text with such a tag, which is fast to search for, and the tag in a folded text."""
    initials = "".join({re.escape(name[0]) for name in names})
    beginning = rf"[<\uff1c\ufe64&](?:(?<!&)|(?<=&)(?:lt|#0*60|#x0*3c);?)[\t-\r /]{{0,19}}(?:[{initials}]|[^\t-\r -~])"
    spellings = "|".join(
        _SEPARATOR.sub(r"[-_\\s]{0,3}", name) for name in sorted(names, key=lambda name: (-len(name), name))
    )
    tag = rf"<\s{{0,9}}(?:(?P<slash>/)\s{{0,9}})?(?P<name>{spellings})(?![\w:.-])(?(slash)(?:\s{{0,9}}>)?)"
    return re.compile(beginning, re.IGNORECASE), re.compile(tag)


def _fold(text: str) -> tuple[str, list[int], list[int]]:
    """Return a text in lower case without invisible characters and entities, and the place of each of its characters.

    The places are the start and the end in the original text; empty where they are the same.
    """
    if text.isascii() and "&" not in text and not _CONTROL.search(text):
        return text.lower(), [], []
    folded: list[str] = []
    starts: list[int] = []
    ends: list[int] = []

    def add(chars: str, start: int, end: int) -> None:
        for char in unicodedata.normalize("NFKC", chars).lower():
            folded.append(char)
            starts.append(start)
            ends.append(end)

    for part in _PART.finditer(text):
        if entity := _ENTITY.fullmatch(part[0]):
            add("<" if entity[1] else ">", *part.span())
        elif part["plain"]:
            folded.append(part[0].lower())
            starts += range(*part.span())
            ends += range(part.start() + 1, part.end() + 1)
        elif not is_invisible(part[0]):
            add(part[0], *part.span())
    return "".join(folded), starts, ends
