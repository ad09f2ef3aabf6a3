"""Finds the lines of an output that say what went wrong, and masks what differs from case to case.

Pure. Several lines stand for one failure, for which of them is telling depends on other sessions: a line that
successful runs also print says nothing. Code frames, diffs, line numbers and summaries never count.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from consolidator.memory.text.invisible import strip_invisible

MAX_HEADLINES, MAX_REASONS = 6, 3  # of one failure; and those that are no code of a lint rule
MAX_HEADLINE = 200  # characters
MAX_READ = 40_000  # characters of an output: its beginning and its end
MAX_LINE = 1000  # characters; a longer one is data
MAX_PRINTED = 40  # lines of a successful output
_TAIL = 6000  # characters in which a summary stands


def any_of(alternatives: str) -> str:
    """Return a group of regular expressions, one a line: long tables read better as text."""
    return "(?:" + "|".join(line.strip() for line in alternatives.splitlines() if line.strip()) + ")"


_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_BULLET = re.compile(r"^(?:[×✖✗⨯*]|\[[\w:.-]+\]) ")  # also the task that a line is of
_RULE_CODE = re.compile(
    r"\blint/\w+/\w+|\berror\[E\d{4}\]|(?i:formatter would have printed)"
    r"|\b(?:MD|SC|RUF|UP|PLR|PLW|PLC|ANN|PTH|SIM|TRY|DTZ|ERA|BLE|FBT|N|E|F|W|B|C|D|I|S)\d{3,4}\b"
)
_LINTED = re.compile(r"\s*\d+:\d+\s+(?:error|warning)\s.*\s(@?[\w-]+(?:/[\w-]+)*)\s*$")  # 12:3 error ... no-unused-vars
ERROR_WORD = re.compile(
    r"\b"
    + any_of(
        r"""
        errors?
        fail(?:ed|ure|s)?
        cannot|can't|couldn't|could not|unable
        not (?:a|found|installed|supported|allowed|defined|available|been|exist)
        do(?:es)?(?: not|n't) exist
        no such|no matches|missing|required|must
        unrecogni[sz]ed|unknown|unexpected|undefined|invalid|illegal
        denied|refused|aborted|conflict|timed out|already
        traceback|fatal|exception|\w+Error|\w+Exception
        has been modified|before writing
        """
    )
    + r"\b",
    re.IGNORECASE,
)
_FRAME = re.compile(
    r"\s*"
    + any_of(
        r"""
        (?:\d+\s*)?[│┃▶>|]
        >?\s*\d+ +[│|]
        \d+(?:[→:]| \S)
        at (?:\S+ \(|\S+:\d+|async )
        File "
        [~^]+\s*$
        [┌└├╭╰]|-->
        """
    )
)
_DIFF = re.compile(r"(?:[+-](?![- ]?\w+ing\b)[^-\s]|[+-]{3} |@@ |diff --git|index [0-9a-f]{7})")
_IGNORED = re.compile(
    r"\s*"
    + any_of(
        r"""
        \$ |> |❯|✓|✔|√|✗ |× \d|\[?STARTED|=+ |-{3,}|_{3,}
        (?:hint|help|note|info|usage|tip|warning): ?|warn\b|npm notice|\[[\w ]+\] (?:warning|warn|info|debug)\b
        exit code \d|error: script \S+ exited|ERROR: "?\w+"? exited|ERROR task failed|ELIFECYCLE
        Command failed|error Command failed
        ok\b|PASS\b|FAIL\b|--- FAIL|\((?:fail|pass)\)|Test(?: Files|s)\b|Skipped|Duration|Ran \d|Found \d+|Checked \d+
        \d+ (?:pass|fail|error|warning|problem|test|skip|expect)
        \w+: \d+ errors?\b|Some errors were emitted|The number of diagnostics|husky - |pre-commit script failed
        make(?:\[\d+\])?: \*\*\*|npm (?:ERR|error)! (?:code|A complete log|path|errno)
        error: expect\(|String: |Expected:|Received:
        """
    ),
    re.IGNORECASE,
)
_EXTENSIONS = "[jt]sx?|py|rs|go|rb|java|kt|c|cc|cpp|h|json|ya?ml|toml|md|sh|css|html|sql|lock|txt|vue"
_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\w+://\S+"), "<url>"),
    (
        re.compile(
            r"(?<![\w@])(?:~|\.{1,2}|[A-Za-z]:)?(?:/[\w.@+\[\]()-]+){2,}/?|(?<![\w@/])[\w.@-]+(?:/[\w.@\[\]()-]+)+"
            rf"|(?<![\w/])[\w.-]+\.(?:{_EXTENSIONS})\b"
        ),
        "<path>",
    ),
    (re.compile(r"\b[0-9a-f]{7,}\b"), "<id>"),
    (re.compile(r"\d+(?:[.,:]\d+)*(?:ms|s|kB|MB)?"), "<n>"),
)
_PREFIX = re.compile(r"([\w.+-]{2,30}): (?=\S)")
_NO_PROGRAM = frozenset({"error", "fatal", "warning", "err"})
_SHELL_LINE = re.compile(r"(?:\(eval\):\d+|(?:/bin/)?(?:ba|z|da)?sh(?:: (?:line )?\d+)?): (.+)")
_OPERAND = re.compile(r"(no matches found|bad pattern|no such file or directory|permission denied): .*", re.IGNORECASE)
_COUNT = re.compile(
    r"\b[1-9]\d* (?:fail(?:ed|ures?|ing)?|errors?|problems?)\b|\berror(?:\[E\d+\])?: |✖ [1-9]", re.IGNORECASE
)
_NO_FAILURE = re.compile(
    r"\b0 (?:fail|errors?)|\bno (?:errors|issues|problems)\b|\bpassed\b(?!.*failed)", re.IGNORECASE
)
_NOT_UNDERSTOOD = r"""
    unrecogni[sz]ed subcommand
    (?:unknown|illegal|invalid) (?:option|flag|command|skill)
    script not found|missing script|no task \S+ found|command not found|does not exist
    """
DECISIVE = re.compile(any_of(_NOT_UNDERSTOOD), re.IGNORECASE)  # two such failures say as much as three others
STRONG = re.compile(  # says that something is not there, or not understood
    any_of(
        _NOT_UNDERSTOOD
        + r"""
    unrecogni[sz]ed|unknown|unexpected argument|not understood|is not recogni[sz]ed|has no attribute
    no such|not found|cannot find|can't find|no matches found|not installed|not an? \w+
    """
    ),
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Headline:
    """A line that may say what went wrong: masked, to compare, and as it stands."""

    key: str
    text: str


def shows_failure(text: str) -> bool:
    """Whether an output whose exit status a pipe or a fallback hides tells of a failure."""
    tail = text[-_TAIL:]
    return bool(_COUNT.search(tail)) and not _NO_FAILURE.search(tail)


def is_lint_rule(key: str) -> bool:
    """Whether a headline's key is the code of a lint rule."""
    return "/" in key and " " not in key


def find_headlines(text: str, program: str) -> list[Headline]:
    """Return the lines that may say what went wrong in a failed call, the codes of lint rules first."""
    headlines: dict[str, Headline] = {}
    for line in _lines(text):
        for code in [match[0] for match in _RULE_CODE.finditer(line)] or _LINTED.findall(line):
            is_code = "lint/" in code or not code[-1].isdigit() or ERROR_WORD.search(line)
            if is_code and len(headlines) < MAX_HEADLINES:
                headlines.setdefault(code, Headline(code, _BULLET.sub("", " ".join(line.split()))[:MAX_HEADLINE]))
    reasons = 0
    for line in _reasons(text):
        if reasons == MAX_REASONS or len(headlines) >= MAX_HEADLINES:
            break
        key = _key(line, program)
        if key not in headlines and not _RULE_CODE.search(line):
            headlines[key] = Headline(key, line[:MAX_HEADLINE])
            reasons += 1
    return list(headlines.values())


def hash_printed(text: str) -> list[str]:
    """Return hashes of the lines of a successful output that read like errors: they are no reason elsewhere."""
    return list(dict.fromkeys(line_hash(line) for line in _reasons(text)))[:MAX_PRINTED]


@lru_cache(maxsize=16384)
def line_hash(line: str) -> str:
    """Return what tells whether two lines are the same but for paths, numbers and the like."""
    return hashlib.blake2b(mask(line).encode(), digest_size=5).hexdigest()


def mask(line: str) -> str:
    """Return a line without what differs from case to case."""
    for pattern, name in _MASKS:
        line = pattern.sub(name, line)
    return " ".join(line.split())[:MAX_HEADLINE]


def _key(line: str, program: str) -> str:
    """Return a line as it is compared, with the program that it names, or the failed one."""
    shell = _SHELL_LINE.match(line)
    if shell:
        return "shell: " + _OPERAND.sub(r"\1", mask(shell[1]))
    named = _PREFIX.match(line)
    return mask(line) if named and named[1].lower() not in _NO_PROGRAM else f"{program}: {mask(line)}"


def _reasons(text: str) -> Iterator[str]:
    """Yield the lines that read like an error: no frames, diffs, hints and summaries."""
    for line in _lines(text):
        if not ERROR_WORD.search(line) or _FRAME.match(line) or _DIFF.match(line):
            continue
        plain = line.strip().removeprefix("<tool_use_error>").removesuffix("</tool_use_error>").strip()
        plain = _BULLET.sub("", plain)
        is_prose = 2 <= len(plain.split()) <= 40 and not plain.endswith(("{", "(", ";"))
        if is_prose and not _IGNORED.match(plain):
            yield strip_invisible(plain)


def _lines(text: str) -> Iterator[str]:
    if len(text) > MAX_READ:
        text = text[: MAX_READ // 2] + "\n" + text[-MAX_READ // 2 :]
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    yield from (line for line in text.splitlines() if len(line) <= MAX_LINE)
