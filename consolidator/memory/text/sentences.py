"""Cuts a message into the sentences that a person says in it to the agent, leaving out what they only show or quote.

Code, quotations, pasted logs and documents are not their words. Pure; each sentence is in the message, but for white
space.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

MAX_MESSAGE_CHARS = (
    1500  # characters of a message that is rather a document: only what stands around it is said to the agent
)
_EDGE = 600  # characters of a first or last paragraph that still reads as said to the agent
_MOST = 24_000  # characters looked at, at each end of a message
_SHORTEST, _LONGEST = 6, 300  # characters of a sentence

_FENCE = re.compile(r"^[ \t]*(```|~~~)[^\n]*\n.*?(?:^[ \t]*\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE)
_TAG = re.compile(r"<([A-Za-z][\w-]{0,40})(?:\s[^<>]{0,200})?>")
_CLOSING = re.compile(r"</([A-Za-z][\w-]{0,40})>")
_TAGGED = 8000  # characters between a tag and what closes it
_PROMPT = re.compile(r"\s*(?:you are (?:an?|the|now)\b|your (?:task|job|role|goal) is\b|act as\b|###? )", re.IGNORECASE)
_SHOWN = re.compile(
    r"\s*(?:>|\||\{|\}|\[[\d{\"]|\]|//|/\*|\*/|#|@@|[-+]{3} |\$ |% |~/\S* ?[(%$]|➜|❯|PS [A-Z]:|\d{4}-\d\d-\d\d[T ]|"
    r"\d\d:\d\d:\d\d"
    r"|\[?(?:ERROR|WARN|WARNING|INFO|DEBUG|TRACE)\b|at \S+ ?\(|File \"|Traceback |\w+(?:Error|Exception)\b|Caused by|"
    r"npm ERR"
    r"|\"[\w-]+\"\s*:|<[/!A-Za-z]|\w+ = |(?:def|class|const|var|function) \w|from \S+ import|import [\w{*.]+(?:;|$|"
    r" from| as)|let \w+ =|return\b.*;$|if \(|[A-Z_]{3,}=)"
)
_INDENTED = re.compile(r"(?: {4,}|\t+)(?![-*•\d])")
_BULLET = re.compile(r"\s*(?:[-*•–]|\(?\d{1,2}[.)])\s+(?:\[[ xX]\]\s+)?")
_END = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+(?=\S)")
_ABBREVIATED = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|incl|resp|Mr|Mrs|Ms|Dr|St|No|v)|\b[A-Z])\.$", re.IGNORECASE
)


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a message that its writer says themselves, in order."""
    if len(text) > 2 * _MOST:
        text = f"{text[:_MOST]}\n\n{text[-_MOST:]}"
    if _PROMPT.match(text):
        return
    said = _untagged(_FENCE.sub("\n", text))
    if len(said) > MAX_MESSAGE_CHARS:
        said = "\n\n".join(_edges(said))
    for line in _joined(said.splitlines()):
        for sentence in _split(line):
            if _SHORTEST <= len(sentence) <= _LONGEST:
                yield sentence


def _untagged(text: str) -> str:
    """Return a text with a line break in place of each tag that is closed, and of what stands in it.

    One pattern for both would read on from each of many tags that nothing closes.
    """
    closings: dict[str, list[tuple[int, int]]] = {}
    for closing in _CLOSING.finditer(text):
        closings.setdefault(closing[1], []).append(closing.span())
    parts: list[str] = []
    done = 0
    for tag in _TAG.finditer(text):
        known = closings.get(tag[1], [])
        nearest = bisect_left(known, (tag.end(), 0))
        if tag.start() >= done and nearest < len(known) and known[nearest][0] <= tag.end() + _TAGGED:
            parts += (text[done : tag.start()], "\n")
            done = known[nearest][1]
    return "".join([*parts, text[done:]])


def _edges(text: str) -> Iterator[str]:
    """Yield the first and the last paragraph, where they are short enough to be said and not shown."""
    paragraphs = [paragraph for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]
    for paragraph in (paragraphs[:1] + paragraphs[-1:]) if len(paragraphs) > 1 else ():
        if len(paragraph) <= _EDGE and not _BULLET.match(paragraph):
            yield paragraph


def _joined(lines: list[str]) -> Iterator[str]:
    """Yield lines without their bullets; those that were only wrapped are put together again."""
    held = ""
    for line in lines:
        shown = bool(_SHOWN.match(line) or _INDENTED.match(line))
        bullet = _BULLET.match(line)
        body = line[bullet.end() if bullet else 0 :].strip()
        if held and not shown and not bullet and body[:1].islower():
            held = f"{held} {body}"
            continue
        yield from [held] if held else []
        held = ""
        if shown or not body:
            continue
        if len(line) > 60 and body[-1] not in ".!?:":
            held = body
        else:
            yield body
    yield from [held] if held else []


def _split(line: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(line):
        if not _ABBREVIATED.search(line, start, end.start()):
            yield line[start : end.start()].strip()
            start = end.end()
    yield line[start:].strip()
