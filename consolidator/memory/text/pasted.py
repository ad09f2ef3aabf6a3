"""Finds what a message shows and does not say: quoted lines, forwarded mail, fenced code, elements, comments.

What stands inside a block may hold the block's own closing tag, or another fence. So a block that begins a line goes
to the last tag that can close it, a fence to a line of at least as many marks, and a block that nothing closes to the
end; where that begins with a bare name alone on its line (`<T>`), to the next blank line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_FENCE = re.compile(r"^[ \t]*(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)", re.MULTILINE)
_TAG = re.compile(
    r"<\s*(?P<slash>/)?\s*(?P<name>[A-Za-z][\w:.-]*)(?(slash)\s*>|(?=[\s/>])(?!(?<=:)//[^\s<>]+>))"  # no link
)
_BLOCK_START = re.compile(r"^[ \t]*(?:`{3}|~{3})|<(?=[A-Za-z!?])", re.MULTILINE)
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
PROSE_OF_TAG = 60  # characters; markup has less
_LISTED = re.compile(r"^[ \t]*(?:\d{1,3}[.)]|[-*])[ \t]+\S", re.MULTILINE)
_TO_END = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>"}
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)


def find_pasted(text: str, *, inline: bool) -> Iterator[tuple[int, int]]:
    """Yield start and end of each outermost block of a text; `inline`: of elements within a line, too."""
    elements = _find_elements(text)
    done = 0
    for match in _BLOCK_START.finditer(text):
        start = match.start()
        if start < done:
            continue
        end = _find_end(text, start, elements, inline=inline)
        if end is not None:
            done = end
            yield start, end


@dataclass(slots=True)
class _Elements:
    """Where the elements of one name are."""

    last_end: int = 0  # of the last closing tag
    ends: dict[int, int] = field(default_factory=dict)  # of the outermost elements, by their starts
    depth: int = 0
    start: int | None = None  # of the latest outermost element


def _find_elements(text: str) -> dict[str, _Elements]:
    """Return the elements of a text by name; a closing tag that closes nothing belongs to the element before it."""
    elements: dict[str, _Elements] = {}
    for tag in _TAG.finditer(text):
        of_name = elements.setdefault(tag["name"].lower(), _Elements())
        if tag["slash"]:
            of_name.last_end = tag.end()
            of_name.depth = max(of_name.depth - 1, 0)
            if of_name.start is not None:
                of_name.ends[of_name.start] = tag.end()
        else:
            if of_name.depth == 0:
                of_name.start = tag.start()
            of_name.depth += 1
    return elements


def _find_end(text: str, start: int, elements: dict[str, _Elements], *, inline: bool) -> int | None:
    """Return the end of the block at a place; None where there is no block."""
    if fence := _FENCE.match(text, start):
        return _find_fence_end(text, fence)
    for mark, end_mark in _TO_END.items():
        if text.startswith(mark, start):
            end = text.find(end_mark, start + len(mark))
            return len(text) if end < 0 else end + len(end_mark)
    opening = _TAG.match(text, start)
    bracket = text.find(">", start)
    if opening is None or bracket < 0 or text[bracket - 1] == "/":
        return None
    of_name = elements[opening["name"].lower()]
    begins_line = not text[text.rfind("\n", 0, start) + 1 : start].strip()
    if of_name.last_end <= start:
        is_alone = begins_line and not text[bracket + 1 :].partition("\n")[0].strip()
        if not is_alone or opening["name"].lower() in _VOID:
            return None
        has_attributes = bool(text[opening.end() : bracket].strip())
        blank_line = None if has_attributes else _BLANK_LINE.search(text, bracket)  # a bare name may be a placeholder
        return blank_line.start() if blank_line else len(text)
    if begins_line:
        return of_name.last_end
    own_end = of_name.ends.get(start)
    return own_end if own_end is not None and (inline or "\n" in text[start:own_end]) else None


def _find_fence_end(text: str, fence: re.Match[str]) -> int | None:
    marks = fence["fence"]
    if marks[0] == "`" and "`" in fence["info"]:
        return None  # code within a line
    closing = re.compile(rf"^[ \t]*{re.escape(marks[0])}{{{len(marks)},}}[ \t]*$", re.MULTILINE)
    end = closing.search(text, fence.end())
    return end.end() if end else len(text)


# Dashes must be followed by something else: in a long line of dashes every one would start a search to its end.
_QUOTED_LINE = re.compile(
    r"^[ \t]*>|^-{3,}(?!-).{0,200}?(?:forwarded|original) message|^begin forwarded message", re.IGNORECASE
)
_NON_SPACE = re.compile(r"\S")
_FILLED_IN = re.compile(  # what a person gave to a prompt that a client expands: it stands first, in a fence
    r"\s*#{1,6} (?:user (?:input|request)|arguments)[ \t]*\n\s*(?P<fence>`{3,}|~{3,})(?:text)?[ \t]*\n"
    r"(?P<words>.*?)^[ \t]*(?P=fence)[ \t]*$",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
BLANK = "\0"  # no white space, so that blanked words are cut and stripped as words are


def quoted_text(text: str) -> str:
    """Return the part of a message that its author quotes or pastes."""
    quoted = (line.lstrip().removeprefix(">") for line, is_quoted in _mark_lines(text) if is_quoted)
    return "".join(quoted).rstrip("\r\n")


def filled_in(text: str) -> str:
    """Return what a person gave to a prompt that a client expands; any other message whole."""
    filled = _FILLED_IN.match(text)
    return filled["words"] if filled else text


def is_template(text: str, quoted: str) -> bool:
    """Whether most of a message is a list within tags: a prompt that a client expands, not its sender's own words."""
    if not quoted.lstrip().startswith("<") or 2 * len(quoted) <= len(text):
        return False
    tags = sum(1 for _ in _TAG.finditer(quoted))
    return tags * PROSE_OF_TAG <= len(quoted) and len(_LISTED.findall(quoted)) > 1


def split_quoted(text: str) -> tuple[str, str]:
    """Return a message with its author's own lines alone, and with the quoted lines alone.

    The other lines are blanked out: every word stays in its place, and no two become neighbours that were not.
    """
    own, quoted = [], []
    for line, is_quoted in _mark_lines(text):
        blanked = _NON_SPACE.sub(BLANK, line)
        own.append(blanked if is_quoted else line)
        quoted.append(line if is_quoted else blanked)
    return "".join(own), "".join(quoted)


def _mark_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines and blocks of a message in order, with their ends, and whether its author only quotes them."""
    filled = _FILLED_IN.match(text)
    before, after = (text[: filled.start("words")], text[filled.end("words") :]) if filled else ("", "")
    yield from ((line, True) for line in before.splitlines(keepends=True))
    yield from _mark_own_lines(filled_in(text))
    yield from ((line, True) for line in after.splitlines(keepends=True))


def _mark_own_lines(text: str) -> Iterator[tuple[str, bool]]:
    in_forwarded = False
    done = 0
    for start, end in [*find_pasted(text, inline=False), (len(text), len(text))]:
        for line in text[done:start].splitlines(keepends=True):
            is_quoted = bool(_QUOTED_LINE.match(line))
            in_forwarded = in_forwarded or (is_quoted and not line.lstrip().startswith(">"))
            yield line, is_quoted or in_forwarded
        yield from ((line, True) for line in text[start:end].splitlines(keepends=True))
        done = end
