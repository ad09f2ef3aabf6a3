"""Find the line of a result that says what went wrong.

Pure and bounded: the same text gives the same line, whatever was read before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from consolidator.memory.solutions import line_kinds
from consolidator.memory.text.invisible import strip_invisible

MAX_SCANNED_EDGE = 64 * 1024  # characters read at each end of a text
MAX_LINE = 500
MAX_SUMMARY_TAIL = 6000  # characters of an output in which its summary stands
MAX_HEADLINE = 300
MAX_ERROR_LINES = 50
UNFORMATTED = "files are not formatted"  # the headline of a check of the format, which prints what it would change
MAX_ANNOUNCEMENTS = 5  # lines that announce one another, before the reason

_WRAPPER_TAG = re.compile(r"</?(?:tool_use_error|error|stderr|stdout|system-reminder|output|result)>")
_LINE_BREAK = re.compile(
    r"\r\n|[\r\n\x85\u2028\u2029]|(?:\\n){2,}|(?<=[:.!?\])])\\n"
)  # some tools escape the newlines of the output they relay
_USAGE = re.compile(r"\s*usage: .*(?:[\[<]|\s-)", re.IGNORECASE)
_NEWLINE = re.compile(r"\n")
_TRACEBACK = re.compile(r"\s*(?:\|\s*)?Traceback \(most recent call last\)")
_FAILURE_COUNT = re.compile(
    r"\b[1-9]\d* (?:fail(?:ed|ures?|ing)?|errors?|problems?)\b|\berror(?:\[E\d+\])?: |✖ [1-9]", re.IGNORECASE
)
_NO_FAILURE = re.compile(
    r"\b0 (?:fail|errors?)|\bno (?:errors|issues|problems)\b|^(?!.*\bfail).*\bpassed\b", re.IGNORECASE | re.MULTILINE
)


class ErrorLine(NamedTuple):
    """A line of a text."""

    start: int  # its offset in the text
    text: str  # without tags, and without what nobody sees


def headline(text: str) -> str:
    """Return the line that says what went wrong, at most MAX_HEADLINE characters; "" where none does."""
    return _headline(truncate_middle(text))


@lru_cache(maxsize=32)  # several readers ask for the reason of the same failure
def _headline(text: str) -> str:
    return find_error_line(text).text[:MAX_HEADLINE]


def truncate_middle(text: str, limit: int = 2 * MAX_SCANNED_EDGE) -> str:
    """Return a text; of a long one both ends, in whole lines or words: a part of a credential is not known as one."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{_cut_end(text[:half])}\n{_cut_end(text[: -half - 1 : -1])[::-1]}"


