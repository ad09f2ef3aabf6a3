"""Finds credentials by their names: password=, "api_key": "...", export X_TOKEN=, --token X, headers, cookies.

detect-secrets' keyword detector reads lines of one file type and cannot find the end of a value in JSON inside a
string, so this finder is our own. `value_shapes` judges the values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from consolidator.llm.redaction.credential_formats import CredentialSpan
from consolidator.llm.redaction.value_shapes import is_placeholder, is_tangled, looks_random, shannon_entropy

# Searched one by one in lower-case text, which is many times faster than one pattern that ignores case.
_NAME_WORDS = ("password", "passphrase", "passwd", "pass", "pwd", "secret", "token", "credential", "key")
# "key" names a credential only after one of these.
_KEY_PREFIXES = (
    *("api", "access", "account", "auth", "private", "signing", "encryption", "client", "master", "service", "shared"),
    *("storage", "subscription", "secret", "license", "admin", "webhook", "bot", "app"),
)
# "pass" means a password as a single word, or as the last word of a name that begins with one of these (DB_PASS,
# smtpPass). A name in capitals may begin with anything that does not make it another kind of pass.
_PASS_PREFIXES = (
    *("db", "database", "user", "usr", "admin", "root", "sudo", "my", "sql", "pg", "postgres", "postgresql"),
    *("mongo", "redis", "amqp", "rabbit", "rabbitmq", "mq", "smtp", "imap", "mail", "email", "ftp", "sftp"),
    *("ssh", "ldap", "bind", "proxy", "http", "https", "basic", "auth", "login", "key", "keystore"),
    *("truststore", "store", "cert", "gpg", "pgp", "vault", "service", "svc", "app", "api", "wifi", "wpa"),
    *("bot", "client", "server", "host", "git", "docker", "registry", "jenkins", "grafana", "elastic", "kafka"),
    *("broker", "mqtt", "old", "new", "default", "current"),
)
_OTHER_PASS = re.compile(
    r"(?:^|_)(?:FIRST|SECOND|THIRD|LAST|NEXT|LOW|HIGH|BAND|ALL|MULTI|SINGLE|ONE|TWO|RENDER|SHADER|DEPTH|FORWARD|BACKWARD|"
    r"OPT|COMPILER|LLVM|CLANG|GCC|TESTS?|BY|TO|DO|NO|IS|DID|MUST|CAN|HAS)_?\Z"
)
_TEST_RESULT = re.compile(r"(?i)tests?(?![a-z])|test(?=[A-Z_])|\S*::")  # follows the PASS of a test report
_MIN_PASSPHRASE_CHARS = 12  # minimum characters of a passphrase of words
_MAX_OVERLAPS = 4  # how often a passage may be read again for names inside another name's value
# The rest of the name, its closing quote, the separator, and the opening quote of the value.
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
# Continuations of a name that describes a credential but holds none.
_DESCRIPTIVE_SUFFIX = re.compile(
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
_STRONG_NAME = re.compile(r"(?i)pass|pwd|secret|api[_.\- ]?key|access[_.\- ]?key|private[_.\- ]?key|auth|credential")
_WORD_BEFORE = re.compile(r"[A-Za-z0-9_.-]+\Z")
_WORD = re.compile(r"[a-z]+(?:[_ -][a-z]+)*\Z|[A-Z]?[a-z]+(?:[A-Z][a-z]+)*\Z|[A-Z]+(?:_[A-Z]+)*\Z")

_HEADER = re.compile(r"(?i)\b(bearer|basic|token|digest|apikey|bot)\s{1,2}([A-Za-z0-9._~+/=-]{8,8192}+)")
_SESSION_NAME = re.compile(r"(?i)sid\b|sess|auth|token|jwt|csrf|xsrf|remember|login")
_COOKIE = re.compile(r"(?i)\b(set-cookie2?|cookie)\\{0,4}[\"']?\s{0,2}[:=,]\s{0,2}\\{0,4}[\"']?([^\r\n\"'\\]{8,8192}+)")


def is_credential_name(name: str) -> bool:
    """Tell whether a name, such as a JSON key or an option, is that of a credential."""
    positions = list(_find_names(name, lower_same_length(name)))
    return bool(positions) and any(
        not _DESCRIPTIVE_SUFFIX.match(name, end) and not _is_descriptive(name[:start], name[end:])
        for start, end in positions
    )


def is_credential(name: str, value: str, *, quoted: bool = True, env: bool = False) -> bool:
    """Tell whether the value of a credential's `name` is one itself: no placeholder, no reference, no word."""
    if len(value) < 6 or value.startswith("[redacted:") or is_placeholder(value):
        return False
    if any(char.isspace() for char in value):
        return quoted and "passphrase" in name.lower() and len(value) >= _MIN_PASSPHRASE_CHARS
    if not quoted and _REFERENCE.match(value):
        return False
    if _WORD.match(value) or (value.isdigit() and len(value) < 8):
        return False
    is_strong_name = _STRONG_NAME.search(name) is not None
    if is_strong_name and ("pass" in name.lower() or "pwd" in name.lower()) and (quoted or env):
        return not _REFERENCE.match(value) and len(set(value)) >= 5
    if looks_random(value):
        return True
    if (is_strong_name and _is_hexadecimal(value)) or ((is_strong_name or name.startswith("-")) and is_tangled(value)):
        return True
    digits = sum(char.isdigit() for char in value)
    return (
        is_strong_name
        and (env or quoted)
        and len(value) >= 8
        and 0 < digits < len(value)
        and shannon_entropy(value) >= 2.75
    )


