"""Finds names that tell that their value is a credential: password, apiKey, X_TOKEN, ansible_become_pass, Passwort."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_FOREIGN_ASCII = "kennwort|wachtwoord|senha|contrasena"
_FOREIGN = "contraseña|lösenord|adgangskode|passord|hasło|пароль|パスワード|密码|密碼|비밀번호"
# One pattern over the text in lower case: many times faster than one that ignores case.
_NAME = re.compile(
    r"pass(?:phrase|w(?:or[dt]|d)|code|ord)?|pwd|psk|secret|token|cred(?:ential|s)|key|auth|jwt|_p(?:at|w)(?![a-z0-9])"
    rf"|{_FOREIGN_ASCII}"
)
_NAME_WITH_FOREIGN = re.compile(f"{_NAME.pattern}|{_FOREIGN}")
# "key" names a credential only after one of these.
_KEY_PREFIXES = (
    *("api", "access", "account", "auth", "private", "signing", "encryption", "client", "master", "service", "shared"),
    *("storage", "subscription", "secret", "license", "admin", "webhook", "bot", "app", "functions", "deploy", "jwt"),
)
# Keys that find or order data: in capitals (CACHE_KEY) any other may be a credential.
_OTHER_KEY = re.compile(
    r"(?:PRIMARY|FOREIGN|CACHE|SORT|PUBLIC|PUB|HOST|PARTITION|IDEMPOTENCY|UNIQUE|INDEX|HASH|RANGE|ROUTING|OBJECT|GROUP|"
    r"DICT|MAP|DEDUP|LOOKUP|COMPOSITE|NATURAL|SURROGATE|REGISTRY|H|KNOWN_HOSTS|DOC|ROW|TRACKING)_?\Z"
)
# "pass" means a password as a single word, or after one of these (dbpass, smtpPass). A name of several parts may begin
# with anything that does not make it another kind of pass (ansible_become_pass, but not render_pass).
_PASS_PREFIXES = (
    *("db", "database", "user", "usr", "admin", "root", "sudo", "my", "sql", "pg", "postgres", "postgresql"),
    *("mongo", "redis", "amqp", "rabbit", "rabbitmq", "mq", "smtp", "imap", "mail", "email", "ftp", "sftp"),
    *("ssh", "ldap", "bind", "proxy", "http", "https", "basic", "auth", "login", "key", "keystore", "become"),
    *("truststore", "store", "cert", "gpg", "pgp", "vault", "service", "svc", "app", "api", "wifi", "wpa"),
    *("bot", "client", "server", "host", "git", "docker", "registry", "jenkins", "grafana", "elastic", "kafka"),
    *("broker", "mqtt", "old", "new", "default", "current"),
)
_OTHER_PASS = re.compile(
    r"(?i)(?:^|_|-)(?:first|second|third|last|next|low|high|band|all|multi|single|one|two|render|shader|depth|forward|"
    r"backward|opt|compiler|llvm|clang|gcc|tests?|by|to|do|no|is|did|must|can|has|boarding|season|guest|day|gate|hall|"
    r"bus|num|n|max|min|per|each|pre|post|early|late|lint|check|build|mypy|status|result|ski|travel)[_-]?\Z"
)
# Continuations of a name that describes a credential but holds none.
_DESCRIPTIVE_SUFFIX = re.compile(
    r"(?i)^(?:s|izer|ize[ds]?|izing|ization|less|[_.-]?(?:count|type|name|names|id|ids|url|uri|path|file|field|length|len|"
    r"limit|usage|index|budget|window|cost|price|expir\w*|ttl|at|by|class|key_?path|provider|policy|hint|label|placeholder|"
    r"prompt|input|column|param\w*|header|regex|pattern|rules?|manager|store|service|reset|version|length|ref|refs|arn|"
    r"format|status|error|required|valid\w*|check\w*|min|max|estimate\w*|total|used|per\w*|rate|s_\w+))\b"
)
_DESCRIPTIVE_END = re.compile(r"(?i)(?:^|[_-])(?:id|ids|name|url|count|type|path|file)$")
_PAGING = re.compile(
    r"(?i)(?:^|[_.-])(?:next|page|continuation|cursor|paging|sync|delta|max|min|num|input|output|prompt|total|n)[_-]?(?:page)?[_-]?$"
)
_STRONG_NAME = re.compile(
    r"(?i)pass|pwd|secret|api[_.\- ]?key|access[_.\- ]?key|private[_.\- ]?key|auth|cred|token|psk|_p(?:at|w)$"
    rf"|{_FOREIGN_ASCII}|{_FOREIGN}"
)
_PASSWORD_NAME = re.compile(rf"(?i)pass|pwd|psk|_pw$|{_FOREIGN_ASCII}|{_FOREIGN}")
# Names that mean much else besides: only a random value is a credential there.
_WEAK_NAME = re.compile(r"(?i)(?:^|[_.\-]|(?<![a-z]))(?:auth|jwt|psk|pat)$")
_ANY_KEY = re.compile(r"[A-Z]_KEY$")
_WORD_BEFORE = re.compile(r"[A-Za-z0-9_.-]+\Z")


def find_telling_words(text: str, lowered: str) -> list[re.Match[str]]:
    """Return the words that credentials' names contain; much else contains some of them, too."""
    return list((_NAME if text.isascii() else _NAME_WITH_FOREIGN).finditer(lowered))


