"""Passwords given to programs by position: mysql -pX, curl -u user:X, echo X | docker login --password-stdin.

In a line of text, and in a list of arguments, where only the program says whether -p is a password, a port or a parent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from consolidator.llm.redaction.credential_formats import Span
from consolidator.llm.redaction.value_shapes import is_placeholder, is_tangled

_Q = r"'[^'\n]{1,128}'|\"[^\"\n]{1,128}\""
_MYSQL = ("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "mariadb-dump")
_LOGIN = ("docker", "podman", "helm", "az", "oc", "npm", "nuget")
_COMMAND = re.compile(
    rf"\b(?:{'|'.join(_MYSQL)})\b[^\n|;&]{{0,300}}?\s"
    rf"-p(?P<mysql>{_Q}|[^\s'\"-][^\s'\"]{{2,128}})"
    rf"|\bsshpass\s{{1,3}}-p\s{{0,3}}(?P<sshpass>{_Q}|[^\s'\"]{{1,128}})"
    rf"|\bcurl\b[^\n|;]{{0,400}}?\s(?:-u|--user)\s{{0,3}}[\"']?[^\s:\"'$]{{1,128}}:(?P<curl>[^\s\"']{{1,256}})"
    rf"|\b(?:docker|podman|helm registry|az|oc|npm|nuget)\s{{1,3}}login\b[^\n|;&]{{0,300}}?\s"
    rf"-p\s{{1,3}}(?P<login>{_Q}|[^\s'\"-][^\s'\"]{{0,256}})"
    rf"|\bredis-cli\b[^\n|;&]{{0,300}}?\s-a\s{{1,3}}(?P<redis>[^\s'\"]{{3,256}})"
)
_STDIN = (
    r"--(?:password|passphrase|pass|token)-stdin\b|--with-token\b|\bpasswd\s{1,3}--stdin\b"
    r"|\bsudo\s{1,3}(?:-\w{1,3}\s{1,3})?-S\b"
)
_PIPED = re.compile(
    rf"\b(?:echo|printf)\s{{1,3}}(?:-[neE]{{1,3}}\s{{1,3}})?(?:\\{{0,4}}[\"']?%s(?:\\{{1,4}}n)?\\{{0,4}}[\"']?\s{{1,3}})?"
    rf"\\{{0,4}}(?P<piped>{_Q}|[^\s'\"|;&<>\\]{{1,512}}+)\\{{0,4}}[\"']?\s{{0,3}}\|[^\n|;&]{{0,300}}?(?:{_STDIN})"
)
_HERE = re.compile(rf"(?:{_STDIN})[^\n|;&<]{{0,200}}?<<<\s{{0,3}}\\{{0,4}}(?P<here>{_Q}|[^\s'\"|;&<>\\]{{1,512}}+)")
# ["-p","X"] as text; without its program, so the value must speak for itself.
_LISTED = re.compile(r"\\{0,4}[\"']-p\\{0,4}[\"']\s{0,2},\s{0,4}\\{0,4}[\"'](?P<listed>[^\s\"'\\]{8,64})\\{0,4}[\"']")
_PROGRAMS = ("mysql", "mariadb", "sshpass", "curl", "login", "redis-cli")
# -p is no password to these, whatever stands behind it.
_OTHER_P = frozenset(
    [
        *("mkdir", "ssh", "scp", "rsync", "cp", "install", "ps", "kill", "lsof", "tar", "unzip", "nc", "nmap", "patch"),
        *("pip", "python", "python3", "node", "pytest", "cargo", "make", "grep", "git", "diff", "perl", "ping", "ls"),
        *("read", "declare", "export", "command", "psql", "pg_dump", "createdb", "nice", "perf", "gdb", "strace"),
    ]
)
_PROGRAM_KEYS = ("command", "cmd", "program", "executable", "entrypoint", "file")


def find_command_passwords(text: str, lowered: str) -> Iterator[Span]:
    """Yield passwords given to programs by short options, piped into them, or listed as arguments."""
    if "stdin" in lowered or "--with-token" in lowered or " -s" in lowered:
        yield from _passwords(_PIPED, text)
        yield from _passwords(_HERE, text)
    if '-p"' in text or "-p'" in text or "-p\\" in text:
        for hit in _LISTED.finditer(text):
            if is_tangled(hit.group("listed")) and not is_placeholder(hit.group("listed")):
                yield hit.start("listed"), hit.end("listed"), "password"
    if not any(option in text for option in (" -p", " -u", " --user", " -a ")):
        return
    if any(word in lowered for word in _PROGRAMS):
        yield from _passwords(_COMMAND, text)


def _passwords(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    for hit in pattern.finditer(text):
        group = hit.lastgroup
        if group is not None and not is_placeholder(hit.group(group).strip("'\"")):
            yield hit.start(group), hit.end(group), "password"


def program_of(value: dict[Any, Any]) -> str:
    """Return the program that a JSON object says its arguments are for, or nothing."""
    for key in _PROGRAM_KEYS:
        told = value.get(key)
        if isinstance(told, str) and told and len(told) < 256:
            return told
    return ""


def argument_passwords(program: str, arguments: Sequence[Any]) -> dict[int, tuple[int, int]]:
    """Return which arguments hold a password, as index and slice; `program` is what is known to run them, or empty."""
    known = set(_names(program))
    found: dict[int, tuple[int, int]] = {}
    before = ""
    for index, told in enumerate(arguments):
        if not isinstance(told, str) or len(told) > 1024:
            before = ""
            continue
        start = _password_at(known, before, told)
        if start is not None and not is_placeholder(told[start:]):
            found[index] = (start, len(told))
        elif not told.startswith("-") and len(known) < 8:
            known.update(_names(told))
        before = told
    return found


def _names(told: str) -> list[str]:
    return [word.rsplit("/", 1)[-1].removesuffix(".exe") for word in told[:256].split()]


def _password_at(known: set[str], before: str, told: str) -> int | None:
    """Return where in an argument its password begins, if it is one."""
    start: int | None = None
    if before == "-p":
        sure = "sshpass" in known or ("login" in known and not known.isdisjoint(_LOGIN))
        start = 0 if sure or (known.isdisjoint(_OTHER_P) and is_tangled(told)) else None
    elif before in ("-u", "--user") and "curl" in known and 0 < told.find(":") < len(told) - 1:
        start = told.index(":") + 1
    elif before in ("-a", "--pass") and "redis-cli" in known:
        start = 0
    elif told.startswith("-p") and len(told) > 4 and not known.isdisjoint((*_MYSQL, "sshpass")):
        start = 2
    return start