def find_assignments(text: str, lowered: str) -> Iterator[CredentialSpan]:
    """Yield the values of credentials' names; `lowered` is the same text in lower case, of equal length."""
    reach = overlaps = 0
    for start, end in _find_names(text, lowered):
        overlaps = overlaps + 1 if start < reach else 0
        if overlaps < _MAX_OVERLAPS:
            read_to, span = _match_assignment(text, start, end)
            reach = max(reach, read_to) if start < reach or read_to >= reach else read_to
            if span is not None:
                yield span


def _find_names(text: str, lowered: str) -> Iterator[tuple[int, int]]:
    for literal in _NAME_WORDS:
        start = lowered.find(literal)
        while start >= 0:
            end = start + len(literal)
            if literal == "pass":
                is_credential_word = _is_password(text, start, end)
            else:
                is_credential_word = literal != "key" or lowered[max(0, start - 13) : start].rstrip("_.- ").endswith(
                    _KEY_PREFIXES
                )
            if is_credential_word:
                yield start, end
            start = lowered.find(literal, end)


def _is_password(text: str, start: int, end: int) -> bool:
    """Tell whether the "pass" at `start` ends a name that means a password."""
    follows = text[end : end + 1]
    if follows.isalnum() or follows in ("_", "-", "(") or text.startswith(" to ", end):
        return False
    before = _WORD_BEFORE.search(text, max(0, start - 24), start)
    word = before.group().rstrip("_-.") if before else ""
    if text[start:end] == "PASS" and word:
        return before is not None and text[start - 1] == "_" and not _OTHER_PASS.search(word)
    if start and text[start - 1].isalnum():  # smtpPass, but not bypass or compass
        last_part = re.search(r"[A-Z]?[a-z]+\Z", word)
        return text[start].isupper() and last_part is not None and last_part.group().lower() in _PASS_PREFIXES
    return not word or re.split(r"[_.-]", word)[-1].lower() in _PASS_PREFIXES


def find_headers(text: str, lowered: str) -> Iterator[CredentialSpan]:
    """Yield the credentials of authorization headers and cookies."""
    if any(word in lowered for word in ("bearer", "authorization", "apikey")):
        for match in _HEADER.finditer(text):
            if (
                match.group(1).lower() == "bearer"
                or "authorization" in lowered[max(0, match.start() - 32) : match.start()]
            ):
                value = match.group(2)
                if not is_placeholder(value) and not _WORD.match(value) and not _REFERENCE.match(value):
                    yield (
                        match.start(2),
                        match.end(2),
                        f"{'basic' if match.group(1).lower() == 'basic' else 'bearer'}-auth",
                    )
    if "cookie" in lowered:
        for match in _COOKIE.finditer(text):
            if _has_session_cookie(match.group(2)):
                yield match.start(2), match.end(2), "cookie"


