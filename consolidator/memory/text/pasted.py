"""Finds what a message shows and does not say: fenced code, elements between tags, comments; from the outside in.

What stands inside a block may hold the block's own closing tag, or another fence. So a block that begins a line goes
to the last tag that can close it, a fence to a line of at least as many marks, and a block that nothing closes to the
end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r"^[ \t]*(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)", re.MULTILINE)
_OPENING = re.compile(
    r"""<(?P<name>[A-Za-z][\w:.-]*)(?=[\s/>])(?P<attributes>(?:[^<>"']|"[^"]*"|'[^']*')*+)>""", re.DOTALL
)
_CLOSING = re.compile(r"<\s*/\s*([A-Za-z][\w:.-]*)\s*>")
_BLOCK_START = re.compile(r"^[ \t]*(?:`{3}|~{3})|<(?=[A-Za-z!?])", re.MULTILINE)
_TO_END = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>"}
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)


def find_pasted(text: str, *, inline: bool) -> Iterator[tuple[int, int]]:
    """Yield start and end of each outermost block of a text; `inline`: of elements within a line, too."""
    closings: dict[str, list[tuple[int, int]]] = {}
    openings: dict[str, list[int]] = {}
    for closing in _CLOSING.finditer(text):
        closings.setdefault(closing[1].lower(), []).append(closing.span())
    if closings:
        for opening in re.finditer(r"<([A-Za-z][\w:.-]*)(?=[\s/>])", text):
            openings.setdefault(opening[1].lower(), []).append(opening.start())
    done = 0
    for match in _BLOCK_START.finditer(text):
        start = match.start()
        if start < done:
            continue
        end = _find_end(text, start, openings, closings, inline=inline)
        if end is not None:
            done = end
            yield start, end


def _find_end(
    text: str,
    start: int,
    openings: dict[str, list[int]],
    closings: dict[str, list[tuple[int, int]]],
    *,
    inline: bool,
) -> int | None:
    """Return the end of the block at a place; None where there is no block."""
    if fence := _FENCE.match(text, start):
        return _find_fence_end(text, fence)
    for mark, end_mark in _TO_END.items():
        if text.startswith(mark, start):
            end = text.find(end_mark, start + len(mark))
            return len(text) if end < 0 else end + len(end_mark)
    opening = _OPENING.match(text, start)
    if opening is None or opening["attributes"].endswith("/"):
        return None
    name = opening["name"].lower()
    begins_line = not text[text.rfind("\n", 0, start) + 1 : start].strip()
    ends = [span for span in closings.get(name, ()) if span[0] >= opening.end()]
    if not ends:
        rest_of_line = text[opening.end() :].partition("\n")[0]
        return len(text) if begins_line and not rest_of_line.strip() and name not in _VOID else None
    if begins_line:
        return ends[-1][1]
    end = _find_balanced_end([place for place in openings[name] if place > start], ends)
    return end if inline or "\n" in text[start:end] else None


def _find_fence_end(text: str, fence: re.Match[str]) -> int | None:
    marks = fence["fence"]
    if marks[0] == "`" and "`" in fence["info"]:
        return None  # code within a line
    closing = re.compile(rf"^[ \t]*{re.escape(marks[0])}{{{len(marks)},}}[ \t]*$", re.MULTILINE)
    end = closing.search(text, fence.end())
    return end.end() if end else len(text)


def _find_balanced_end(openings: list[int], closings: list[tuple[int, int]]) -> int:
    """Return the end of the closing tag that closes the first opening one, or of the last that closes nothing."""
    depth, end, following = 1, closings[-1][1], iter(openings)
    opening = next(following, None)
    balanced: int | None = None
    for start, stop in closings:
        while opening is not None and opening < start:
            depth, opening = depth + 1, next(following, None)
        depth -= 1
        if depth == 0 and balanced is None:
            balanced = stop
        elif depth < 0:
            balanced, depth = stop, 0
    return end if balanced is None else balanced
