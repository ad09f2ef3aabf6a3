"""Separates a person's words from what a harness puts around them, by the tags of the harness, from the outside in.

What stands inside a harness's block may come from a file, a page or a command, and may hold the same tags. So the
words are only what no content of a block can have written: after blocks at the beginning, what follows the last
closing tag; before blocks at the end, what precedes the first opening tag. Where the tags do not parse, nobody's words
are left.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from consolidator.markup import Tag, find_tags, skip_blank


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """The parts of a text in a person's role."""

    words: str  # a person's; "" where there are none, or where it cannot be told which they are
    around: str  # the harness's blocks, and what cannot be told apart from them


# Blocks that agents put into the user's role of the messages they send, whoever logs these.
MESSAGE_BLOCKS = ("system-reminder", "environment_context", "user_instructions", "ide_selection", "ide_opened_file")

_ELEMENT_START = re.compile(r"<([A-Za-z][\w.:-]{0,80})[\s>]")
_FENCE_LINE = re.compile(r"^[ \t]*(?P<marks>`{3,}|~{3,})(?P<info>[^\n]*)$", re.MULTILINE)


def unwrap(text: str, names: Collection[str], *, only_before: bool = False) -> Unwrapped:
    """Return a person's words and the harness's blocks of a text; `names` are the harness's tags, in lower case.

    A tag between backticks is only named by its writer, unless it stands where a block may close; so is one element in
    a closed fence of a text that begins with no block. `only_before`: of a
    harness that puts blocks at the beginning alone, where such a tag in the words is the person's.
    """
    tags = find_tags(text, names)
    if not tags:
        return Unwrapped(text, "")
    if _opens_at(tags[0], text, 0):
        return _split(text, *_find_words_after(text, tags, only_before=only_before))
    if only_before or _is_in_fence(tags, text):
        return Unwrapped(text, "")
    first = next((tag for tag in tags if not tag.is_mentioned), None)
    if first is None:
        return Unwrapped(text, "")
    # A closing tag that nothing opened: the beginning of its block is missing, and its text stands first.
    return _split(text, 0, 0 if first.is_closing else first.start)


def read_element(text: str, name: str) -> str | None:
    """Return the content of a text that is one element and nothing else; None where it is not."""
    start, end = f"<{name}>", f"</{name}>"
    is_whole = text.startswith(start) and text.endswith(end) and len(text) >= len(start) + len(end)
    return text[len(start) : -len(end)] if is_whole else None


def is_one_element(text: str) -> bool:
    """Tell whether a text is one element, as the context is that agents add, under names that change."""
    text = text[skip_blank(text, 0) :].rstrip()
    name = _ELEMENT_START.match(text)
    return name is not None and text.endswith(f"</{name[1]}>")


def _find_words_after(text: str, tags: Sequence[Tag], *, only_before: bool) -> tuple[int, int]:
    """Return start and end of the words in a text that begins with a block."""
    end = 0
    opened: list[str] = []
    rest = list(tags)
    while rest and _opens_at(rest[0], text, end):
        opening = rest[0]
        closing = next((tag for tag in reversed(rest) if _closes(tag, opening.name) and tag.is_exact), None)
        if closing is None or not opening.is_exact:
            return 0, 0
        opened.append(opening.name)
        end = closing.end
        rest = [tag for tag in rest if tag.start >= end]
    if only_before and not any(tag.is_closing for tag in rest):
        return end, len(text)
    following = next((tag for tag in rest if not tag.is_closing and not tag.is_mentioned), None)
    if following is not None:
        # Blocks on both sides: a second closing tag may stand in any of them.
        is_certain = all(sum(_closes(tag, name) for tag in tags) == 1 for name in opened)
        is_certain = is_certain and rest[0] is following
        return (end, following.start) if is_certain else (0, 0)
    if not rest:
        return end, len(text)
    last = rest[-1]  # a closing tag of an earlier block stood in a later one
    is_block = last.is_exact and any(tag.name == last.name and _is_exact_opening(tag) for tag in tags)
    return (last.end, len(text)) if last.is_closing and is_block else (0, 0)


def _is_in_fence(tags: Sequence[Tag], text: str) -> bool:
    """Tell whether the tags are one element in a closed fence that the words before it begin.

    No block of a harness looks so: after the last closing tag that it writes, none of its contents can close a fence.
    """
    first, last = tags[0], tags[-1]
    if len(tags) != 2 or not (_is_exact_opening(first) and last.is_exact and _closes(last, first.name)):
        return False
    fence = next((fence for fence in _find_fences(text) if fence[1] > first.start), None)
    return fence is not None and fence[0] < first.start and last.end <= fence[1]


def _find_fences(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the closed fences of a text; one that nothing closes is none, nor is what follows it."""
    opening: re.Match[str] | None = None
    for line in _FENCE_LINE.finditer(text):
        if opening is None:
            if line["marks"][0] == "~" or "`" not in line["info"]:
                opening = line
        elif line["marks"].startswith(opening["marks"]) and not line["info"].strip():
            yield opening.start(), line.end()
            opening = None


def _opens_at(tag: Tag, text: str, position: int) -> bool:
    return not tag.is_closing and tag.start == skip_blank(text, position)


def _closes(tag: Tag, name: str) -> bool:
    return tag.is_closing and tag.name == name


def _is_exact_opening(tag: Tag) -> bool:
    return tag.is_exact and not tag.is_closing


def _split(text: str, start: int, end: int) -> Unwrapped:
    around = "\n".join(part for part in (text[:start].strip(), text[end:].strip()) if part)
    return Unwrapped(text[start:end], around)
