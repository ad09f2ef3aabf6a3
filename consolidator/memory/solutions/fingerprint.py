"""Names an error: the line that tells what went wrong, and a fingerprint that the same error has everywhere.

Pure and bounded. The same text gives the same answer whatever was seen before: nothing is learned in here.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

VERSION = "v1"
MAX_SCANNED_EDGE = 64 * 1024  # characters looked at, at each end of a text
MAX_LINE = 500
MAX_HEADLINE = 300
MAX_SIGNATURE = 200
NO_MESSAGE = "<no message>"

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0e-\x1f\x7f]")
_TAG = re.compile(r"</?(?:tool_use_error|error|stderr|stdout|system-reminder|output|result)>")
_BREAK = re.compile(r"\r\n|\r|\n|(?:\\n){2,}|(?<=[:.!?])\\n")  # some tools escape the newlines of what they relay
_EXIT = re.compile(
    r"\s*(?:\(no output\)|\(?(?:the )?(?:command|process|shell|script|program)?\s*"
    r"(?:failed with |exited with |finished with |returned )?(?:non-zero )?(?:exit )?(?:code|status)\s*:?\s*-?\d+\)?\.?"
    r"|wall time: .*|chunk id: .*|original token count: .*|output:)\s*",
    re.IGNORECASE,
)
_RAISED = re.compile(
    r"\s*(?:[-*•] )?(?:[A-Z]+\d+ )?(?:(?:E\s+|Uncaught |Unhandled |\[[\w ]+\] |Exception in thread \S+ )*"
    r"(?:[\w$]+(?:\.|::|/))*(?:[A-Z]\w*)?(?:Error|Exception|Interrupt|Failure|Fault|Panic)"
    r"(?: \[\w+\]| \(\w+\))?(?::\s*\S|\s*$)"
    r"|\*\* \([\w.]+\)|panic: |thread '.*' panicked at|Fatal error: |PHP Fatal error|Segmentation fault)"
)
_CAUSE = re.compile(r"\s*Caused by: ")
_TRACE = re.compile(r"\s*(?:\|\s*)?Traceback \(most recent call last\)")
_STRONG = re.compile(
    r"[^\w\s]*\s*(?:[\w./\\@+-]+(?:\(\d[\d,]*\)|(?::\d+)*)?:?\s+(?:-\s+)?)?[\[(]?"
    r"(?:fatal|error|errors|failed|failure|abort(?:ed)?|denied|err!)[\])]?(?:\[\w+\])?(?:\s+[A-Z]+\d+)?\s*[:!]\s*\S"
    r"|.*(?:command not found|: not found$|No such file or directory|[Pp]ermission denied|is not recognized as)"
    r"|npm (?:ERR!|error) (?!code|A complete log|errno|path|command)"
    r"|Error (?:executing|while|in|running|calling|reading|parsing|during)\b|.*: error [A-Z]*\d*:",
    re.IGNORECASE,
)
_WEAK = re.compile(
    r"\b(?:errors?|fail(?:s|ed|ure|ures|ing)?|fatal|cannot|can't|could not|couldn't|unable|not found|no such|denied"
    r"|invalid|unknown|undefined|unexpected|unrecogni[sz]ed|missing|refused|timed? ?out|exceed(?:s|ed)|exist|expected"
    r"|not allowed|conflicts?|forbidden|unauthori[sz]ed|abort(?:ed|ing)?|reject(?:ed)?|unsupported|unresolved|already"
    r"|ignored by|has no|have no|is not|are not|was not|has not|must|required|too (?:large|many|long)|illegal|crash\w*"
    r"|mismatch|violat\w+|exhausted|blocked|out of (?:sync|memory|date|range)|nothing to)\b|[✗✖×❌]",
    re.IGNORECASE,
)
_BENIGN = re.compile(
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
_HANGING = re.compile(
    r"(?:panicked at .*|^\W*(?:error|failed|failure|fatal|fatal error|exception)\s*):\s*$", re.IGNORECASE
)
_NO_COMMAND = (
    re.compile(r"command not found: (?P<name>[\w.+-]+)\s*$"),
    re.compile(r"(?:^|[\s:])(?P<name>[\w.+/-]+): (?:command )?not found\s*$"),
    re.compile(r"'(?P<name>[\w.+-]+)' is not recognized as"),
    re.compile(r"[Uu]nknown command: (?P<name>[\w.+-]+)\s*$"),
)

_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[a-zA-Z][\w+.-]{1,20}://[^\s'\"<>)\]}]+|\b[\w.-]+@[\w.-]+\.\w+(?::[\w./-]+)?"), "<url>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (
        re.compile(
            r"\b\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:Z|\s?[+-]\d\d:?\d\d)?\b"
            r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"
            r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)?,?\s?(?:\d{1,2} )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
            r"[a-z]* \d{1,4}(?:,? \d{4})?\b"
        ),
        "<date>",
    ),
)
_QUOTED = re.compile(
    r"(?<![\w'])'([^'\n]{0,200})'(?!\w)|\"([^\"\n]{0,200})\"|`([^`'\n]{0,200})[`']|[‘“«]([^’”»\n]{0,200})[’”»]"
)
_QUOTE_OPEN = re.compile(r"\b(near|token) ['\"`].*")  # what a parser stumbled over may hold quotes, or have no end
_SHELL_LINE = re.compile(r"^.*?: (?:-c: )?line \d+: (?=\S)|^(?:/bin/)?(?:ba|z|da)?sh: (?:\d+: )?|^\(eval\):\d+: ?")
_ARITY = re.compile(r"(?<![\w/.<])&?[\w.]+[?!]?/\d+\b")
_PATH = re.compile(
    r"(?<![\w<])(?:[A-Za-z]:\\[^\s:*?\"<>|]+|(?:~|\.{1,2})?/(?=[^\s/])[^\s:,;()'\"\]<>|]+"
    r"|[\w@.+-]+(?:/[\w@.+-]+)+/?"
    r"|[\w-]+(?:\.[\w-]+)*\.(?:py|pyi|js|jsx|ts|tsx|mjs|cjs|json|ya?ml|toml|lock|md|txt|rs|go|rb|exs?|heex|java|kt|c|h|cc|cpp"
    r"|hpp|cs|php|sh|sql|html?|css|scss|xml|csv|log|env|ini|cfg|conf|ipynb|swift|vue|svelte|proto|tf|gradle|zip|gz|png))"
    r"(?![\w<])(?:[:(]\d+(?:[:,]\d+)*\)?)?"
)
_WORD = re.compile(r"(?<![\w<-])[A-Za-z_$][\w$]*(?:(?:\.|::|-)[\w$]+)*")
_NUMBER = re.compile(
    r"(?<![\w<])(?<![A-Z]-)[+-]?(?:0x[0-9a-fA-F]+|\d[\d,]*(?:\.\d+)*)(?:[eE][+-]?\d+)?(?:%|[a-zA-Zµ]{1,3}\b)?|(?<![\w<])[0-9a-f]{7,64}\b"
)
_KEPT = re.compile(r"(?:\w+[.:])*\w*(?:Error|Exception|Interrupt|Failure|Fault|Exit)|[A-Z][A-Z_]+|E2BIG|\w+n't")
_CODE = re.compile(r"[A-Z]{1,8}-?\d{1,6}|[A-Z][A-Z0-9_]+")  # TS2339; where it is no name of a thing, such as HAT290
_CODE_BEFORE = re.compile(
    r"(?:^\W*|[:(\[]\s*|\b(?:errors?|err!|code|errno|status|sqlstate|rule|warning|fatal)\s)$", re.I
)
_CODE_AFTER = re.compile(r"\s*[:)\]]")
_COMPOUND = re.compile(
    r"(?:pre|non|re|un|post|up|read|write|built|out|over|self|auto|fast|no|so|multi|sub|co|cross)-[a-z-]+", re.I
)
_PLACED = re.compile(r"(<path>|<id>)(?:[:(]<n>(?:[:,]\s*<n>)*\)?)+")
_REPEATED = re.compile(r"(<(?:id|path|n|quoted|url|date)>)(?:(?:,| and| or|\|)?\s*\1)+")
_STOP = re.compile(r"the|and|for|with|this|that|from|not|has|have|was|were|are|but|you|your|its|into|than|then")


class ErrorLine(NamedTuple):
    """The telling line of a text: where it stands there, and how it reads without decoration."""

    start: int
    text: str


def fingerprint(tool: str, text: str) -> str:
    """Return "v1:TOOL|SIGNATURE": stable over paths, ids, numbers and names, the same whatever was seen before.

    `tool` is the tool's name or its symbol; of a shell symbol ("sh:git push") the program alone counts ("sh:git"),
    since `git push` and `git pull` fail alike.
    """
    return fingerprint_headline(tool, headline(text))


def fingerprint_headline(tool: str, line: str) -> str:
    """Return the fingerprint of an error whose headline is known."""
    return f"{VERSION}:{tool.split(' ', 1)[0].replace('|', '/')[:80]}|{mask_line(line) if line else NO_MESSAGE}"


def signature(text: str) -> str:
    """Return the masked telling line: the part of a fingerprint that does not depend on the tool."""
    line = headline(text)
    return mask_line(line) if line else NO_MESSAGE


def headline(text: str) -> str:
    """Return the line that tells what went wrong, as it stands there, at most 300 characters; "" where none does."""
    return find_error_line(extract_error_text(text)).text[:MAX_HEADLINE]


def search_tokens(text: str) -> list[str]:
    """Return the words that an error can be searched by: sorted, in lower case, without names and numbers."""
    words = re.findall(r"[a-z][a-z']{2,}", re.sub(r"<\w+>", " ", mask_line(headline(text))).lower())
    return sorted({word for word in words if not _STOP.fullmatch(word)})


def truncate_middle(text: str) -> str:
    """Return the text, or its two ends where it is longer than we look at."""
    return text if len(text) <= 2 * MAX_SCANNED_EDGE else f"{text[:MAX_SCANNED_EDGE]}\n{text[-MAX_SCANNED_EDGE:]}"


def extract_error_text(text: str) -> str:
    """Return what a JSON answer says in its error, message or output; any other text as it is, bounded."""
    stripped = text.strip()
    if stripped[:1] in ("{", "[") and stripped[-1:] in ("}", "]") and len(stripped) <= 4 * MAX_SCANNED_EDGE:
        try:
            found = _said(json.loads(stripped), 0)
        except (ValueError, RecursionError):
            found = None
        if found:
            return truncate_middle(found)
    return truncate_middle(text)


def _said(value: Any, depth: int) -> str | None:
    if isinstance(value, str):
        return value if value.strip() else None
    if depth > 4:
        return None
    if isinstance(value, list):
        return next((found for item in value[:20] if (found := _said(item, depth + 1))), None)
    if isinstance(value, dict):
        keys = (
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
        return next((found for key in keys if (found := _said(value.get(key), depth + 1))), None)
    return None


def find_error_line(text: str) -> ErrorLine:
    """Return the exception's line, else the first that reads like an error, else the first that says anything."""
    lines = [line for line in _lines(text) if line.text and not _EXIT.fullmatch(line.text)]
    if not lines:
        return ErrorLine(0, "")
    position = _raised(lines)
    if position is None:
        position = _complained(lines)
    found = lines[position]
    if _HANGING.search(found.text) and position + 1 < len(lines):
        return ErrorLine(found.start, f"{found.text.rstrip()} {lines[position + 1].text.strip()}")
    return ErrorLine(found.start, found.text.strip())


