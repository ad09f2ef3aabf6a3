"""Credentials that only their names betray: password=, "api_key": "...", export X_TOKEN=, --token X, headers, cookies.

detect-secrets' keyword detector works on the lines of one file type and cannot tell where a value ends in JSON inside
a string, so this is our own; what a value looks like is asked of `values`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from consolidator.llm.redaction.credential_formats import Span
from consolidator.llm.redaction.value_shapes import entropy, is_placeholder, is_tangled, looks_random

# Searched one by one in lower-cased text, which is many times faster than one pattern that ignores case.
_NAMES = ("password", "passphrase", "passwd", "pass", "pwd", "secret", "token", "credential", "key")
# A key is telling only as the key of one of these.
_KEY_OF = (
    *("api", "access", "account", "auth", "private", "signing", "encryption", "client", "master", "service", "shared"),
    *("storage", "subscription", "secret", "license", "admin", "webhook", "bot", "app"),
)
# "pass" means a password as a word of its own, or as the last word of a name that says whose it is (DB_PASS, smtpPass);
# names in capitals may say anything before it that is not a pass of another kind.
_PASS_OF = (
    *("db", "database", "user", "usr", "admin", "root", "sudo", "my", "sql", "pg", "postgres", "postgresql", "mongo"),
    *(
        "redis",
        "amqp",
        "rabbit",
        "rabbitmq",
        "mq",
        "smtp",
        "imap",
        "mail",
        "email",
        "ftp",
        "sftp",
        "ssh",
        "ldap",
        "bind",
    ),
    *(
        "proxy",
        "http",
        "https",
        "basic",
        "auth",
        "login",
        "key",
        "keystore",
        "truststore",
        "store",
        "cert",
        "gpg",
        "pgp",
    ),
    *("vault", "service", "svc", "app", "api", "wifi", "wpa", "bot", "client", "server", "host", "git", "docker"),
    *("registry", "jenkins", "grafana", "elastic", "kafka", "broker", "mqtt", "old", "new", "default", "current"),
)
_OTHER_PASS = re.compile(
    r"(?:^|_)(?:FIRST|SECOND|THIRD|LAST|NEXT|LOW|HIGH|BAND|ALL|MULTI|SINGLE|ONE|TWO|RENDER|SHADER|DEPTH|FORWARD|BACKWARD|"
    r"OPT|COMPILER|LLVM|CLANG|GCC|TESTS?|BY|TO|DO|NO|IS|DID|MUST|CAN|HAS)_?\Z"
)
_VERDICT = re.compile(r"(?i)tests?(?![a-z])|test(?=[A-Z_])|\S*::")  # what stands beside the PASS of a test report
_PHRASE = 12  # characters of words that are a passphrase
_OVERLAPS = 4  # how often a stretch of text may be read again, for names inside the value of another name
# The rest of the name, its closing quote, what stands between it and the value, and the opening quote of that.
_BETWEEN = re.compile(
    r"""(?P<rest>[A-Za-z0-9_.-]{0,40}?)
        (?P<close>\\{0,4}["'`]?\]?)
        (?:(?P<sep>\s{0,4}(?::=|=>|={1,3}|:|,(?=\s{0,2}\\{0,4}["']))\s{0,4}
             (?:[brfu]{0,2}(?=["']))?(?:\\{0,4}["']value\\{0,4}["']\s{0,4}:\s{0,4})?
             |(?:\s|\\{1,4}[nrt]){1,12}value:\s{1,4})
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
_REFERENCE = re.compile(
    r"(?:file|env|fd):\S*\Z|[A-Za-z_][\w]*(?:(?:\.|->|::)[A-Za-z_]\w*)+\Z|@\w+\Z|:\w+\Z|/[\w./-]*\Z|https?://\S*\Z"
)
_STRONG = re.compile(r"(?i)pass|pwd|secret|api[_.\- ]?key|access[_.\- ]?key|private[_.\- ]?key|auth|credential")
_WORD_BEFORE = re.compile(r"[A-Za-z0-9_.-]+\Z")
_WORD = re.compile(r"[a-z]+(?:[_ -][a-z]+)*\Z|[A-Z]?[a-z]+(?:[A-Z][a-z]+)*\Z|[A-Z]+(?:_[A-Z]+)*\Z")

_HEADER = re.compile(r"(?i)\b(bearer|basic|token|digest|apikey|bot)\s{1,2}([A-Za-z0-9._~+/=-]{8,8192}+)")
_SESSION = re.compile(r"(?i)sid\b|sess|auth|token|jwt|csrf|xsrf|remember|login")
_COOKIE = re.compile(r"(?i)\b(set-cookie2?|cookie)\\{0,4}[\"']?\s{0,2}[:=,]\s{0,2}\\{0,4}[\"']?([^\r\n\"'\\]{8,8192}+)")


def is_telling(name: str) -> bool:
    """Tell whether a name, such as a JSON key or an option, says that its value is a credential."""
    spots = list(_named(name, _lowered(name)))
    return bool(spots) and any(
        not _ABOUT.match(name, end) and not _is_about(name[:start], name[end:]) for start, end in spots
    )


def is_credential(name: str, value: str, *, quoted: bool = True, env: bool = False) -> bool:
    """Tell whether `value`, found beside a telling `name`, is a credential: no stand-in, no reference, no word."""
    if len(value) < 6 or value.startswith("[redacted:") or is_placeholder(value):
        return False
    if any(char.isspace() for char in value):
        return quoted and "passphrase" in name.lower() and len(value) >= _PHRASE
    if not quoted and _REFERENCE.match(value):
        return False
    if _WORD.match(value) or (value.isdigit() and len(value) < 8):
        return False
    strong = _STRONG.search(name) is not None
    if strong and ("pass" in name.lower() or "pwd" in name.lower()) and (quoted or env):
        return not _REFERENCE.match(value) and len(set(value)) >= 5
    if looks_random(value):
        return True
    if (strong and _is_hexadecimal(value)) or ((strong or name.startswith("-")) and is_tangled(value)):
        return True
    digits = sum(char.isdigit() for char in value)
    return strong and (env or quoted) and len(value) >= 8 and 0 < digits < len(value) and entropy(value) >= 2.75


def find_assignments(text: str, lowered: str) -> Iterator[Span]:
    """Yield the values that stand beside telling names; `lowered` is the same text in lower case, of equal length."""
    reach = overlaps = 0
    for start, end in _named(text, lowered):
        overlaps = overlaps + 1 if start < reach else 0
        if overlaps < _OVERLAPS:
            seen, span = _assigned(text, start, end)
            reach = max(reach, seen) if start < reach or seen >= reach else seen
            if span is not None:
                yield span


def _named(text: str, lowered: str) -> Iterator[tuple[int, int]]:
    for literal in _NAMES:
        start = lowered.find(literal)
        while start >= 0:
            end = start + len(literal)
            if literal == "pass":
                telling = _is_password(text, start, end)
            else:
                telling = literal != "key" or lowered[max(0, start - 13) : start].rstrip("_.- ").endswith(_KEY_OF)
            if telling:
                yield start, end
            start = lowered.find(literal, end)


def _is_password(text: str, start: int, end: int) -> bool:
    """Tell whether the "pass" at `start` ends a name and means a password."""
    follows = text[end : end + 1]
    if follows.isalnum() or follows in ("_", "-", "(") or text.startswith(" to ", end):
        return False
    before = _WORD_BEFORE.search(text, max(0, start - 24), start)
    word = before.group().rstrip("_-.") if before else ""
    if text[start:end] == "PASS" and word:
        return before is not None and text[start - 1] == "_" and not _OTHER_PASS.search(word)
    if start and text[start - 1].isalnum():  # smtpPass, but not bypass or compass
        hump = re.search(r"[A-Z]?[a-z]+\Z", word)
        return text[start].isupper() and hump is not None and hump.group().lower() in _PASS_OF
    return not word or re.split(r"[_.-]", word)[-1].lower() in _PASS_OF


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
    if name.endswith("PASS") and sep == ":" and not quote and _VERDICT.match(bare):
        return value.end(), None
    if not is_credential(name, bare, quoted=bool(quote), env=env):
        return value.end(), None
    return value.end(), (value.start(), value.start() + len(bare), _kind(name))


def _name_head(text: str, start: int) -> str:
    first = start
    while first > 0 and start - first < 48 and (text[first - 1].isalnum() or text[first - 1] in "_-."):
        first -= 1
    if first < start and text[first] in "nrt" and text[max(0, first - 1) : first] == "\\":
        first += 1  # the letter of an escape, such as the "\\n" in "\\npassword="
    return text[first:start]


def _is_about(head: str, rest: str) -> bool:
    return bool(_PAGING.search(head)) or bool(
        re.search(r"(?i)(?:^|[_-])(?:id|ids|name|url|count|type|path|file)$", rest)
    )


def _lowered(text: str) -> str:
    """Lower a text without moving any position: one letter would grow."""
    return text.replace("İ", "I").lower()


def _trailing(value: str) -> int:
    return len(value) - len(value.rstrip(".:!?"))


def _is_hexadecimal(value: str) -> bool:
    return len(value) >= 32 and all(char in "0123456789abcdefABCDEF-" for char in value)


def _holds_session(cookies: str) -> bool:
    for pair in cookies.split(";"):
        name, equals, value = pair.partition("=")
        if equals and _is_session(name.strip(), value.strip()):
            return True
    return False


def _is_session(name: str, value: str) -> bool:
    """Tell whether a cookie lets its bearer in: by its value alone, or by its name and a value that is no word."""
    if looks_random(value) or _is_hexadecimal(value):
        return True
    return _SESSION.search(name) is not None and is_tangled(value) and not is_placeholder(value)


def _kind(name: str) -> str:
    lowered = name.lower()
    if "pass" in lowered or "pwd" in lowered:
        return "password"
    if "token" in lowered:
        return "token"
    return "secret" if "secret" in lowered or "cred" in lowered else "key"
