"""Credentials that only their names betray: password=, "api_key": "...", export X_TOKEN=, --token X, headers, cookies.

detect-secrets' keyword detector works on the lines of one file type and cannot tell where a value ends in JSON inside
a string, so this is our own; what a value looks like is asked of `values`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from consolidator.llm.credentials import Span
from consolidator.llm.values import entropy, is_placeholder, looks_random

# Searched one by one in lower-cased text, which is many times faster than one pattern that ignores case.
_NAMES = ("password", "passphrase", "passwd", "pwd", "secret", "token", "credential", "key")
# A key is telling only as the key of one of these.
_KEY_OF = (
    *("api", "access", "account", "auth", "private", "signing", "encryption", "client", "master", "service", "shared"),
    *("storage", "subscription", "secret", "license", "admin", "webhook", "bot", "app"),
)
_OVERLAPS = 4  # how often a stretch of text may be read again, for names inside the value of another name
# The rest of the name, its closing quote, what stands between it and the value, and the opening quote of that.
_BETWEEN = re.compile(
    r"""(?P<rest>[A-Za-z0-9_.-]{0,40}?)
        (?P<close>\\{0,4}["'`]?\]?)
        (?:(?P<sep>\s{0,4}(?::=|=>|={1,3}|:|,(?=\s{0,2}\\{0,4}["']))\s{0,4}
             (?:[brfu]{0,2}(?=["']))?(?:\\{0,4}["']value\\{0,4}["']\s{0,4}:\s{0,4})?
             |\s{1,12}value:\s{1,4})
           |(?P<space>[ ]{1,4}(?:(?:is|to)[ ]+)?))
        (?P<open>\\{0,4}["'`]?)""",
    re.VERBOSE,
)
_QUOTED = {
    quote: re.compile(rf"(?:[^{quote}\\\r\n]|\\(?![\\\"'`]{{0,4}}{quote}).){{1,4096}}+") for quote in ('"', "'", "`")
}
_BARE = re.compile(r"[^\s\"'`,;&|<>(){}\[\]\\]{1,4096}+")
# Names that speak about a credential and hold none.
_ABOUT = re.compile(
    r"(?i)^(?:s|izer|ize[ds]?|izing|ization|less|[_.-]?(?:count|type|name|names|id|ids|url|uri|path|file|field|length|len|"
    r"limit|usage|index|budget|window|cost|price|expir\w*|ttl|at|by|class|key_?path|provider|policy|hint|label|placeholder|"
    r"prompt|input|column|param\w*|header|regex|pattern|rules?|manager|store|service|reset|version|length|ref|refs|arn|"
    r"format|status|error|required|valid\w*|check\w*|min|max|estimate\w*|total|used|per\w*|rate|s_\w+))\b"
)
_PAGING = re.compile(
    r"(?i)(?:^|[_.-])(?:next|page|continuation|cursor|paging|sync|delta|max|min|num|input|output|prompt|total|n)[_-]?(?:page)?[_-]?$"
)
_ENV = re.compile(r"[A-Z][A-Z0-9_]*$")
_REFERENCE = re.compile(r"[A-Za-z_][\w]*(?:(?:\.|->|::)[A-Za-z_]\w*)+\Z|@\w+\Z|:\w+\Z|/[\w./-]*\Z|https?://\S*\Z")
_STRONG = re.compile(r"(?i)pass|pwd|secret|api[_.\- ]?key|access[_.\- ]?key|private[_.\- ]?key|auth|credential")
_WORD = re.compile(r"[a-z]+(?:[_ -][a-z]+)*\Z|[A-Z]?[a-z]+(?:[A-Z][a-z]+)*\Z|[A-Z]+(?:_[A-Z]+)*\Z")

_HEADER = re.compile(r"(?i)\b(bearer|basic|token|digest|apikey|bot)\s{1,2}([A-Za-z0-9._~+/=-]{8,8192}+)")
_COOKIE = re.compile(r"(?i)\b(set-cookie2?|cookie)\\{0,4}[\"']?\s{0,2}[:=,]\s{0,2}\\{0,4}[\"']?([^\r\n\"'\\]{8,8192}+)")
_Q = r"'[^'\n]{1,128}'|\"[^\"\n]{1,128}\""
_COMMAND = re.compile(
    rf"\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump)\b[^\n|;&]{{0,300}}?\s"
    rf"-p(?P<mysql>{_Q}|[^\s'\"-][^\s'\"]{{2,128}})"
    rf"|\bsshpass\s{{1,3}}-p\s{{0,3}}(?P<sshpass>{_Q}|[^\s'\"]{{1,128}})"
    rf"|\bcurl\b[^\n|;]{{0,400}}?\s(?:-u|--user)\s{{0,3}}[\"']?[^\s:\"'$]{{1,128}}:(?P<curl>[^\s\"']{{1,256}})"
    rf"|\b(?:docker|podman|helm registry|az|oc|npm|nuget)\s{{1,3}}login\b[^\n|;&]{{0,300}}?\s"
    rf"-p\s{{1,3}}(?P<login>{_Q}|[^\s'\"-][^\s'\"]{{0,256}})"
    rf"|\bredis-cli\b[^\n|;&]{{0,300}}?\s-a\s{{1,3}}(?P<redis>[^\s'\"]{{3,256}})"
)


def is_telling(name: str) -> bool:
    """Tell whether a name, such as a JSON key or an option, says that its value is a credential."""
    spots = list(_named(name.lower()))
    return bool(spots) and any(
        not _ABOUT.match(name, end) and not _is_about(name[:start], name[end:]) for start, end in spots
    )


def is_credential(name: str, value: str, *, quoted: bool = True, env: bool = False) -> bool:
    """Tell whether `value`, found beside a telling `name`, is a credential: no stand-in, no reference, no word."""
    if len(value) < 6 or value.startswith("[redacted:") or is_placeholder(value):
        return False
    if any(char.isspace() for char in value) or (not quoted and _REFERENCE.match(value)):
        return False
    if _WORD.match(value) or (value.isdigit() and len(value) < 8):
        return False
    strong = _STRONG.search(name) is not None
    if strong and ("pass" in name.lower() or "pwd" in name.lower()) and (quoted or env):
        return not _REFERENCE.match(value) and len(set(value)) >= 5
    if looks_random(value):
        return True
    if strong and _is_hexadecimal(value):
        return True
    digits = sum(char.isdigit() for char in value)
    return strong and (env or quoted) and len(value) >= 8 and 0 < digits < len(value) and entropy(value) >= 2.75


def find_assignments(text: str, lowered: str) -> Iterator[Span]:
    """Yield the values that stand beside telling names; `lowered` is the same text in lower case, of equal length."""
    reach = overlaps = 0
    for start, end in _named(lowered):
        overlaps = overlaps + 1 if start < reach else 0
        if overlaps < _OVERLAPS:
            seen, span = _assigned(text, start, end)
            reach = max(reach, seen) if start < reach or seen >= reach else seen
            if span is not None:
                yield span


def _named(lowered: str) -> Iterator[tuple[int, int]]:
    for literal in _NAMES:
        start = lowered.find(literal)
        while start >= 0:
            end = start + len(literal)
            if literal != "key" or lowered[max(0, start - 13) : start].rstrip("_.- ").endswith(_KEY_OF):
                yield start, end
            start = lowered.find(literal, end)


def find_headers(text: str, lowered: str) -> Iterator[Span]:
    """Yield the credentials of authorization headers and cookies."""
    if any(word in lowered for word in ("bearer", "authorization", "apikey")):
        for hit in _HEADER.finditer(text):
            if hit.group(1).lower() == "bearer" or "authorization" in lowered[max(0, hit.start() - 32) : hit.start()]:
                value = hit.group(2)
                if not is_placeholder(value) and not _WORD.match(value) and not _REFERENCE.match(value):
                    yield hit.start(2), hit.end(2), f"{'basic' if hit.group(1).lower() == 'basic' else 'bearer'}-auth"
    if "cookie" in lowered:
        for hit in _COOKIE.finditer(text):
            if _holds_session(hit.group(2)):
                yield hit.start(2), hit.end(2), "cookie"


def find_command_passwords(text: str, lowered: str) -> Iterator[Span]:
    """Yield passwords given to programs by their short options: mysql -pX, curl -u user:X, sshpass -p X."""
    if not any(option in text for option in (" -p", " -u", " --user", " -a ")):
        return
    if not any(word in lowered for word in ("mysql", "mariadb", "sshpass", "curl", "login", "redis-cli")):
        return
    for hit in _COMMAND.finditer(text):
        group = hit.lastgroup
        if group is not None and not is_placeholder(hit.group(group).strip("'\"")):
            yield hit.start(group), hit.end(group), "password"


def _assigned(text: str, start: int, end: int) -> tuple[int, Span | None]:
    """Return how far the text was read, and the value that is a credential, if it is one."""
    between = _BETWEEN.match(text, end)
    if between is None:
        return end, None
    rest = between.group("rest")
    head = _name_head(text, start)
    name = head + text[start:end] + rest
    if _ABOUT.match(text, end) or _is_about(head, rest):
        return end, None
    quote = between.group("open").lstrip("\\")
    said = False
    if between.group("space") is not None:
        option = head.startswith("-") and between.group("space").isspace() and not between.group("close")
        said = between.group("space").strip() in ("is", "to")
        netrc = re.compile(r"[^\s\"'`]{12,256}+").match(text, between.end())
        if not (option or said or (netrc and looks_random(netrc.group()))):
            return end, None
    value = (_QUOTED[quote] if quote else _BARE).match(text, between.end())
    if value is None:
        return end, None
    stop = value.end() if quote else value.end() - _trailing(value.group())
    sep = (between.group("sep") or "").strip()
    if sep.startswith(",") and "value" not in sep and not head.startswith("-"):
        return end, None  # only an argument vector sets an option and its value apart by a comma
    tight = between.group("sep") == "=" and not quote
    env = tight or head.startswith("-") or said or bool(_ENV.search(name))
    bare = text[value.start() : stop].rstrip("\\")
    if not is_credential(name, bare, quoted=bool(quote), env=env):
        return value.end(), None
    return value.end(), (value.start(), value.start() + len(bare), _kind(name))


def _name_head(text: str, start: int) -> str:
    first = start
    while first > 0 and start - first < 48 and (text[first - 1].isalnum() or text[first - 1] in "_-."):
        first -= 1
    return text[first:start]


def _is_about(head: str, rest: str) -> bool:
    return bool(_PAGING.search(head)) or bool(
        re.search(r"(?i)(?:^|[_-])(?:id|ids|name|url|count|type|path|file)$", rest)
    )


def _trailing(value: str) -> int:
    return len(value) - len(value.rstrip(".:!?"))


def _is_hexadecimal(value: str) -> bool:
    return len(value) >= 32 and all(char in "0123456789abcdefABCDEF-" for char in value)


def _holds_session(cookies: str) -> bool:
    for pair in cookies.split(";"):
        _, equals, value = pair.partition("=")
        if equals and (looks_random(value.strip()) or _is_hexadecimal(value.strip())):
            return True
    return False


def _kind(name: str) -> str:
    lowered = name.lower()
    if "pass" in lowered or "pwd" in lowered:
        return "password"
    if "token" in lowered:
        return "token"
    return "secret" if "secret" in lowered or "cred" in lowered else "key"