def contains_error_line(text: str) -> bool:
    """Whether any line of a text has the form of an error."""
    lines = [line.text for line in _lines(extract_error_text(text)) if not _EXIT.fullmatch(line.text)]
    return any((_RAISED.match(line) or _STRONG.match(line)) and not _BENIGN.search(line) for line in lines)


def reports_failure(text: str) -> bool:
    """Whether a text is a failure's by its own words; used where a pipe hid the exit status."""
    lines = [line for line in _lines(truncate_middle(text)) if line.text and not _BENIGN.search(line.text)]
    if any(
        _RAISED.match(line.text) or re.search(r"\b[1-9]\d* (?:failed|failures?|errors?)\b", line.text) for line in lines
    ):
        return True
    return any(_STRONG.match(line.text) for line in lines[:20])


def _lines(text: str) -> list[ErrorLine]:
    lines: list[ErrorLine] = []
    start = 0
    for end in [*_BREAK.finditer(text), None]:
        stop = end.start() if end else len(text)
        if stop > start:
            raw = _ANSI.sub("", text[start : min(stop, start + MAX_LINE)])
            raw = _TAG.sub("", raw) if "<" in raw else raw
            lines.append(ErrorLine(start, raw.rstrip()))
        start = end.end() if end else stop
    return lines


