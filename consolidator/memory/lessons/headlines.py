"""Finds the lines of an output that say what went wrong, as keys that are the same from case to case.

Pure. Several lines stand for one failure, for which of them is telling depends on other sessions: a line that
successful runs also print says nothing. Code frames, diffs, line numbers and summaries never count.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from consolidator.llm.patterns import lazy_regex
from consolidator.memory.calls.shell_words import SHELLS
from consolidator.memory.solutions import line_kinds
from consolidator.memory.solutions.error_line import error_lines, truncate_middle
from consolidator.memory.solutions.fingerprint import mask_line
from consolidator.memory.text.invisible import strip_colours

MAX_HEADLINES, MAX_REASONS = 6, 3  # of one failure; and those that are no code of a lint rule
MAX_HEADLINE = 200  # characters
MAX_PRINTED = 40  # lines of a successful output
MIN_SENTENCE, MAX_WORDS = 4, 40  # of a line that says why
FORMATTED = "formatter would have printed"
_RULE_CODE = re.compile(
    rf"\blint/\w+/\w+|\berror\[E\d{{4}}\]|(?i:{FORMATTED})"
    r"|\b(?:MD|SC|RUF|UP|PLR|PLW|PLC|ANN|PTH|SIM|TRY|DTZ|ERA|BLE|FBT|N|E|F|W|B|C|D|I|S)\d{3,4}\b"
)
MAX_RULES, MAX_RULES_READ = 8, 60_000  # of one output, and characters of it
_RULE = r"(?!redacted:)[@-]?[A-Za-z][\w-]{1,39}(?:(?:/|::?)[\w-]{1,40}){0,3}"
_PLACE = r"\w\.\w{1,8}(?::\d+|\(\d+)[\d:,)-]{0,16}"  # the end of a path, with the line
_FINDING = lazy_regex(  # as checks print it; what a compiler finds, as `error TS2345:`, is of one change
    rf"{_PLACE}:? +(?:error +(?=[A-Z]+\d+/)|[A-Z]: (?:\[\w+\] )?)?(?!assist/)"
    r"([A-Z]{1,6}\d{2,5}(?:/[a-z\d-]{1,40})*|[A-Za-z]{1,20}(?:/\w{1,40}){1,3})(?=[: ])"
    rf"|{_PLACE}(?:[: ][^\n]{{1,300}})? [\[(]({_RULE})[\])]$"
    rf"|{_PLACE} [•-] ({_RULE})$"
    rf"|^ {{0,8}}\d+:\d+ +(?i:error|warning|✖|×):? [^\n]{{1,300}}  \(?({_RULE})\)?$"
    rf"|^ {{1,8}}= (?:note|help): [^\n]{{0,100}}?(?:-[DWF] (?!warnings)|(?:warn|deny|allow)\()({_RULE})(?=`|\)\])"
    r"|^([A-Z]{1,5}\d{2,4}) (?=[^\n]{1,300}\n +--> )"
    r"|^ {0,40}(?:\^-+ |[×⚠] )(SC\d{4}|[\w-]{1,40}\([\w/-]{1,40}\))(?= \(|:)",
    re.MULTILINE,
)
_NO_PROGRAM = frozenset({"error", "fatal", "warning", "err"})


@dataclass(frozen=True, slots=True)
class Headline:
    """A line that may say what went wrong: masked, to compare, and as it stands."""

    key: str
    text: str


def find_rules(text: str) -> list[str]:
    """Return the names of the rules beside what a check found."""
    found = _FINDING.finditer(strip_colours(truncate_middle(text, MAX_RULES_READ)))
    names = (match[match.lastindex or 0] for match in found)
    return list(dict.fromkeys(name.replace("-", "_") if "::" in name else name for name in names))[:MAX_RULES]


def find_headlines(text: str, program: str) -> list[Headline]:
    """Return the lines that may say what went wrong in a failed call, the codes of lint rules first."""
    headlines: dict[str, Headline] = {}
    text = truncate_middle(text)
    for line in text.splitlines() if _RULE_CODE.search(text) else ():
        for code in (match[0] for match in _RULE_CODE.finditer(line)):
            is_code = "lint/" in code or not code[-1].isdigit() or line_kinds.has_error_word(line)
            if is_code and len(headlines) < MAX_HEADLINES:
                headlines.setdefault(code, Headline(code, line_kinds.strip_box(" ".join(line.split()))[:MAX_HEADLINE]))
    reasons = 0
    for line in [*_reasons(text)] or _only_line(text):
        if reasons == MAX_REASONS or len(headlines) >= MAX_HEADLINES:
            break
        named = line_kinds.program_prefix(line) or "error"
        named = program if named in _NO_PROGRAM else "shell" if named in SHELLS else named
        key = f"{named}: {mask_line(line)}"
        if key not in headlines and not _RULE_CODE.search(line):
            headlines[key] = Headline(key, line[:MAX_HEADLINE])
            reasons += 1
    return list(headlines.values())


def hash_printed(text: str) -> list[str]:
    """Return hashes of the lines of a successful output that read like errors: they are no reason elsewhere."""
    return list(dict.fromkeys(map(line_hash, _reasons(text))))[:MAX_PRINTED]


@lru_cache(maxsize=16384)
def line_hash(line: str) -> str:
    """Return what tells whether two lines are the same but for paths, numbers and the like."""
    return hashlib.blake2b(mask_line(line).encode(), digest_size=5).hexdigest()


def _only_line(text: str) -> list[str]:
    """Return the sentence that is all that a failed call printed: it need not read like an error."""
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line_kinds.STATUS.fullmatch(line.strip())
    ]
    is_sentence = len(lines) == 1 and MIN_SENTENCE <= len(lines[0].split()) <= MAX_WORDS
    return lines if is_sentence and not line_kinds.VAGUE.search(lines[0]) else []


def _reasons(text: str) -> Iterator[str]:
    """Yield the lines that read like an error: no frames, diffs, hints and summaries."""
    for line in error_lines(text):
        plain = line_kinds.strip_box(line)
        is_prose = 2 <= len(plain.split()) <= MAX_WORDS and not plain.endswith(("{", "(", ";"))
        if is_prose and (plain == line or line_kinds.has_error_word(plain)) and not line_kinds.VAGUE.search(plain):
            yield plain
