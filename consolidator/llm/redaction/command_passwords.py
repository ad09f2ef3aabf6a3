"""Finds passwords in commands: mysql -pX, curl -u user:X, echo X | docker login --password-stdin.

Reads lines of text and lists of arguments. Only the program tells whether -p means a password, a port or a parent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from consolidator.llm.redaction.credential_formats import CredentialSpan
from consolidator.llm.redaction.value_shapes import is_placeholder, is_tangled

_QUOTED_TEXT = r"'[^'\n]{1,128}'|\"[^\"\n]{1,128}\""
_MYSQL_PROGRAMS = ("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "mariadb-dump")
_LOGIN_PROGRAMS = ("docker", "podman", "helm", "az", "oc", "npm", "nuget")
_COMMAND_PASSWORD = re.compile(
    rf"\b(?:{'|'.join(_MYSQL_PROGRAMS)})\b[^\n|;&]{{0,300}}?\s"
    rf"-p(?P<mysql>{_QUOTED_TEXT}|[^\s'\"-][^\s'\"]{{2,128}})"
    rf"|\bsshpass\s{{1,3}}-p\s{{0,3}}(?P<sshpass>{_QUOTED_TEXT}|[^\s'\"]{{1,128}})"
    rf"|\bcurl\b[^\n|;]{{0,400}}?\s(?:-u|--user)\s{{0,3}}[\"']?[^\s:\"'$]{{1,128}}:(?P<curl>[^\s\"']{{1,256}})"
    rf"|\b(?:docker|podman|helm registry|az|oc|npm|nuget)\s{{1,3}}login\b[^\n|;&]{{0,300}}?\s"
    rf"-p\s{{1,3}}(?P<login>{_QUOTED_TEXT}|[^\s'\"-][^\s'\"]{{0,256}})"
    rf"|\bredis-cli\b[^\n|;&]{{0,300}}?\s-a\s{{1,3}}(?P<redis>[^\s'\"]{{3,256}})"
)
_STDIN_OPTION = (
    r"--(?:password|passphrase|pass|token)-stdin\b|--with-token\b|\bpasswd\s{1,3}--stdin\b"
    r"|\bsudo\s{1,3}(?:-\w{1,3}\s{1,3})?-S\b"
)
_PIPED_PASSWORD = re.compile(
    rf"\b(?:echo|printf)\s{{1,3}}(?:-[neE]{{1,3}}\s{{1,3}})?(?:\\{{0,4}}[\"']?%s(?:\\{{1,4}}n)?\\{{0,4}}[\"']?\s{{1,3}})?"
    rf"\\{{0,4}}(?P<piped>{_QUOTED_TEXT}|[^\s'\"|;&<>\\]{{1,512}}+)\\{{0,4}}[\"']?\s{{0,3}}\|[^\n|;&]{{0,300}}?(?:{_STDIN_OPTION})"
)
_HERE_STRING = re.compile(
    rf"(?:{_STDIN_OPTION})[^\n|;&<]{{0,200}}?<<<\s{{0,3}}\\{{0,4}}(?P<here>{_QUOTED_TEXT}|[^\s'\"|;&<>\\]{{1,512}}+)"
)
# ["-p","X"] as text: the program is unknown, so the value itself must look like a password.
_LISTED_PASSWORD = re.compile(
    r"\\{0,4}[\"']-p\\{0,4}[\"']\s{0,2},\s{0,4}\\{0,4}[\"'](?P<listed>[^\s\"'\\]{8,64})\\{0,4}[\"']"
)
_COMMAND_WORDS = ("mysql", "mariadb", "sshpass", "curl", "login", "redis-cli")
# For these programs -p is never a password.
_P_IS_NO_PASSWORD = frozenset(
    [
        *("mkdir", "ssh", "scp", "rsync", "cp", "install", "ps", "kill", "lsof", "tar", "unzip", "nc", "nmap", "patch"),
        *("pip", "python", "python3", "node", "pytest", "cargo", "make", "grep", "git", "diff", "perl", "ping", "ls"),
        *("read", "declare", "export", "command", "psql", "pg_dump", "createdb", "nice", "perf", "gdb", "strace"),
    ]
)
_PROGRAM_KEYS = ("command", "cmd", "program", "executable", "entrypoint", "file")


def find_command_passwords(text: str, lowered: str) -> Iterator[CredentialSpan]:
    """Yield passwords in short options, in pipes, and in lists of arguments."""
    if "stdin" in lowered or "--with-token" in lowered or " -s" in lowered:
        yield from _match_passwords(_PIPED_PASSWORD, text)
        yield from _match_passwords(_HERE_STRING, text)
    if '-p"' in text or "-p'" in text or "-p\\" in text:
        for match in _LISTED_PASSWORD.finditer(text):
            if is_tangled(match.group("listed")) and not is_placeholder(match.group("listed")):
                yield match.start("listed"), match.end("listed"), "password"
    if not any(option in text for option in (" -p", " -u", " --user", " -a ")):
        return
    if any(word in lowered for word in _COMMAND_WORDS):
        yield from _match_passwords(_COMMAND_PASSWORD, text)


def _match_passwords(pattern: re.Pattern[str], text: str) -> Iterator[CredentialSpan]:
    for match in pattern.finditer(text):
        group = match.lastgroup
        if group is not None and not is_placeholder(match.group(group).strip("'\"")):
            yield match.start(group), match.end(group), "password"


def find_program(value: dict[Any, Any]) -> str:
    """Return the program that a JSON object names for its arguments; "" if it names none."""
    for key in _PROGRAM_KEYS:
        program = value.get(key)
        if isinstance(program, str) and program and len(program) < 256:
            return program
    return ""


def find_argument_passwords(program: str, arguments: Sequence[Any]) -> dict[int, tuple[int, int]]:
    """Return the slice of the password in each argument that holds one, by index; `program` may be empty."""
    programs = set(_program_names(program))
    spans: dict[int, tuple[int, int]] = {}
    previous = ""
    for index, argument in enumerate(arguments):
        if not isinstance(argument, str) or len(argument) > 1024:
            previous = ""
            continue
        start = _password_start(programs, previous, argument)
        if start is not None and not is_placeholder(argument[start:]):
            spans[index] = (start, len(argument))
        elif not argument.startswith("-") and len(programs) < 8:
            programs.update(_program_names(argument))
        previous = argument
    return spans


def _program_names(text: str) -> list[str]:
    return [word.rsplit("/", 1)[-1].removesuffix(".exe") for word in text[:256].split()]


def _password_start(programs: set[str], previous: str, argument: str) -> int | None:
    """Return where the password in an argument begins; None if it holds none."""
    start: int | None = None
    if previous == "-p":
        is_password_option = "sshpass" in programs or ("login" in programs and not programs.isdisjoint(_LOGIN_PROGRAMS))
        start = 0 if is_password_option or (programs.isdisjoint(_P_IS_NO_PASSWORD) and is_tangled(argument)) else None
    elif previous in ("-u", "--user") and "curl" in programs and 0 < argument.find(":") < len(argument) - 1:
        start = argument.index(":") + 1
    elif previous in ("-a", "--pass") and "redis-cli" in programs:
        start = 0
    elif argument.startswith("-p") and len(argument) > 4 and not programs.isdisjoint((*_MYSQL_PROGRAMS, "sshpass")):
        start = 2
    return start