def _raised(lines: list[ErrorLine]) -> int | None:
    """Return where the exception is told: Python's after its last traceback, Java's last cause, else the first."""
    traces = [n for n, line in enumerate(lines) if _TRACE.match(line.text)]
    if traces:
        indent = len(lines[traces[-1]].text) - len(lines[traces[-1]].text.lstrip())
        for n in range(traces[-1] + 1, len(lines)):
            line = lines[n].text
            if len(line) - len(line.lstrip()) <= indent and re.match(r"\s*[\w.]+(?::|$)", line):
                return n
    raised = [n for n, line in enumerate(lines) if _RAISED.match(line.text) and not _VAGUE.search(line.text)]
    causes = [n for n, line in enumerate(lines) if _CAUSE.match(line.text)]
    if raised and causes and causes[-1] > raised[0]:
        return causes[-1]
    return raised[0] if raised else None


def _complained(lines: list[ErrorLine]) -> int:
    """Return the first line that reads like an error: by its form, then by its words; a vague one only at last."""
    vague: int | None = None
    for pattern in (_STRONG.match, _WEAK.search):
        for n, line in enumerate(lines):
            if pattern(line.text) and not _BENIGN.search(line.text):
                if not _VAGUE.search(line.text):
                    return n
                vague = n if vague is None else vague
    return vague or 0


