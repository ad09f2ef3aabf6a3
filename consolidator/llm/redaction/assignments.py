"""Finds credentials by their names: password=, "api_key": "...", <password>...</password>, export X_TOKEN=, --token X.

`credential_names` finds the names, `value_shapes` judges the values. This finder reads any notation, also JSON inside a
string, where the end of a value depends on how often its quotes are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from consolidator.llm.redaction.credential_formats import CredentialSpan
from consolidator.llm.redaction.credential_names import (
    find_names,
    is_descriptive,
    is_strong_name,
    is_weak_name,
    names_password,
)
from consolidator.llm.redaction.value_shapes import (
    is_placeholder,
    is_tangled,
    is_uuid,
    looks_random,
    mixes_kinds,
    shannon_entropy,
)

_TEST_RESULT = re.compile(r"(?i)tests?(?![a-z])|test(?=[A-Z_])|\S*::")  # follows the PASS of a test report
_MIN_PASSPHRASE_CHARS = 12  # minimum characters of a passphrase of words
_MIN_NUMBER_CHARS = 15  # digits of a number that is no time, count or port
_MAX_OVERLAPS = 4  # how often a passage may be read again for names inside another name's value
# The rest of the name, its closing quote, the separator, and the opening quote of the value.
_BETWEEN = re.compile(
    r"""(?P<rest>[A-Za-z0-9_.-]{0,40}?)
        (?P<close>\\{0,4}["'`]?\]?)
        (?:(?P<tag>\s{1,24}(?:[vV]alue|content)\s{0,2}=\s{0,2}
             |(?:\s{1,3}[\w:.-]{1,32}=(?:"[^"<>\n]{0,64}"|'[^'<>\n]{0,64}')){0,3}(?:</[A-Za-z]{1,16}>\s{0,24}<[A-Za-z]{1,16})?
              \s?(?:>|&gt;|\\u003e)(?:<!\[CDATA\[)?)
           |(?P<sep>\s{0,4}(?::=|=>|={1,3}|:|,(?=\s{0,2}\\{0,4}["']))\s{0,4}
             (?:[brfu]{0,2}(?=["']))?(?:\\{0,4}["']value\\{0,4}["']\s{0,4}:\s{0,4})?
             |(?:\s|\\{1,4}[nrt]){1,12}value:\s{1,4})
           |(?P<call>\s?\(\s?(?=\\{0,4}["']))
           |(?P<space>[ ]{1,4}(?:(?:is|to)[ ]+)?))
        (?P<open>\\{0,4}["'`]?)""",
    re.VERBOSE,
)
_QUOTED = {
    quote: re.compile(rf"(?:[^{quote}\\\r\n]|\\(?![\\\"'`]{{0,4}}{quote}).){{1,4096}}+") for quote in ('"', "'", "`")
}
_BARE = re.compile(r"[^\s\"'`,;&|<>(){}\[\]\\]{1,4096}+")
_SPACED_VALUE = re.compile(r"[^\s\"'`]{8,256}+")
_TAG_START = re.compile(r"(?:<|&lt;|\\u003c)(?:[A-Za-z][\w.-]{0,32}:)?\Z")
_ENV = re.compile(r"[A-Z][A-Z0-9_]*$")
_REFERENCE = re.compile(
    r"(?:file|env|fd):\S*\Z|[A-Za-z_][\w]*(?:(?:\.|->|::)[A-Za-z_]\w*)+\Z|@\w+\Z|:\w+\Z|/[\w./-]*\Z|https?://\S*\Z"
)
_WORD = re.compile(r"[a-z]+(?:[_ -][a-z]+)*\Z|[A-Z]?[a-z]+(?:[A-Z][a-z]+)*\Z|[A-Z]+(?:_[A-Z]+)*\Z")
# Parameters of a URL whose names mean nothing elsewhere.
_QUERY = re.compile(
    r"[?&;](?:amp;)?(?:key|k|apikey|appid|app_id|auth|access|jwt|sid|session|sessionid|ticket|otp|pw|pass)="
    r"(?P<value>[^\s&;\"'`<>#\\]{8,1024}+)"
)


def is_word_or_reference(value: str) -> bool:
    """Tell whether a value is a word, a variable, a path or an address."""
    return _WORD.match(value) is not None or _REFERENCE.match(value) is not None


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
    if is_weak_name(name):
        may_be_chosen = env or names_password(name)  # by a person, as REDISCLI_AUTH
        return looks_random(value) or _is_hexadecimal(value) or (may_be_chosen and mixes_kinds(value))
    is_strong = is_strong_name(name)
    if names_password(name):
        if quoted or env:
            return not _REFERENCE.match(value) and len(set(value)) >= 5
        if mixes_kinds(value):
            return True
    if looks_random(value) or is_uuid(value) or (is_strong and _is_hexadecimal(value)):
        return True
    if (is_strong or name.startswith("-")) and (is_tangled(value) or _is_long_number(value)):
        return True
    digits = sum(char.isdigit() for char in value)
    return (
        is_strong and (env or quoted) and len(value) >= 8 and 0 < digits < len(value) and shannon_entropy(value) >= 2.75
    )


def find_assignments(text: str, lowered: str, words: Sequence[re.Match[str]]) -> Iterator[CredentialSpan]:
    """Yield the values of credentials' names.

    `lowered` is the same text in lower case, of equal length; `words` are the telling words in it.
    """
    reach = overlaps = 0
    for start, end in find_names(text, lowered, words):
        overlaps = overlaps + 1 if start < reach else 0
        if overlaps < _MAX_OVERLAPS:
            read_to, span = _match_assignment(text, start, end)
            reach = max(reach, read_to) if start < reach or read_to >= reach else read_to
            if span is not None:
                yield span


def find_parameters(text: str) -> Iterator[CredentialSpan]:
    """Yield the values of a URL's parameters that authorize its request."""
    if "?" in text or "&" in text:
        for match in _QUERY.finditer(text):
            value = match["value"]
            if looks_random(value) or _is_hexadecimal(value):
                yield match.start("value"), match.end("value"), "key"


def _match_assignment(text: str, start: int, end: int) -> tuple[int, CredentialSpan | None]:
    """Return how far the text was read, and the value if it is a credential."""
    between = _BETWEEN.match(text, end)
    if between is None:
        return end, None
    rest = between.group("rest")
    prefix = _find_name_prefix(text, start)
    name = prefix + text[start:end] + rest
    if is_descriptive(text, end, prefix, rest):
        return end, None
    quote = between.group("open").lstrip("\\")
    is_sentence = False
    if between.group("space") is not None:
        is_option = prefix.startswith("-") and between.group("space").isspace() and not between.group("close")
        is_sentence = between.group("space").strip() in ("is", "to")
        if not (is_option or is_sentence or _is_spaced_credential(name, text, between.end())):
            return end, None
    tag = between.group("tag")
    if tag and not (between.group("close") or tag.startswith("</") or _follows_tag_start(text, start - len(prefix))):
        return end, None
    value = (_QUOTED[quote] if quote else _BARE).match(text, between.end())
    if value is None:
        return end, None
    value_end = value.end() if quote else value.end() - _count_trailing_punctuation(value.group())
    sep = (between.group("sep") or "").strip()
    stripped = text[value.start() : value_end].rstrip("\\")
    is_list = sep.startswith(",") and "value" not in sep and not prefix.startswith("-")
    if (is_list or between.group("call")) and not (looks_random(stripped) and len(stripped) >= 16):
        return end, None  # a list of arguments separates an option and its value by a comma, and much else
    is_env_assignment = between.group("sep") == "=" and not quote
    env = is_env_assignment or prefix.startswith("-") or is_sentence or bool(_ENV.search(name))
    env = env or tag is not None
    if name.endswith("PASS") and sep == ":" and not quote and _TEST_RESULT.match(stripped):
        return value.end(), None
    if not is_credential(name, stripped, quoted=bool(quote), env=env):
        return value.end(), None
    return value.end(), (value.start(), value.start() + len(stripped), _credential_kind(name))


def _follows_tag_start(text: str, position: int) -> bool:
    return _TAG_START.search(text, max(0, position - 40), position) is not None


def _is_spaced_credential(name: str, text: str, start: int) -> bool:
    """Tell whether only a space separates a name and a credential, as in netrc files and Dockerfiles."""
    value = _SPACED_VALUE.match(text, start)
    if value is None:
        return False
    return looks_random(value.group()) or (names_password(name) and mixes_kinds(value.group().rstrip(".,:;!?")))


def _find_name_prefix(text: str, start: int) -> str:
    first = start
    while first > 0 and start - first < 48 and (text[first - 1].isalnum() or text[first - 1] in "_-."):
        first -= 1
    if first < start and text[first] in "nrt" and text[max(0, first - 1) : first] == "\\":
        first += 1  # the letter of an escape, such as the "\\n" in "\\npassword="
    return text[first:start]


def _count_trailing_punctuation(value: str) -> int:
    return len(value) - len(value.rstrip(".:!?"))


def _is_hexadecimal(value: str) -> bool:
    return len(value) >= 32 and all(char in "0123456789abcdefABCDEF-" for char in value)


def _is_long_number(value: str) -> bool:
    return value.isdigit() and len(value) >= _MIN_NUMBER_CHARS


def _credential_kind(name: str) -> str:
    lowered = name.lower()
    if names_password(name):
        return "password"
    if "token" in lowered:
        return "token"
    return "secret" if "secret" in lowered or "cred" in lowered else "key"
