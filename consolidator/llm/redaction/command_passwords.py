"""Finds passwords in commands: mysql -pX, curl -u user:X, ldapsearch -w X, echo X | docker login --password-stdin.

Reads lines of text and lists of arguments. Only the program tells whether -p means a password, a port or a parent:
`program_options` lists the programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from consolidator.llm.redaction.alternation import write_alternation
from consolidator.llm.redaction.credential_formats import CredentialSpan
from consolidator.llm.redaction.program_options import (
    JOINED_OPTIONS,
    LOGIN_PROGRAMS,
    P_IS_NO_PASSWORD,
    PAIR_OPTIONS,
    POSITIONS,
    PROGRAMS,
    SPACED_OPTIONS,
)
from consolidator.llm.redaction.value_shapes import is_placeholder, is_tangled, looks_random, mixes_kinds

_QUOTED_TEXT = r"'[^'\n]{1,128}'|\"[^\"\n]{1,128}\""
_STDIN_OPTION = (
    r"--(?:password|passphrase|pass|token)-stdin\b|--with-token\b|\bpasswd\s{1,3}--stdin\b|\bkinit\b"
    r"|\bsudo\s{1,3}(?:-\w{1,3}\s{1,3})?-S\b|--passphrase-fd\b|\bcryptsetup\b|\bsmbpasswd\b"
)
_ECHO = r"\b(?:echo|printf)\s{1,3}(?:-[neE]{1,3}\s{1,3})?"
_PIPED_PASSWORD = re.compile(
    rf"{_ECHO}(?:\\{{0,4}}[\"']?%s(?:\\{{1,4}}n)?\\{{0,4}}[\"']?\s{{1,3}})?"
    rf"\\{{0,4}}(?P<piped>{_QUOTED_TEXT}|[^\s'\"|;&<>\\]{{1,512}}+)\\{{0,4}}[\"']?\s{{0,3}}\|[^\n|;&]{{0,300}}?(?:{_STDIN_OPTION})"
)
_PIPED_PAIR = re.compile(
    rf"{_ECHO}\\{{0,4}}[\"']?[A-Za-z0-9_.-]{{1,64}}:(?P<pair>[^\s'\"|;&<>\\]{{3,256}}+)\\{{0,4}}[\"']?\s{{0,3}}\|"
    r"[^\n|;&]{0,100}?\bchpasswd\b"
)
_HERE_STRING = re.compile(
    rf"(?:{_STDIN_OPTION})[^\n|;&<]{{0,200}}?<<<\s{{0,3}}\\{{0,4}}(?P<here>{_QUOTED_TEXT}|[^\s'\"|;&<>\\]{{1,512}}+)"
)
# ["-p","X"] as text: the program is unknown, so the value itself must look like a password.
_LISTED_PASSWORD = re.compile(
    r"\\{0,4}[\"']-[pPw]\\{0,4}[\"']\s{0,2},\s{0,4}\\{0,4}[\"'](?P<listed>[^\s\"'\\]{8,64})\\{0,4}[\"']"
)
_LISTED_OPTION = re.compile(r"-[pPw]\\{0,4}[\"']")
_POWERSHELL_PASSWORD = re.compile(
    r"(?i)ConvertTo-SecureString(?:\s{1,4}-AsPlainText|\s{1,4}-Force){0,2}(?:\s{1,4}-String)?\s{1,4}\\{0,4}[\"']?"
    r"(?P<secure>[^\s\"'$(\\-][^\s\"'\\]{2,256}+)"
    r"|PSCredential\s{0,4}\(?[^,\n]{1,128},\s{0,4}\\{0,4}[\"'](?P<pair>[^\s\"'$\\][^\"'\\\n]{2,256}+)[\"']"
)
# One of these begins what `_find_in_line` reads; most texts have none.
_HINT = re.compile(
    r"[ \t](?:-(?:[pPuUwakKAXst]|storepass|keypass|-user|-proxy-user|-auth|-pass|pass(?:in|out)?)"
    r"|/p(?:ass)?:|/rp:|/user:)"
)
_POSITION_WORDS = ("add_user", "change_password", "htpasswd", "vault login", "net use", "sqlplus")
_PROGRAM = re.compile(rf"(?<![\w.-]){write_alternation(PROGRAMS)}(?:\.exe)?(?=\s)")
_LINE_WORD = re.compile(r"(?:[^\s'\"|;&<>]|'[^'\n]{0,256}'|\"[^\"\n]{0,256}\"){1,512}")
_LINE_END = re.compile(r"(?<!\\)\n|[|;]|&&")
_LINE_CHARS = 600  # characters of a command that are read after its program's name
_PROGRAM_KEYS = ("command", "cmd", "program", "executable", "entrypoint", "file")


def find_command_passwords(text: str, lowered: str) -> Iterator[CredentialSpan]:
    """Yield passwords in options, in positions, in pipes, and in lists of arguments."""
    if "<<<" in text or (
        ("echo" in text or "printf" in text)
        and ("stdin" in lowered or "--with-token" in lowered or " -S" in text or "kinit" in text or "passwd" in text)
    ):
        yield from _match_passwords(_PIPED_PASSWORD, text)
        yield from _match_passwords(_PIPED_PAIR, text)
        yield from _match_passwords(_HERE_STRING, text)
    if ("-p" in text or "-P" in text or "-w" in text) and _LISTED_OPTION.search(text):
        for match in _LISTED_PASSWORD.finditer(text):
            value = match.group("listed")
            if (is_tangled(value) or mixes_kinds(value)) and not is_placeholder(value):
                yield match.start("listed"), match.end("listed"), "password"
    if "securestring" in lowered or "pscredential" in lowered:
        yield from _match_passwords(_POWERSHELL_PASSWORD, text)
    may_begin = " -" in text or " /" in text or "\t" in text
    if (may_begin and _HINT.search(text)) or any([word in text for word in _POSITION_WORDS]):  # noqa: C419 - twice as fast
        yield from _find_in_lines(text)


def _match_passwords(pattern: re.Pattern[str], text: str) -> Iterator[CredentialSpan]:
    for match in pattern.finditer(text):
        group = match.lastgroup
        if group is not None and not is_placeholder(match.group(group).strip("'\"")):
            yield match.start(group), match.end(group), "password"


def _find_in_lines(text: str) -> Iterator[CredentialSpan]:
    reach = 0
    for program in _PROGRAM.finditer(text):
        if program.start() < reach:
            continue  # read as a word of the command before
        line_end = _LINE_END.search(text, program.end(), program.end() + _LINE_CHARS)
        reach = line_end.start() if line_end else min(len(text), program.end() + _LINE_CHARS)
        words = [program, *_LINE_WORD.finditer(text, program.end(), reach)]
        spans = find_argument_passwords("", [word.group() for word in words], is_line=True)
        for index, (start, end) in spans.items():
            word = words[index]
            value = text[word.start() + start : word.start() + end]
            quotes = len(value) - len(value.lstrip("'\"\\"))
            stripped = value.strip("'\"\\")
            if len(stripped) >= 3 and not is_placeholder(stripped):
                first = word.start() + start + quotes
                yield first, first + len(stripped), "password"


def find_program(value: dict[Any, Any]) -> str:
    """Return the program that a JSON object names for its arguments; "" if it names none."""
    for key in _PROGRAM_KEYS:
        program = value.get(key)
        if isinstance(program, str) and program and len(program) < 256:
            return program
    return ""


def find_argument_passwords(
    program: str, arguments: Sequence[Any], *, is_line: bool = False
) -> dict[int, tuple[int, int]]:
    """Return the slice of the password in each argument that holds one, by index; `program` may be empty.

    In a line that was split here, an option that only its value makes a password's is none.
    """
    programs = set(_program_names(program))
    spans: dict[int, tuple[int, int]] = {}
    words: list[str] = []
    for index, argument in enumerate(arguments):
        if not isinstance(argument, str) or len(argument) > 1024:
            words.append("")
            continue
        start = _password_start(programs, words, argument, is_line)
        if start is not None and not is_placeholder(argument[start:].strip("'\"")):
            spans[index] = (start, len(argument))
        elif not argument.startswith("-") and len(programs) < 8:
            programs.update(_program_names(argument))
        words.append(argument)
    return spans


def _program_names(text: str) -> list[str]:
    return [word.rsplit("/", 1)[-1].removesuffix(".exe") for word in text[:256].split()]


def _password_start(programs: set[str], words: list[str], argument: str, is_line: bool) -> int | None:
    """Return where the password in an argument begins; None if it holds none."""
    previous = words[-1] if words else ""
    plain = argument.lstrip("'\"")
    quotes = len(argument) - len(plain)
    if previous == "-p" and "login" in programs and not programs.isdisjoint(LOGIN_PROGRAMS):
        return 0
    if previous in SPACED_OPTIONS and not programs.isdisjoint(SPACED_OPTIONS[previous]):
        return None if argument.startswith("-") else 0
    if previous == "-p" and not is_line and programs.isdisjoint(P_IS_NO_PASSWORD):
        return 0 if is_tangled(argument) or mixes_kinds(argument) else None
    if previous in PAIR_OPTIONS and not programs.isdisjoint(PAIR_OPTIONS[previous][1]):
        divider = next((at for at, char in enumerate(plain) if char in PAIR_OPTIONS[previous][0]), -1)
        return quotes + divider + 1 if 0 < divider < len(plain) - 1 and "$" not in plain[:divider] else None
    if plain.startswith("-u") and "curl" in programs and ":" in plain[3:]:
        return quotes + plain.index(":", 3) + 1
    for option, its_programs in JOINED_OPTIONS.items():
        if plain.startswith(option) and len(plain) > len(option) + 2 and not programs.isdisjoint(its_programs):
            return quotes + len(option)
    return _position_start(programs, words, plain, quotes)


def _position_start(programs: set[str], words: list[str], plain: str, quotes: int) -> int | None:
    """Return where the password in an argument begins whose position tells it."""
    for program, before, words_before in POSITIONS:
        if program in programs and before in words and not plain.startswith("-"):
            after = [word for word in words[words.index(before) + 1 :] if not word.startswith("-")]
            if len(after) == words_before:
                return quotes
    if "sqlplus" in programs and "/" in plain and "@" in plain:
        return quotes + plain.index("/") + 1 if 0 < plain.index("/") < plain.index("@") - 1 else None
    if "net" in programs and "use" in words and (mixes_kinds(plain) or looks_random(plain)):
        return None if plain.startswith(("/", "\\")) else quotes
    return None
