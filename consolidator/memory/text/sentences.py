"""Cuts a message into the sentences that a person says to the agent, without what they only show or quote.

Code, quotations, pasted logs and documents are not their words. Each sentence is in the message verbatim, except for
white space.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from consolidator.memory.text.pasted import find_pasted

MAX_MESSAGE_CHARS = 1500  # a longer message is a document: only what stands around it is said to the agent
_MAX_EDGE_CHARS = 600  # of a first or last paragraph that is still said to the agent
_MAX_READ_CHARS = 24_000  # that are read at each end of a message
_MIN_SENTENCE_CHARS, _MAX_SENTENCE_CHARS = 6, 300

_SYSTEM_PROMPT = re.compile(
    r"\s*(?:you are (?:an?|the|now)\b|your (?:task|job|role|goal) is\b|act as\b|###? )", re.IGNORECASE
)
_SHOWN_LINE = re.compile(  # of code, data, a log or a terminal
    r"\s*(?:>|\||\{|\}|\[[\d{\"]|\]|//|/\*|\*/|#|@@|[-+]{3} |\$ |% |~/\S* ?[(%$]|➜|❯|PS [A-Z]:|\d{4}-\d\d-\d\d[T ]|"
    r"\d\d:\d\d:\d\d|\[?(?:ERROR|WARN|WARNING|INFO|DEBUG|TRACE)\b|at \S+ ?\(|File \"|Traceback |"
    r"\w+(?:Error|Exception)\b|Caused by|npm ERR|\"[\w-]+\"\s*:|<[/!A-Za-z]|\w+ = |"
    r"(?:def|class|const|var|function) \w|from \S+ import|import [\w{*.]+(?:;|$| from| as)|let \w+ =|return\b.*;$|"
    r"if \(|[A-Z_]{3,}=)"
)
_INDENTED_LINE = re.compile(r"(?: {4,}|\t+)(?![-*•\d])")
_DEMANDS = re.compile(  # of a thing, not of who works here
    r"(?!(?:you|we|i|agents?|claude|codex|it)\b)(?!.*\b(?:rules?|follow\w*|conventions?|guidelines?|always|never)\b)"
    r"\w[^.!?]* (?:must|should|shall|needs? to|has to)\b[^.!?]*:$",
    re.IGNORECASE,
)
_MAX_HEAD = 200  # characters
_BULLET = re.compile(r"\s*(?:[-*•–]|\(?\d{1,2}[.)])\s+(?:\[[ xX]\]\s+)?")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+(?=\S)")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|incl|resp|Mr|Mrs|Ms|Dr|Prof|St|Nr|No|Jr|Sr|Inc|Ltd|Ave|Blvd|bzw|v)|\w{2,}str|"
    r"\b[A-Z])\.$",
    re.IGNORECASE,
)
# What a client puts before the words that go with a picture, a pasted text or a file.
_PREFIX = re.compile(
    r"(?:\[(?:Image|Pasted text|Screenshot|File|Attachment)\b[^\]\n]{0,80}\]\s*|@\"[^\"\n]+\"\s+|"
    r"@(?=\S*[./])\S+\s+(?=(?-i:[A-Z]))|"
    r"<image\b[^>]*>\s*)+",
    re.IGNORECASE,
)
_END_AROUND = re.compile(r"[.!?][\"')\]”’]*\s+|[。！？]|\n+")
_PARAGRAPH_END = re.compile(r"\n[ \t>]*\n")


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a message that its writer says, in order."""
    if len(text) > 2 * _MAX_READ_CHARS:
        text = f"{text[:_MAX_READ_CHARS]}\n\n{text[-_MAX_READ_CHARS:]}"
    if _SYSTEM_PROMPT.match(text):
        return
    spoken = _remove_pasted(text)
    if len(spoken) > MAX_MESSAGE_CHARS:
        # The first and the last paragraph, where they are short enough to be said and not shown.
        paragraphs = [paragraph for paragraph in re.split(r"\n\s*\n", spoken) if paragraph.strip()]
        edges = (paragraphs[:1] + paragraphs[-1:]) if len(paragraphs) > 1 else []
        spoken = "\n\n".join(edge for edge in edges if len(edge) <= _MAX_EDGE_CHARS and not _BULLET.match(edge))
    for line in _join_wrapped_lines(spoken.splitlines()):
        for whole in _split_line(line):
            prefix = _PREFIX.match(whole)
            sentence = whole[prefix.end() :] if prefix else whole
            if _MIN_SENTENCE_CHARS <= len(sentence) <= _MAX_SENTENCE_CHARS:
                yield sentence


def _remove_pasted(text: str) -> str:
    """Return a text with a line break in place of each pasted block and each element."""
    parts: list[str] = []
    done = 0
    for start, end in find_pasted(text, inline=True):
        parts += (text[done:start], "\n")
        done = end
    return "".join([*parts, text[done:]])


def _join_wrapped_lines(lines: list[str]) -> Iterator[str]:
    """Yield lines without their bullets, and without shown lines; a line that was only wrapped joins the one before.

    What a list says of the thing that its head demands something of, "The script must be safe:", is said of that alone.
    """
    pending, is_of_thing = "", False
    for line in lines:
        is_shown = bool(_SHOWN_LINE.match(line) or _INDENTED_LINE.match(line))
        bullet = _BULLET.match(line)
        body = line[bullet.end() if bullet else 0 :].strip()
        if not bullet and body:
            is_of_thing = len(body) <= _MAX_HEAD and _DEMANDS.match(body) is not None
        if is_of_thing and bullet:
            continue
        if pending and not is_shown and not bullet and body[:1].islower():
            pending = f"{pending} {body}"
            continue
        yield from [pending] if pending else []
        pending = ""
        if is_shown or not body:
            continue
        if len(line) > 60 and body[-1] not in ".!?:":
            pending = body
        else:
            yield body
    yield from [pending] if pending else []


def _split_line(line: str) -> Iterator[str]:
    start = 0
    for end in _SENTENCE_END.finditer(line):
        if not _ABBREVIATION.search(line, start, end.start()):
            yield line[start : end.start()].strip()
            start = end.end()
    yield line[start:].strip()


def sentence_around(text: str, passage: str) -> str:
    """Return the sentences of a text that a passage is in or reaches into; the passage itself where it is not there."""
    return _span_around(text, passage, _END_AROUND)


def paragraph_around(text: str, passage: str) -> str:
    """Return the paragraphs of a text that a passage is in; the passage itself where it is not there."""
    return _span_around(text, passage, _PARAGRAPH_END)


def _span_around(text: str, passage: str, end: re.Pattern[str]) -> str:
    start = text.find(passage)
    if start < 0:
        return passage
    before = [match.end() for match in end.finditer(text, 0, start)]
    after = end.search(text, max(start + len(passage) - 1, start))
    return text[before[-1] if before else 0 : after.end() if after else len(text)].strip()
