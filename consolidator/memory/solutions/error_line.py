"""Find the line of a result that says what went wrong.

Pure and bounded: the same text gives the same line, whatever was read before.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

MAX_SCANNED_EDGE = 64 * 1024  # characters read at each end of a text
MAX_LINE = 500
MAX_HEADLINE = 300

_CONTROL_CODES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0e-\x1f\x7f]"
)
_WRAPPER_TAG = re.compile(r"</?(?:tool_use_error|error|stderr|stdout|system-reminder|output|result)>")
_LINE_BREAK = re.compile(
    r"\r\n|\r|\n|(?:\\n){2,}|(?<=[:.!?])\\n"
)  # some tools escape the newlines of the output they relay
_STATUS_LINE = re.compile(
    r"\s*(?:\(no output\)|\(?(?:the )?(?:command|process|shell|script|program)?\s*"
    r"(?:failed with |exited with |finished with |returned )?(?:non-zero )?(?:exit )?(?:code|status)\s*:?\s*-?\d+\)?\.?"
    r"|wall time: .*|chunk id: .*|original token count: .*|output:)\s*",
    re.IGNORECASE,
)
_EXCEPTION = re.compile(
    r"\s*(?:[-*•] )?(?:[A-Z]+\d+ )?(?:(?:E\s+|Uncaught |Unhandled |\[[\w ]+\] |Exception in thread \S+ )*"
    r"(?:[\w$]+(?:\.|::|/))*(?:[A-Z]\w*)?(?:Error|Exception|Interrupt|Failure|Fault|Panic)"
    r"(?: \[\w+\]| \(\w+\))?(?::\s*\S|\s*$)"
    r"|\*\* \([\w.]+\)|panic: |thread '.*' panicked at|Fatal error: |PHP Fatal error|Segmentation fault)"
)
_CAUSED_BY = re.compile(r"\s*Caused by: ")
_TRACEBACK = re.compile(r"\s*(?:\|\s*)?Traceback \(most recent call last\)")
_ERROR_FORM = re.compile(
    r"[^\w\s]*\s*(?:[\w./\\@+-]+(?:\(\d[\d,]*\)|(?::\d+)*)?:?\s+(?:-\s+)?)?[\[(]?"
    r"(?:fatal|error|errors|failed|failure|abort(?:ed)?|denied|err!)[\])]?(?:\[\w+\])?(?:\s+[A-Z]+\d+)?\s*[:!]\s*\S"
    r"|.*(?:command not found|: not found$|No such file or directory|[Pp]ermission denied|is not recognized as)"
    r"|npm (?:ERR!|error) (?!code|A complete log|errno|path|command)"
    r"|Error (?:executing|while|in|running|calling|reading|parsing|during)\b|.*: error [A-Z]*\d*:",
    re.IGNORECASE,
)
_ERROR_WORD = re.compile(
    r"\b(?:errors?|fail(?:s|ed|ure|ures|ing)?|fatal|cannot|can't|could not|couldn't|unable|not found|no such|denied"
    r"|invalid|unknown|undefined|unexpected|unrecogni[sz]ed|missing|refused|timed? ?out|exceed(?:s|ed)|exist|expected"
    r"|not allowed|conflicts?|forbidden|unauthori[sz]ed|abort(?:ed|ing)?|reject(?:ed)?|unsupported|unresolved|already"
    r"|ignored by|has no|have no|is not|are not|was not|has not|must|required|too (?:large|many|long)|illegal|crash\w*"
    r"|mismatch|violat\w+|exhausted|blocked|out of (?:sync|memory|date|range)|nothing to)\b|[✗✖×❌]",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"\b(?:0|no) (?:errors?|failures?|failed|warnings?)\b|^\s*(?:\S+:\s+)?\[?warn(?:ing)?s?\b|\bwarning:|^\s*at \S+"
    r"|^\s*File \"|^\s*>\s|^\s*(?:>?\s*\d+\s*)?[│┃|](?:\s|$)|^\s*#|^\s*\d+ (?:passed|tests?,)"
    r"|^\s*(?:hint|note|help|info):"
    r"|\berrors?[\s_-]?(?:handling|handler)\b|^\W*(?:total )?errors?: \d+,",
    re.IGNORECASE,
)
_VAGUE = re.compile(
    r"errors? (?:have been|has been|were|was) (?:logged|emitted)|aborting due to|could not compile|command failed"
    r"|elifecycle|lifecycle script|make(?:\[\d+\])?: \*\*\*|build failed|compilation failed"
    r"|subprocess-exited-with-error|process completed|(?:^|\s)found \d+ errors?|some errors|exited with"
    r"|exit (?:code|status)|calledprocesserror"
    r"|^\W*(?:error|failed|failure|errors)\W*$",
    re.IGNORECASE,
)
_ANNOUNCEMENT = re.compile(
    r"(?:panicked at .*|^\W*(?:error|failed|failure|fatal|fatal error|exception)\s*):\s*$", re.IGNORECASE
)
_ANSWER_KEYS = (  # of a JSON answer, where its error is looked for, in this order
    "error",
    "errors",
    "stderr",
    "message",
    "msg",
    "detail",
    "reason",
    "output",
    "stdout",
    "content",
    "text",
)


class ErrorLine(NamedTuple):
    """A line of a text."""

    start: int  # its offset in the text
    text: str  # without escape codes and tags


def headline(text: str) -> str:
    """Return the line that says what went wrong, at most MAX_HEADLINE characters; "" where none does."""
    return find_error_line(extract_error_text(text)).text[:MAX_HEADLINE]


def truncate_middle(text: str) -> str:
    """Return a text; of a very long one, the two ends."""
    return text if len(text) <= 2 * MAX_SCANNED_EDGE else f"{text[:MAX_SCANNED_EDGE]}\n{text[-MAX_SCANNED_EDGE:]}"


def extract_error_text(text: str) -> str:
    """Return the error, message or output of a JSON answer; any other text as it is. Truncates very long texts."""
    stripped = text.strip()
    if stripped[:1] in ("{", "[") and stripped[-1:] in ("}", "]") and len(stripped) <= 4 * MAX_SCANNED_EDGE:
        try:
            error_text = _find_text(json.loads(stripped), 0)
        except (ValueError, RecursionError):
            error_text = None
        if error_text:
            return truncate_middle(error_text)
    return truncate_middle(text)


def _find_text(value: Any, depth: int) -> str | None:
    if isinstance(value, str):
        return value if value.strip() else None
    if depth > 4:
        return None
    if isinstance(value, list):
        return next((text for item in value[:20] if (text := _find_text(item, depth + 1))), None)
    if isinstance(value, dict):
        return next((text for key in _ANSWER_KEYS if (text := _find_text(value.get(key), depth + 1))), None)
    return None


def find_error_line(text: str) -> ErrorLine:
    """Return the exception's line, else the first that reads like an error, else the first that is not empty."""
    lines = [line for line in _split_lines(text) if line.text and not _STATUS_LINE.fullmatch(line.text)]
    if not lines:
        return ErrorLine(0, "")
    position = _find_exception(lines)
    if position is None:
        position = _find_complaint(lines)
    line = lines[position]
    if _ANNOUNCEMENT.search(line.text) and position + 1 < len(lines):  # the reason follows on the next line
        return ErrorLine(line.start, f"{line.text.rstrip()} {lines[position + 1].text.strip()}")
    return ErrorLine(line.start, line.text.strip())