def mask_line(line: str) -> str:
    """Return a line with everything masked that differs between two cases of one error."""
    line = line[:MAX_LINE]
    for pattern in _NO_COMMAND:
        found = pattern.search(line)
        if found:
            return f"command not found: {found['name'].rsplit('/', 1)[-1]}"[:MAX_SIGNATURE]
    line = _SHELL_LINE.sub("", line)
    for pattern, name in _MASKS:
        line = pattern.sub(name, line)
    line = _QUOTED.sub(_quoted, _QUOTE_OPEN.sub(r"\1 <quoted>", line))
    line = _PATH.sub("<path>", _ARITY.sub("<id>", line))
    line = _NUMBER.sub("<n>", _WORD.sub(_word, line))
    line = _REPEATED.sub(r"\1", _PLACED.sub(r"\1", line))
    line = re.sub(r"[\s│┃━─═╌]+", " ", line).lstrip("> .:;,*-×✗").rstrip(" .:;,*-")
    return line[:MAX_SIGNATURE] or NO_MESSAGE


def _quoted(found: re.Match[str]) -> str:
    inner = next((group for group in found.groups() if group is not None), "")
    return inner if len(inner.split()) >= 5 else "<quoted>"  # a quoted sentence is the message itself


def _is_code(found: re.Match[str]) -> bool:
    """Whether what looks like an error's code stands where one does: at the start, after "error", before a colon."""
    before = found.string[max(0, found.start() - 16) : found.start()]
    at_start = found.start() <= 16
    placed = _CODE_BEFORE.search(before if at_start else f"x{before}")
    return bool(placed or _CODE_AFTER.match(found.string, found.end()))


def _word(found: re.Match[str]) -> str:
    word = found[0]
    if _KEPT.fullmatch(word) or _COMPOUND.fullmatch(word) or (_CODE.fullmatch(word) and _is_code(found)):
        return word
    named = any(mark in word for mark in "._-:$") or any(c.isdigit() for c in word)
    return "<id>" if named or re.match(r"[a-z]+[A-Z]", word) else word
