"""Finds the lines of an output that say what went wrong, and masks what differs from case to case.

Pure. Several lines stand for one failure, for which of them is telling depends on other sessions: a line that successful
runs also print says nothing. Code frames, diffs, line numbers and summaries never count.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from consolidator.memory.text.invisible import strip_invisible

MAX_HEADLINES = 6  # of one failure
MAX_HEADLINE = 200  # characters
MAX_READ = 40_000  # characters of an output, half from its beginning
MAX_SUCCESS_KEYS = 40
MAX_LINE = 1000  # characters; a longer one is data
_BULLET = re.compile(r"^[×✖✗⨯*] ")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RULE_CODE = re.compile(
    r"\blint/\w+/\w+|\b(?:MD|SC|RUF|UP|PLR|PLW|PLC|ANN|PTH|SIM|TRY|DTZ|ERA|BLE|FBT|N|E|F|W|B|C|D|I|S)\d{3,4}\b|\berror\[E\d{4}\]"
    r"|(?i:formatter would have printed)"
)
_LINTED = re.compile(
    r"\s*\d+:\d+\s+(?:error|warning)\s.*\s(@?[\w-]+(?:/[\w-]+)*)\s*$"
)  # 12:3  error  ...  no-unused-vars
_ERROR = re.compile(
    r"\b(?:errors?|fail(?:ed|ure|s)?|cannot|can't|couldn't|could not|not found|no such|unrecogni[sz]ed|unknown|invalid|"
    r"illegal|denied|refused|unable|exception|missing|does ?n[o']t exist|do ?n[o']t exist|not exist|unexpected|traceback|fatal|"
    r"aborted|conflict|timed out|no matches|not a|not (?:installed|supported|allowed|defined|available|been)|must|"
    r"\w+Error|\w+Exception|required|undefined|already|has been modified|before writing)\b",
    re.IGNORECASE,
)
_FRAME = re.compile(
    r"\s*(?:\d+\s*)?[│|┃▶>]|\s*>?\s*\d+ +[│|]|\s*\d+[→:]|\s*at (?:\S+ \(|\S+:\d+|async )|\s*File \"|\s*[~^]+\s*$|\s*[┌└├╭╰]|\s*-->|\s*\d+ \S"
)
_DIFF = re.compile(r"(?:[+-](?![- ]?\w+ing\b)[^-\s]|[+-]{3} |@@ |diff --git|index [0-9a-f]{7})")
_IGNORED = re.compile(
    r"\s*(?:\$ |> |hint:|help:|note:|info:|usage:|tip:|warning:|warn\b|npm notice|exit code \d|\[?STARTED|✓|✔|√|ok\b|PASS\b|FAIL\b|"
    r"--- FAIL|Test(?: Files|s)\b|\(fail\)|\(pass\)|✗ |× \d|❯|\d+ (?:pass|fail|error|warning|problem|test|skip|expect)|Ran \d|Found \d+|"
    r"Checked \d+|Some errors were emitted|husky - |error: script \S+ exited|ERROR: \"?\w+\"? exited|Command failed|ELIFECYCLE|"
    r"make(?:\[\d+\])?: \*\*\*|error: expect\(|\[[\w ]+\] (?:warning|warn|info|debug)\b|error Command failed|The number of diagnostics|pre-commit script failed|Skipped|Duration|"
    r"=+ |-{3,}|_{3,}|\d+ passed|\d+ failed|npm (?:ERR|error)! (?:code|A complete log|path|errno)|String: |Expected:|Received:)",
    re.IGNORECASE,
)
_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\w+://\S+"), "<url>"),
    (
        re.compile(
            r"(?<![\w@])(?:~|\.{1,2}|[A-Za-z]:)?(?:/[\w.@+\[\]()-]+){2,}/?|(?<![\w@/])[\w.@-]+(?:/[\w.@\[\]()-]+)+"
        ),
        "<path>",
    ),
    (
        re.compile(
            r"(?<![\w/])[\w.-]+\.(?:[jt]sx?|py|rs|go|rb|java|kt|c|cc|cpp|h|json|ya?ml|toml|md|sh|css|html|sql|lock|txt|vue)\b"
        ),
        "<path>",
    ),
    (re.compile(r"\b[0-9a-f]{7,}\b"), "<id>"),
    (re.compile(r"\d+(?:[.,:]\d+)*(?:ms|s|kB|MB)?"), "<n>"),
)
_PREFIX = re.compile(r"(?:\(eval\):\d+: |(?:/bin/)?(?:ba|z|da)?sh: (?:line )?(?:\d+: )?)?([\w.+-]{2,30}): (?=\S)")
_SHELL_LINE = re.compile(r"(?:\(eval\):\d+|(?:/bin/)?(?:ba|z|da)?sh(?:: (?:line )?\d+)?): (.+)")
_OPERAND = re.compile(r"(no matches found|bad pattern|no such file or directory|permission denied): .*", re.IGNORECASE)
_COUNT = re.compile(
    r"\b[1-9]\d* (?:fail(?:ed|ures?|ing)?|errors?|problems?)\b|\berror(?:\[E\d+\])?: |✖ [1-9]", re.IGNORECASE
)
_NO_FAILURE = re.compile(
    r"\b0 (?:fail|errors?)|\bno (?:errors|issues|problems)\b|\bpassed\b(?!.*failed)", re.IGNORECASE
)
STRONG = re.compile(
    r"unrecogni[sz]ed|unknown (?:option|command|argument|flag|subcommand|skill)|illegal option|invalid option|script not found|missing script|command not found|"
    r"does not exist|no such file|not found|cannot find|can't find|no matches found|not (?:a|an) \w+|not installed|"
    r"is not recogni[sz]ed|no such|unexpected argument|not understood|has no attribute|unknown",
    re.IGNORECASE,
)
DECISIVE = re.compile(
    r"unrecogni[sz]ed subcommand|(?:unknown|illegal|invalid) (?:option|flag|command|skill)|script not found|missing script|command not found|does not exist",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Headline:
    """A line that may say what went wrong: masked, to compare, and as it stands."""

    key: str
    text: str


def shows_failure(text: str) -> bool:
    """Whether an output whose exit status a pipe or a fallback hides tells of a failure."""
    tail = text[-6000:]
    return bool(_COUNT.search(tail)) and not _NO_FAILURE.search(tail)


def find_headlines(text: str, program: str) -> list[Headline]:
    """Return the lines that may say what went wrong in a failed call, the codes of lint rules first."""
    found: dict[str, Headline] = {}
    for line in _lines(text):
        codes = [match[0] for match in _RULE_CODE.finditer(line)] or _LINTED.findall(line)
        for code in codes:
            if len(found) < MAX_HEADLINES and ("lint/" in code or not code[-1].isdigit() or _ERROR.search(line)):
                found.setdefault(code, Headline(code, " ".join(line.split())[:MAX_HEADLINE]))
    errors = 0
    for line in _plain_lines(text):
        if errors >= 3 or len(found) >= MAX_HEADLINES:
            break
        if _RULE_CODE.search(line) or not _ERROR.search(line) or not _is_reason(line):
            continue
        key = _prefixed(line, program)
        if key not in found:
            found[key] = Headline(key, line[:MAX_HEADLINE])
            errors += 1
    return list(found.values())


def success_keys(text: str) -> list[str]:
    """Return hashes of the lines of a successful output that read like errors: they are no reason elsewhere."""
    keys = dict.fromkeys(line_hash(line) for line in _plain_lines(text) if _ERROR.search(line) and _is_reason(line))
    return list(keys)[:MAX_SUCCESS_KEYS]


def line_hash(line: str) -> str:
    """Return what tells whether two lines are the same but for paths, numbers and the like."""
    return hashlib.blake2b(mask(line).encode(), digest_size=5).hexdigest()


def mask(line: str) -> str:
    """Return a line without what differs from case to case."""
    for pattern, name in _MASKS:
        line = pattern.sub(name, line)
    return " ".join(line.split())[:MAX_HEADLINE]


def _prefixed(line: str, program: str) -> str:
    shell = _SHELL_LINE.match(line)
    if shell:
        return "shell: " + _OPERAND.sub(r"\1", mask(shell[1]))
    named = _PREFIX.match(line)
    if named and named[1].lower() not in ("error", "fatal", "warning", "err"):
        return mask(line)
    return f"{program}: {mask(line)}"


def _is_reason(line: str) -> bool:
    words = line.split()
    return 2 <= len(words) <= 40 and not line.rstrip().endswith(("{", "(", ";"))


def _plain_lines(text: str) -> Iterator[str]:
    """Yield the lines that may give a reason: no frames, diffs, hints and summaries."""
    for line in _lines(text):
        plain = line.strip().removeprefix("<tool_use_error>").removesuffix("</tool_use_error>").strip()
        plain = _BULLET.sub("", plain)
        if len(plain) >= 4 and not (_FRAME.match(line) or _DIFF.match(line) or _IGNORED.match(plain)):
            yield strip_invisible(plain)


def _lines(text: str) -> Iterator[str]:
    if len(text) > MAX_READ:
        text = text[: MAX_READ // 2] + "\n" + text[-MAX_READ // 2 :]
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    yield from (line for line in text.splitlines() if len(line) <= MAX_LINE)