def contains_error_line(text: str) -> bool:
    """Whether any line of a text has the form of an error."""
    lines = [line.text for line in _split_lines(extract_error_text(text)) if not _STATUS_LINE.fullmatch(line.text)]
    return any((_EXCEPTION.match(line) or _ERROR_FORM.match(line)) and not _HARMLESS.search(line) for line in lines)


def reports_failure(text: str) -> bool:
    """Whether an output says that the call failed. Used where a pipe hides the exit status."""
    lines = [line for line in _split_lines(truncate_middle(text)) if line.text and not _HARMLESS.search(line.text)]
    if any(
        _EXCEPTION.match(line.text) or re.search(r"\b[1-9]\d* (?:failed|failures?|errors?)\b", line.text)
        for line in lines
    ):
        return True
    return any(_ERROR_FORM.match(line.text) for line in lines[:20])


def _split_lines(text: str) -> list[ErrorLine]:
    lines: list[ErrorLine] = []
    start = 0
    for line_break in [*_LINE_BREAK.finditer(text), None]:
        end = line_break.start() if line_break else len(text)
        if end > start:
            line = _CONTROL_CODES.sub("", text[start : min(end, start + MAX_LINE)])
            line = _WRAPPER_TAG.sub("", line) if "<" in line else line
            lines.append(ErrorLine(start, line.rstrip()))
        start = line_break.end() if line_break else end
    return lines


def _find_exception(lines: list[ErrorLine]) -> int | None:
    """Return the index of the exception: Python's after its last traceback, Java's last cause, else the first."""
    tracebacks = [n for n, line in enumerate(lines) if _TRACEBACK.match(line.text)]
    if tracebacks:
        header = lines[tracebacks[-1]].text
        indent = len(header) - len(header.lstrip())
        for n in range(tracebacks[-1] + 1, len(lines)):
            line = lines[n].text
            if len(line) - len(line.lstrip()) <= indent and re.match(r"\s*[\w.]+(?::|$)", line):
                return n
    exceptions = [n for n, line in enumerate(lines) if _EXCEPTION.match(line.text) and not _VAGUE.search(line.text)]
    causes = [n for n, line in enumerate(lines) if _CAUSED_BY.match(line.text)]
    if exceptions and causes and causes[-1] > exceptions[0]:
        return causes[-1]
    return exceptions[0] if exceptions else None


def _find_complaint(lines: list[ErrorLine]) -> int:
    """Return the index of the first line that reads like an error: by form, then by words; a vague one last."""
    vague: int | None = None
    for matches in (_ERROR_FORM.match, _ERROR_WORD.search):
        for n, line in enumerate(lines):
            if matches(line.text) and not _HARMLESS.search(line.text):
                if not _VAGUE.search(line.text):
                    return n
                vague = n if vague is None else vague
    return vague or 0