def find_names(text: str, lowered: str, words: Sequence[re.Match[str]]) -> Iterator[tuple[int, int]]:
    """Yield where the telling words of credentials' names are."""
    for match in words:
        word, start, end = match.group(), match.start(), match.end()
        if word == "pass":
            is_telling = _is_password(text, start, end)
        elif word == "key":
            is_telling = is_credential_key(text, lowered, start)
        elif word in ("auth", "jwt", "psk"):
            is_telling = not text[end : end + 1].isalnum() and not text[start - 1 : start].isalpha()
        else:
            is_telling = True
        if is_telling:
            yield start, end


def is_credential_name(name: str) -> bool:
    """Tell whether a name, such as a JSON key or an option, is that of a credential."""
    lowered = lower_same_length(name)
    return any(
        not _is_suffix_descriptive(name, end) and not _is_descriptive_around(name[:start], name[end:])
        for start, end in find_names(name, lowered, find_telling_words(name, lowered))
    )


def is_strong_name(name: str) -> bool:
    """Tell whether a name means a credential and hardly anything else."""
    return _STRONG_NAME.search(name) is not None


def is_weak_name(name: str) -> bool:
    """Tell whether a name means many things besides a credential."""
    if _WEAK_NAME.search(name):
        return True
    return _ANY_KEY.search(name) is not None and not is_strong_name(name)


def names_password(name: str) -> bool:
    """Tell whether a name means a password, which a person may have chosen."""
    return _PASSWORD_NAME.search(name) is not None


def is_descriptive(text: str, end: int, prefix: str, rest: str) -> bool:
    """Tell whether a name describes a credential but holds none; its telling word ends at `end`."""
    return _is_suffix_descriptive(text, end) or _is_descriptive_around(prefix, rest)


def lower_same_length(text: str) -> str:
    """Return a text in lower case with the same length: "İ" alone would become longer."""
    return text.replace("İ", "I").lower()


def _is_suffix_descriptive(text: str, end: int) -> bool:
    return _DESCRIPTIVE_SUFFIX.match(text, end) is not None


def _is_descriptive_around(prefix: str, rest: str) -> bool:
    return _PAGING.search(prefix) is not None or _DESCRIPTIVE_END.search(rest) is not None


def is_credential_key(text: str, lowered: str, start: int) -> bool:
    """Tell whether the "key" at `start` ends the name of a credential."""
    if lowered[max(0, start - 13) : start].rstrip("_.- ").endswith(_KEY_PREFIXES):
        return True
    if text[start : start + 3] != "KEY" or text[start - 1 : start] != "_":
        return False
    word = _WORD_BEFORE.search(text, max(0, start - 24), start)
    return word is not None and _OTHER_KEY.search(word.group()) is None


def _is_password(text: str, start: int, end: int) -> bool:
    """Tell whether the "pass" at `start` ends a name that means a password."""
    follows = text[end : end + 1]
    if follows.isalnum() or follows in ("_", "-", "(") or text.startswith(" to ", end):
        return False
    before = _WORD_BEFORE.search(text, max(0, start - 24), start)
    word = before.group() if before else ""
    if not word:
        return True
    if word[-1] in "_.-":
        return _OTHER_PASS.search(word.rstrip("_.-")) is None
    if text[start:end] == "Pass":  # smtpPass
        last_part = re.search(r"[A-Z]?[a-z]+\Z", word)
        return last_part is not None and last_part.group().lower() in _PASS_PREFIXES
    # sshpass and SSHPASS, but not bypass or COMPASS
    return (word.islower() or word.isupper()) and re.split(r"[_.-]", word)[-1].lower() in _PASS_PREFIXES