def _match_assignment(text: str, start: int, end: int) -> tuple[int, CredentialSpan | None]:
    """Return how far the text was read, and the value if it is a credential."""
    between = _BETWEEN.match(text, end)
    if between is None:
        return end, None
    rest = between.group("rest")
    prefix = _find_name_prefix(text, start)
    name = prefix + text[start:end] + rest
    if _DESCRIPTIVE_SUFFIX.match(text, end) or _is_descriptive(prefix, rest):
        return end, None
    quote = between.group("open").lstrip("\\")
    is_sentence = False
    if between.group("space") is not None:
        is_option = prefix.startswith("-") and between.group("space").isspace() and not between.group("close")
        is_sentence = between.group("space").strip() in ("is", "to")
        netrc = re.compile(r"[^\s\"'`]{12,256}+").match(text, between.end())
        if not (is_option or is_sentence or (netrc and looks_random(netrc.group()))):
            return end, None
    value = (_QUOTED[quote] if quote else _BARE).match(text, between.end())
    if value is None:
        return end, None
    value_end = value.end() if quote else value.end() - _count_trailing_punctuation(value.group())
    sep = (between.group("sep") or "").strip()
    if sep.startswith(",") and "value" not in sep and not prefix.startswith("-"):
        return end, None  # only a list of arguments separates an option and its value by a comma
    is_env_assignment = between.group("sep") == "=" and not quote
    env = is_env_assignment or prefix.startswith("-") or is_sentence or bool(_ENV.search(name))
    stripped = text[value.start() : value_end].rstrip("\\")
    if name.endswith("PASS") and sep == ":" and not quote and _TEST_RESULT.match(stripped):
        return value.end(), None
    if not is_credential(name, stripped, quoted=bool(quote), env=env):
        return value.end(), None
    return value.end(), (value.start(), value.start() + len(stripped), _credential_kind(name))


def _find_name_prefix(text: str, start: int) -> str:
    first = start
    while first > 0 and start - first < 48 and (text[first - 1].isalnum() or text[first - 1] in "_-."):
        first -= 1
    if first < start and text[first] in "nrt" and text[max(0, first - 1) : first] == "\\":
        first += 1  # the letter of an escape, such as the "\\n" in "\\npassword="
    return text[first:start]


def _is_descriptive(prefix: str, rest: str) -> bool:
    return bool(_PAGING.search(prefix)) or bool(
        re.search(r"(?i)(?:^|[_-])(?:id|ids|name|url|count|type|path|file)$", rest)
    )


def lower_same_length(text: str) -> str:
    """Return a text in lower case with the same length: "İ" alone would become longer."""
    return text.replace("İ", "I").lower()


def _count_trailing_punctuation(value: str) -> int:
    return len(value) - len(value.rstrip(".:!?"))


def _is_hexadecimal(value: str) -> bool:
    return len(value) >= 32 and all(char in "0123456789abcdefABCDEF-" for char in value)


def _has_session_cookie(cookies: str) -> bool:
    for pair in cookies.split(";"):
        name, equals, value = pair.partition("=")
        if equals and _is_session_cookie(name.strip(), value.strip()):
            return True
    return False


def _is_session_cookie(name: str, value: str) -> bool:
    """Tell whether a cookie authenticates a session: by its value alone, or by its name and a value that is no word."""
    if looks_random(value) or _is_hexadecimal(value):
        return True
    return _SESSION_NAME.search(name) is not None and is_tangled(value) and not is_placeholder(value)


def _credential_kind(name: str) -> str:
    lowered = name.lower()
    if "pass" in lowered or "pwd" in lowered:
        return "password"
    if "token" in lowered:
        return "token"
    return "secret" if "secret" in lowered or "cred" in lowered else "key"