def _cut_end(text: str) -> str:
    """Return a text without its last line, or without its last word where the line is most of it."""
    line = text.rfind("\n")
    return text[: max(line if line >= len(text) // 2 else max(line, text.rfind(" ")), 0)]


def find_error_line(text: str) -> ErrorLine:
    """Return the reason: the exception, else the first line that reads like an error, else the first that may be one.

    A line that announces the reason is joined with it, as is one that announces the announcement.
    """
    if unformatted := line_kinds.NOT_FORMATTED.search(text):
        return ErrorLine(unformatted.start(), UNFORMATTED)
    lines = [line for line in _without_usage(text) if not line_kinds.STATUS.fullmatch(line.text)]
    if not lines:
        return ErrorLine(0, "")
    position = _find_exception(lines)
    if position is None:
        position = _find_complaint(lines)
    line = lines[position]
    parts = [line_kinds.strip_box(line.text)]
    following = lines[position + 1 :]
    while len(parts) <= MAX_ANNOUNCEMENTS and following and _leads_on(parts[-1], following[0].text):
        position = 0
        if line_kinds.is_harmless(following[0].text) and not line.text.lstrip().startswith(("╭", "┌")):
            exception = _find_exception(following)
            position = _find_complaint(following) if exception is None else exception
        parts.append(line_kinds.strip_box(following[position].text))
        following = following[position + 1 :]
    return ErrorLine(line.start, " ".join(part for part in parts if part))


def _leads_on(text: str, following: str) -> bool:
    """Whether a line announces the reason; where code follows, it is the reason."""
    return line_kinds.BARE_LABEL.match(text) is not None or bool(
        line_kinds.ANNOUNCEMENT.search(text)
        and not line_kinds.FRAME.search(following)
        and not line_kinds.QUOTES_FILE.search(text)
    )


def error_lines(text: str) -> list[str]:
    """Return the lines of a result that read like errors, at most MAX_ERROR_LINES."""
    lines = (line.text for line in _without_usage(truncate_middle(text)))
    telling = (line for line in lines if line_kinds.has_error_word(line) and not line_kinds.is_harmless(line))
    return list(islice(telling, MAX_ERROR_LINES))


def shows_failure(text: str) -> bool:
    """Whether an output whose exit status a pipe or a fallback hides tells of a failure."""
    tail = text[-MAX_SUMMARY_TAIL:]
    return bool(_FAILURE_COUNT.search(tail)) and not _NO_FAILURE.search(tail)


@lru_cache(maxsize=4)  # of what is read again at once
def _split_lines(text: str) -> Sequence[ErrorLine]:
    lines: list[ErrorLine] = []
    start = 0
    is_plain = text.isascii() and strip_invisible(text) is text  # as most are: no line has to be looked at again
    pattern = _NEWLINE if is_plain and "\\n" not in text else _LINE_BREAK
    for line_break in [*pattern.finditer(text), None]:
        end = line_break.start() if line_break else len(text)
        if end > start:
            line = text[start : min(end, start + MAX_LINE)] if is_plain else strip_invisible(text[start:end])[:MAX_LINE]
            line = _WRAPPER_TAG.sub("", line) if "<" in line else line
            lines.append(ErrorLine(start, line.rstrip()))
        start = line_break.end() if line_break else end
    return lines


def _without_usage(text: str) -> list[ErrorLine]:
    """Return the lines with a text, without how a program is used, up to an unindented line that reads like an error.

    Where a program said nothing else, its usage stays.
    """
    lines = [line for line in _split_lines(text) if line.text]
    kept: list[ErrorLine] = []
    in_usage = False
    for line in lines if "sage:" in text else ():
        ends = line.text[0] > " " and line_kinds.has_error_word(line.text)
        in_usage = _USAGE.match(line.text) is not None or (in_usage and not ends)
        if not in_usage:
            kept.append(line)
    return lines if all(map(line_kinds.STATUS.fullmatch, (line.text for line in kept))) else kept


def _find_exception(lines: list[ErrorLine]) -> int | None:
    """Return the index of the exception: Python's after its last traceback, else the first."""
    tracebacks = [n for n, line in enumerate(lines) if "Traceback" in line.text and _TRACEBACK.match(line.text)]
    if tracebacks:
        header = lines[tracebacks[-1]].text
        indent = len(header) - len(header.lstrip())
        for n in range(tracebacks[-1] + 1, len(lines)):
            line = lines[n].text
            if len(line) - len(line.lstrip()) <= indent and re.match(r"\s*[\w.]+(?::|$)", line):
                return n
    exceptions = (
        n
        for n, line in enumerate(lines)
        if line_kinds.EXCEPTION.match(line.text)
        and not line_kinds.VAGUE.search(line.text)
        and not line_kinds.is_harmless(line.text)
    )
    return next(exceptions, None)


def _find_complaint(lines: list[ErrorLine]) -> int:
    """Return the index of the first line that reads like an error: by form, as a finding in a file, then by words.

    A vague line comes after them; last the first line that is neither progress nor a notice.
    """
    candidates, telling = list[int](), list[int]()
    for n, line in enumerate(lines):
        if line_kinds.is_harmless(line.text):
            continue
        candidates.append(n)
        is_label = line_kinds.BARE_LABEL.match(line.text) is not None
        announces = is_label or (line_kinds.ANNOUNCEMENT.search(line.text) and line_kinds.has_error_word(line.text))
        if announces and n + 1 < len(lines):
            return n
        if not line_kinds.VAGUE.search(line.text):
            telling.append(n)
            if line_kinds.ERROR_FORM.match(line.text):
                return n
    placed = next((n for n in telling if line_kinds.PLACED_MESSAGE.match(lines[n].text)), None)
    if placed is not None:
        return placed
    for group in (telling, candidates):
        by_word = next((n for n in group if line_kinds.has_error_word(lines[n].text)), None)
        if by_word is not None:
            return by_word
    if candidates:
        return (telling or candidates)[0]
    notices = [n for n, line in enumerate(lines) if not line_kinds.is_progress(line.text)]
    return next((n for n in notices if len(lines[n].text.split()) > 2), notices[0] if notices else 0)
