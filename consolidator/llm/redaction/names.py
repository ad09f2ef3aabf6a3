"""Finds credentials by the names beside them: password=, "api_key": "...", --token X, "the import token is X".

Reads any notation, also JSON inside a string, where the end of a value depends on how often its quotes are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from consolidator.llm.patterns import lazy_regex
from consolidator.llm.redaction.forms import CredentialSpan, read_words, write_alternation
from consolidator.llm.redaction.values import (
    is_chosen,
    is_hexadecimal,
    is_invented,
    is_placeholder,
    is_tangled,
    is_template,
    is_uuid,
    looks_random,
    mixes_kinds,
    shannon_entropy,
)

_FOREIGN_ASCII, _FOREIGN = read_words("foreign-ascii"), read_words("foreign")
_FOREIGN_NAMES = "|".join((*_FOREIGN_ASCII, *_FOREIGN))
_NAMES = (*read_words("names"), *_FOREIGN_ASCII)
PLACE_WORDS = read_words("places")


def _compile_words(words: Iterable[str]) -> re.Pattern[str]:
    # Alternatives that begin with a letter each are many times faster than a group of them, and than ignoring case.
    return lazy_regex(write_alternation(words).removeprefix("(?:").removesuffix(")") + "|_pat(?![a-z0-9])")


_WORDS = _compile_words((*_NAMES, *PLACE_WORDS))
_WORDS_WITH_FOREIGN = _compile_words((*_NAMES, *PLACE_WORDS, *_FOREIGN))
_KEY_PREFIXES = read_words("key-prefixes")
_OTHER_KEY = lazy_regex(rf"(?:{'|'.join(read_words('other-keys'))})_?\Z")
_PASS_PREFIXES = read_words("pass-prefixes")
_OTHER_PASS = lazy_regex(rf"(?i)(?:^|_|-)(?:{'|'.join(read_words('other-passes'))})[_-]?\Z")
_DESCRIPTIVE_SUFFIX = lazy_regex(
    rf"(?i)^(?:s|izer|ize[ds]?|izing|ization|less|[_.-]?(?:{'|'.join(read_words('descriptions'))}))\b"
)
_DESCRIPTIVE_END = lazy_regex(r"(?i)(?:^|[_-])(?:id|ids|name|url|count|type|path|file)$")
_PAGING = lazy_regex(
    r"(?i)(?:^|[_.-])(?:next|page|continuation|cursor|paging|sync|delta|max|min|num|input|output|prompt|total|n)[_-]?(?:page)?[_-]?$"
)
_STRONG_NAME = lazy_regex(
    r"(?i)pass|pwd|secret|api[_.\- ]?key|access[_.\- ]?key|private[_.\- ]?key|auth|cred|token|psk|_pat$"
    r"|pw(?:ord)?$"
    rf"|{_FOREIGN_NAMES}"
)
_PASSWORD_NAME = lazy_regex(rf"(?i)pass|pwd|psk|pw(?:ord)?$|{_FOREIGN_NAMES}")
# Names that mean much else besides: only a random value is a credential there.
_WEAK_NAME = lazy_regex(r"(?i)(?:^|[_.\-]|(?<![a-z]))(?:auth|jwt|pat)$")
_ANY_KEY = lazy_regex(r"[A-Z]_KEY$")
_WORD_BEFORE = lazy_regex(r"[A-Za-z0-9_.-]+\Z")


def find_telling_words(text: str, lowered: str) -> tuple[list[re.Match[str]], set[str]]:
    """Return the words that credentials' names contain, as much else does, and all words that tell of a credential."""
    matches = list((_WORDS if text.isascii() else _WORDS_WITH_FOREIGN).finditer(lowered))
    if not matches:
        return matches, set()
    telling_words = {match.group() for match in matches}
    if not telling_words.isdisjoint(PLACE_WORDS):
        matches = [match for match in matches if match.group() not in PLACE_WORDS]
    return matches, telling_words


def find_names(text: str, lowered: str, words: Sequence[re.Match[str]]) -> Iterator[tuple[int, int]]:
    """Yield where the telling words of credentials' names are."""
    for match in words:
        word, start, end = match.group(), match.start(), match.end()
        if word == "pass":
            is_telling = _is_password(text, start, end)
        elif word == "key":
            is_telling = is_credential_key(text, lowered, start)
        elif word in ("pw", "pword"):
            is_glued = text[start - 1 : start].isalnum() and not lowered.endswith(_PASS_PREFIXES, 0, start)
            is_telling = not (is_glued or text[end : end + 1].isalnum())
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
        not _is_descriptive(name, end, name[:start], name[end:])
        for start, end in find_names(name, lowered, find_telling_words(name, lowered)[0])
    )


def names_password(name: str) -> bool:
    """Tell whether a name means a password, which a person may have chosen."""
    return _PASSWORD_NAME.search(name) is not None


def _is_descriptive(text: str, end: int, prefix: str, rest: str) -> bool:
    """Tell whether a name describes a credential but holds none; its telling word ends at `end`."""
    is_described = _DESCRIPTIVE_SUFFIX.match(text, end) or _PAGING.search(prefix) or _DESCRIPTIVE_END.search(rest)
    return is_described is not None


def lower_same_length(text: str) -> str:
    """Return a text in lower case with the same length: "İ" alone would become longer."""
    return text.replace("İ", "I").lower()


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


_TEST_RESULT = lazy_regex(r"(?i)tests?(?![a-z])|test(?=[A-Z_])|\S*::")  # follows the PASS of a test report
_PHRASE_NAME = lazy_regex(
    rf"(?i)(?:pass(?:word|wd|phrase|code|wort|ord)|pwd|psk|secret|(?<=[a-z_.-])pass|{_FOREIGN_NAMES})\d?$"
)
_LABEL = lazy_regex(rf"(?i)pass(?:word|wort|phrase|code)|{_FOREIGN_NAMES}|:\Z|\b(?:{'|'.join(read_words('labels'))})\b")
_NO_PHRASE = frozenset(",+).;|&=:?")  # begins what follows a quote that was no opening one
_MIN_PHRASE_CHARS = 3  # characters of several words
_STATEMENT = lazy_regex(r"(?i)\b(?:alter|create|set)\s{1,8}(?:role|user|login|group|server|password)\b[^;]{0,200}\Z")
_FOLDERS = frozenset(["PWD", "OLDPWD"])
_FOLDER = lazy_regex(r"[~/]|[A-Za-z]:[\\/]")
# What precedes the quotes around a whole assignment; elsewhere they hold a script, "DB_PASSWORD=x make test".
_OF_VARIABLE = lazy_regex(
    r"(?:^|[\s:;&|\"'`(])(?:-e|--env|--build-arg|--value|setx?|put|export|env(?:\s\w+/\S+)?|declare(?:\s-\w+)?"
    r"|echo(?:\s-\w+)?|printf|ENV|ARG|-)[ =]{1,4}\\{0,4}[\"']\Z"
)
_OF_LABEL = lazy_regex(r"(?i)\b(?:html)?for\s?=\s?\\{0,4}[\"']\Z")  # of a form's field: what it says is no value
_COMMON_PASSWORDS = frozenset(read_words("common-passwords"))
_MIN_NUMBER_CHARS = 15  # digits of a number that is no time, count or port
_MAX_OVERLAPS = 4  # how often a passage may be read again for names inside another name's value
# The rest of the name, its closing quote, the separator, and the opening quote of the value.
_BETWEEN = lazy_regex(
    r"""(?P<rest>[A-Za-z0-9_.-]{0,40}?)
        (?P<close>\\{0,4}["'`]?\]?)
        (?:(?P<tag>\s{1,24}(?:[vV]alue|content)\s{0,2}=\s{0,2}
             |(?:\s{1,3}[\w:.-]{1,32}=(?:"[^"<>\n]{0,64}"|'[^'<>\n]{0,64}')){0,3}(?:</[A-Za-z]{1,16}>\s{0,24}<[A-Za-z]{1,16})?
              \s?(?:>|&gt;|\\u003e)(?:<!\[CDATA\[)?)
           |(?P<default>[\])}]{0,2}(?:\s?\?\s[^\n;:?]{1,80}\s:\s
             |\s{0,3}(?:\?\?=?|\|\|=?|\?:|//=?|\bor\b)\s{0,3}
             |\)\s?(?:\{|do)?\s{1,3}
             |\)\s{0,12}\.(?:unwrap_or|unwrap_or_else|orElse|getOrElse|or_else)\s?\((?:\s?\|\w?\|)?\s{0,2})(?=\\{0,4}["'`]))
           |(?P<sep>[ ]{0,40}\|[ ]{1,40}
             |(?::[ ]?[&\w<>\[\]'.|?]{1,24}(?:[ ][&\w<>\[\]'.|?]{1,24}){0,2}(?=[ ]?=[ ]?["'`]))?
             \s{0,4}(?::=|=>|={1,3}|:\*{0,2}|,(?=\s{0,2}\\{0,4}["']))
             (?:[ ]?[|>][+-]?(?=\s)|[ ]?\((?=\s))?\s{0,24}
             (?:[brfuLN@$]{0,2}(?=["']))?(?:\\{0,4}["']value\\{0,4}["']\s{0,4}:\s{0,4})?
             |(?:\s|\\{1,4}[nrt]){1,12}value:\s{1,4})
           |(?P<call>\s?\(\s?(?=\\{0,4}["']))
           |(?P<space>[ \t]{1,40}+(?:(?:is|to)[ ]+|(?P<type>[05789])[ ])?))
        (?P<open>'"'"'|["']{3}\s{0,2}|\\{0,4}["'`]?)""",
    re.VERBOSE,
)
_DEFAULT = lazy_regex(
    r"[A-Za-z0-9_.-]{0,24}\\{0,4}[\"'`]?[^\"'\n;]{0,40}(?:\n[^\n;}]{0,120}){0,4}?\bdefault(?:_?[vV]alue)?\\{0,4}[\"']?\s{0,3}[:=]\s{0,3}\\{0,4}[\"']"
    r"(?P<value>[^\s\"'\\]{6,256}+)"
)


def _compile_quoted(quote: str, depth: int) -> re.Pattern[str]:
    """Return an expression for a value up to a quote that no more backslashes precede than the one before the value."""
    inner = rf"\\{{{depth + 1},9}}+{quote}?" + (rf"|\\(?!\\{{0,{depth - 1}}}{quote})" if depth else "")
    inner += r"|'\\''" if (quote, depth) == ("'", 0) else ""  # as a shell writes an apostrophe
    return lazy_regex(rf"(?:[^{quote}\\\r\n]{{1,4096}}+|{inner}){{1,256}}")


_QUOTED = {(quote, depth): _compile_quoted(quote, depth) for quote in "\"'`<" for depth in range(5)}
# An ampersand ends a parameter of a URL, but may also be a part of a password.
_BARE = lazy_regex(
    r"[^\s\"'`,;&|<>(){}\[\]\\]{1,4096}+(?:&(?![\w.-]{0,40}=|(?:#\d{1,6}|[a-zA-Z]{2,8});)[^\s\"'`,;&|<>(){}\[\]\\]{1,128}+){0,2}"
)
_BRACED = lazy_regex(r"(?<=[pP][wW][dD]=)\{[^{}\s]{4,128}\}(?=[;\"'\\]|\s|\Z)")
_ACCOUNT = lazy_regex(r"[a-z_][a-z0-9_.-]{0,31}@[\w.-]+(?::\S*)?\Z")
_SPACED_VALUE = lazy_regex(r"[^\s\"'`]{6,256}+")
_TAG_START = lazy_regex(r"(?:<|&lt;|\\u003c)(?:[A-Za-z][\w.-]{0,32}:)?\Z")
_ENV = lazy_regex(r"[A-Z][A-Z0-9_]*$")
_CALL_START = lazy_regex(r"[\w!]\s?\(\s{0,12}\\{0,4}[\"'`]\Z")
_SETTER = lazy_regex(r"(?i)(?:set|with|use|using|add)_?\Z")
# What sets a name to the next word: ENV X_TOKEN v, setenv, npm config set, aws configure set, set -gx.
_SETTING = lazy_regex(
    r"(?:^|[\s;&|\"'`(\[])(?:ENV|ARG|setenv|setx|set|put|[\w.-]{2,24}[ ]{1,2}"
    r"(?:config|configure|secrets?|variables?|env|set-env)"
    r"(?:[ :]{1,2}(?:set|add|put|SET))?)(?:[ ]{1,2}--?[\w-]{1,24}){0,3}[ ]{1,2}[^\s=\"'`]{0,64}\Z"
)
_REFERENCE = lazy_regex(
    r"(?:file|env|fd):\S*\Z|[A-Za-z_][\w]*(?:(?:\.|->|::)[A-Za-z_]\w*)+\Z|@\w+\Z|:\w+\Z|/[\w./-]*\Z|https?://\S*\Z"
)
_WORD = lazy_regex(r"[a-z]+(?:[_ -][a-z]+)*\Z|[A-Z]?[a-z]+(?:[A-Z][a-z]+)*\Z|[A-Z]+(?:_[A-Z]+)*\Z")


def is_word_or_reference(value: str) -> bool:
    """Tell whether a value is a word, a variable, a path or an address."""
    return _WORD.match(value) is not None or _REFERENCE.match(value) is not None


def is_credential(name: str, value: str, *, quoted: bool = True, env: bool = False, in_command: bool = False) -> bool:
    """Tell whether the value of a credential's `name` is one itself: no placeholder, no reference, no word.

    In a command that was run, a word is a password, too, unless it is one that everybody has.
    """
    if value.startswith("{") and value.endswith("}"):  # ODBC
        value = value[1:-1]
    if any(char.isspace() for char in value):
        return quoted and _is_phrase(name, value)
    if len(value) < 6 or value.startswith("[redacted:") or is_placeholder(value):
        return False
    if not quoted and _REFERENCE.match(value):
        return False
    may_be_word = in_command and env and names_password(name) and name not in _FOLDERS
    if _WORD.match(value) and not (may_be_word and value.lower() not in _COMMON_PASSWORDS):
        return False
    if value.isdigit() and len(value) < 8:
        return False
    is_strong = _STRONG_NAME.search(name) is not None
    if _WEAK_NAME.search(name) or (_ANY_KEY.search(name) and not is_strong):  # it means much else besides
        may_be_chosen = env or names_password(name)  # by a person, as REDISCLI_AUTH
        return looks_random(value) or is_hexadecimal(value) or (may_be_chosen and mixes_kinds(value))
    if names_password(name):
        if quoted or env:
            return not _REFERENCE.match(value) and len(set(value)) >= 5
        if mixes_kinds(value) or is_invented(value):
            return True
    if looks_random(value) or is_uuid(value) or (is_strong and is_hexadecimal(value)):
        return True
    if (is_strong or name.startswith("-")) and (
        is_tangled(value) or (value.isdigit() and len(value) >= _MIN_NUMBER_CHARS)
    ):
        return True
    digits = sum(char.isdigit() for char in value)
    return (
        is_strong and (env or quoted) and len(value) >= 8 and 0 < digits < len(value) and shannon_entropy(value) >= 2.5
    )


def _is_phrase(name: str, value: str, *, is_sure: bool = False) -> bool:
    """Tell whether several words are a credential: of an option any, beside other names what is no label of a field."""
    if len(value) < _MIN_PHRASE_CHARS or value != value.strip() or value[0] in _NO_PHRASE or is_template(value):
        return False
    if name.lower().endswith("pwd") and _FOLDER.match(value):
        return False
    if is_sure or name.startswith("-"):
        return True
    return len(value) >= 6 and _PHRASE_NAME.search(name) is not None and _LABEL.search(value) is None


def find_assignments(
    text: str, lowered: str, words: Sequence[re.Match[str]], *, in_command: bool = False
) -> Iterator[CredentialSpan]:
    """Yield the values of credentials' names.

    `lowered` is the same text in lower case, of equal length; `words` are the telling words in it.
    """
    reach = overlaps = 0
    for start, end in find_names(text, lowered, words):
        overlaps = overlaps + 1 if start < reach else 0
        if overlaps < _MAX_OVERLAPS:
            read_to, span = _match_assignment(text, start, end, in_command=in_command)
            if span is None and "default" in lowered[end : end + 100]:
                read_to, span = max(read_to, end), _match_default(text, start, end)
            reach = max(reach, read_to) if start < reach or read_to >= reach else read_to
            if span is not None:
                yield span


def _match_assignment(text: str, start: int, end: int, *, in_command: bool) -> tuple[int, CredentialSpan | None]:
    """Return how far the text was read, and the value if it is a credential."""
    between = _BETWEEN.match(text, end)
    if between is None:
        return end, None
    rest = between.group("rest")
    prefix = _find_name_prefix(text, start)
    name = prefix + text[start:end] + rest
    if _is_descriptive(text, end, prefix, rest):
        return end, None
    quote, depth = _read_quote(between.group("open"))
    first = start - len(prefix)
    # of SQL: there a word in quotes is a password, too
    in_command = in_command or (quote == "'" and bool(_STATEMENT.search(text, max(0, first - 240), first)))
    is_sentence = False
    if between.group("space") is not None:
        is_option = prefix.startswith("-") and between.group("space").isspace() and not between.group("close")
        is_sentence = between.group("space").strip() in ("is", "to")
        is_told = is_option or is_sentence or (in_command and quote == "'" and name.lower() != "pass")
        if not (is_told or _is_spaced_credential(name, prefix, text, start, between)):
            return end, None
    tag = between.group("tag")
    if tag and not (
        between.group("close") or tag.startswith("</") or _TAG_START.search(text[max(0, first - 40) : first])
    ):
        return end, None
    if (phrase := _match_phrase(text, first, name, between)) is not None:
        return phrase.end(), (*phrase.span(), _credential_kind(name))
    value = (_QUOTED[quote, depth] if quote else _BARE).match(text, between.end())
    if value is None and between.group("sep") == "=":  # ODBC
        value = _BRACED.match(text, between.end())
    if value is None:
        return end, None
    value_end = value.end() if quote else value.start() + len(value.group().rstrip(".:!?"))
    sep = (between.group("sep") or "").strip()
    stripped = text[value.start() : value_end].rstrip("\\")
    if any(map(str.isspace, stripped)):
        return value.end(), None
    is_list = sep.startswith(",") and "value" not in sep and not prefix.startswith("-")
    if is_list and len(stripped) >= (6 if _ENV.match(name) else 8):
        # A comma separates an option and its value, a setting's name and its default, and much else.
        is_list = not _CALL_START.search(text, max(0, first - 24), first)
    is_getter = between.group("call") and not _SETTER.search(prefix) and text[start - 1 : start] != "."
    if (is_list or (is_getter and not in_command)) and not (looks_random(stripped) and len(stripped) >= 16):
        return end, None
    is_env_assignment = between.group("sep") == "=" and not quote
    env = is_env_assignment or prefix.startswith("-") or is_sentence or bool(_ENV.search(name))
    env = env or sep[1:].endswith(("|", ">", "-")) or tag is not None or between.group("space") is not None
    if name.endswith("PASS") and sep == ":" and not quote and _TEST_RESULT.match(stripped):
        return value.end(), None
    env = env or (in_command and (sep == "=" or (bool(quote) and sep == ":")))
    env = env or (sep == ":" and not quote and _is_line_of(text, first, value, name))
    in_command = in_command and not (is_sentence or rest.strip("0123456789")) and (bool(quote) or sep != ":")
    if not is_credential(name, stripped, quoted=bool(quote), env=env, in_command=in_command):
        return value.end(), None
    return value.end(), (value.start(), value.start() + len(stripped), _credential_kind(name))


def _is_line_of(text: str, first: int, value: re.Match[str], name: str) -> bool:
    """Tell whether a password's name and a value with a digit fill a line, as in YAML."""
    before = text[max(0, first - 80) : first].rpartition("\n")[2]
    is_alone = not before.strip(" \t-") and text[value.end() : value.end() + 1] in ("", "\r", "\n")
    return is_alone and _PHRASE_NAME.search(name) is not None and any(map(str.isdigit, value.group()))


def _read_quote(opening: str) -> tuple[str, int]:
    """Return the quote that opens a value, and how many backslashes precede it."""
    bare = opening.lstrip("\\")
    return bare[:1], len(opening) - len(bare)


def _match_phrase(text: str, first: int, name: str, between: re.Match[str]) -> re.Match[str] | None:
    """Return several words that are a credential, in quotes or an element; the quotes may begin before the name."""
    opening, sep, tag = between.group("open"), (between.group("sep") or "").strip(), between.group("tag")
    before = text[max(0, first - 48) : first]
    is_assigned = between.group("sep") == "=" and _ENV.match(name) is not None
    if tag and _OF_LABEL.search(before):
        return None
    if not opening and (tag or (is_assigned and _OF_VARIABLE.search(before))):  # -e 'DB_PASSWORD=two words'
        opening = "<" if tag else before[len(before.rstrip("\\\"'")) :]
    is_named = name.startswith("-") or tag or between.group("space") or (sep and sep[0] not in ",|")
    quote, depth = _read_quote(opening)
    value = _QUOTED[quote, depth].match(text, between.end()) if is_named and quote and quote in "'\"<" else None
    if value is None or not any(map(str.isspace, value.group())):
        return None
    is_closed = value.end() == len(text) or text[value.end()] not in "\r\n"
    return value if is_closed and _is_phrase(name, value.group(), is_sure=is_assigned) else None


def _match_default(text: str, start: int, end: int) -> CredentialSpan | None:
    """Return the default value of a parameter, field or variable that is named for a credential."""
    match = _DEFAULT.match(text, end)
    name = _find_name_prefix(text, start) + text[start:end]
    if match is None or "://" in match["value"] or not is_credential(name, match["value"]):
        return None
    return match.start("value"), match.end("value"), _credential_kind(name)


def _is_spaced_credential(name: str, prefix: str, text: str, start: int, between: re.Match[str]) -> bool:
    """Tell whether only a space separates a name and a credential, as in netrc files and Dockerfiles."""
    match = _SPACED_VALUE.match(text, between.end())
    value = match.group().rstrip(".,:;!?") if match else ""
    first = start - len(prefix)
    if not value or value.startswith("-") or is_word_or_reference(value):
        return False
    before = text[max(0, first - 96) : first]
    if _SETTING.search(before[before.rfind("\n") + 1 :]):
        return is_credential(name, value, env=True)
    if between.group("type"):  # of a router
        return is_chosen(value) or is_invented(value)
    if (first and text[first - 1] in "/\\") or _ACCOUNT.match(value):  # a file named for its key, then a host
        return False
    if between.group("open") in ("'", '"') and names_password(name):  # SQL
        return any(map(str.isdigit, value)) and is_credential(name, value)
    if looks_random(value) or (names_password(name) and (mixes_kinds(value) or is_invented(value))):
        return True
    return _STRONG_NAME.search(name) is not None and is_tangled(value)


def _find_name_prefix(text: str, start: int) -> str:
    first = start
    while first > 0 and start - first < 48 and (text[first - 1].isalnum() or text[first - 1] in "_-."):
        first -= 1
    if first < start and text[first] in "nrt" and text[max(0, first - 1) : first] == "\\":
        first += 1  # the letter of an escape, such as the "\\n" in "\\npassword="
    return text[first:start]


def _credential_kind(name: str) -> str:
    lowered = name.lower()
    if names_password(name):
        return "password"
    if "token" in lowered:
        return "token"
    return "secret" if "secret" in lowered or "cred" in lowered else "key"


_VERB = (
    "is|was|are|jest|là|adalah|still|now|remains|again|called|reads|ist|lautet|war|est|c'est|es|era|é|è|är|er|to|это"
)
_PARTICLE = "は|是|为|為|는|은"  # no space follows these
# "password for the staging box is X" and "password (staging): X" say what it is for; "key you need: X" who needs it.
_PURPOSE = (
    r"(?P<purpose>(?:\s{1,3}(?:for|of|to|on|in|at|from|für|zum|vom|von|pour|para|del?|des|du|della|do|da|dla|voor|pro|till|от|для|к|на)\s{1,3}[\w./@'-]{1,40}"
    r"(?:\s{1,3}[\w./@'-]{1,40}){0,3}?)?(?:\s{0,3}\([^()\n]{1,40}\))?(?:\s{1,3}(?:you|we|they)\s{1,3}[a-z]{2,12})?)"
)
# What follows the telling part of a noun: its end, its purpose, what joins it to the credential, and this.
_AFTER_NOUN = lazy_regex(
    rf"(?i)(?:s|e|et|n|nr|ña)?{_PURPOSE}"
    rf"(?:['’]s(?=\s)|(?:\s{{1,3}}(?:{_VERB})(?![a-z])){{1,3}}\s{{0,3}}[:=]?|\s{{0,3}}(?:{_PARTICLE})|(?P<colon>\s{{0,3}}[:=：]))"
    r"\s{0,3}[\"'`(<«„“「]{0,2}(?P<value>[^\s\"'`()<>,;»“”」、。，！]{6,300})"
)
_ENGLISH = frozenset(["token", "password", "passwd", "passcode", "passphrase", "secret", "credential", "creds", "key"])
_NO_NOUN = frozenset(["auth", "psk", "jwt", "pwd", "_pat", "pw"])
# "use X as the token", "X is our password", "enter X when it asks for the password"
_BEFORE_NOUN = lazy_regex(
    r"(?<![^\s\"'`(<])(?P<value>[^\s\"'`()\[\]{}<>,;]{6,300})[\"'`)>]{0,2},? (?:(?:as|is|was)"
    r"(?: (?:the|your|my|our|its|a|an|this|new))?(?: [\w-]{1,16}){0,2}"
    r"|(?:when|where|if|for|at|in)(?: [\w'-]{1,16}){1,6})"
    r" [\w-]{0,16}\Z"
)
_BEFORE_COMMENT = lazy_regex(
    r"[=:(,\[]\s{0,3}[\"'](?P<value>[^\s\"']{8,128})[\"'][,;)]{0,3}\s{1,16}(?:\#|//|--|/\*|<!--)\s{0,2}[^\"'\n]{0,48}\Z"
)
_COMMENTS = ("# ", "// ", "-- ", "/* ")
_LINKS = (" as ", " is ", " was ", " when ", " where ", " for ", " if ", " at ", " in ")
_TRAILING_PUNCTUATION = lazy_regex(r"[.!?:]+$")
_ASCII_PREFIX = lazy_regex(r"[\x21-\x7e]+")
_NO_SECRET = lazy_regex(r"^(?:https?://|[~./])|^[a-z]+(?:-[a-z]+)*$", re.IGNORECASE)


def find_prose_secrets(text: str, lowered: str, names: Sequence[re.Match[str]]) -> Iterator[CredentialSpan]:
    """Yield the credentials that sentences contain; a value without a digit counts as a word.

    `names` are the telling words that `credential_names` found.
    """
    for name in names:
        word = name.group()
        if word in _NO_NOUN or (word == "pass" and not lowered.startswith("mot de ", name.start() - 7)):
            continue
        if word == "key" and not is_credential_key(text, lowered, name.start()):
            continue
        if text[name.start() - 1 : name.start()] in (" ", "_", "-"):
            span = _find_before_noun(text, name.start())
            if span is not None:
                yield span
        match = _AFTER_NOUN.match(text, name.end())
        if match is None:
            continue
        span = _judge(match["value"], match.start("value"))
        if span is None:
            continue
        value = text[span[0] : span[1]]
        is_noun_enough = bool(match["purpose"]) or word not in _ENGLISH  # an assignment is judged elsewhere
        if not match["colon"] or (is_noun_enough and (looks_random(value) or mixes_kinds(value) or is_invented(value))):
            yield span


def _find_before_noun(text: str, start: int) -> CredentialSpan | None:
    """Return the credential that a sentence names before the noun at `start`."""
    window = text[max(0, start - 80) : start]
    if not any(map(str.isdigit, window)):
        return None
    for marks, pattern in ((_LINKS, _BEFORE_NOUN), (_COMMENTS, _BEFORE_COMMENT)):
        if any([mark in window for mark in marks]):  # noqa: C419 - twice as fast
            match = pattern.search(text, max(0, start - 160), start)
            value = match["value"] if match else ""
            is_constant = is_word_or_reference(value) or (value.isupper() and "_" in value)
            if match and (is_chosen(value) or is_invented(value)) and not is_constant:
                return match.start("value"), match.end("value"), "secret"
    return None


def _judge(text: str, start: int) -> CredentialSpan | None:
    value = _TRAILING_PUNCTUATION.sub("", text)
    ascii_part = _ASCII_PREFIX.match(value)
    if ascii_part is not None and len(ascii_part.group()) >= 6:
        value = ascii_part.group()  # Japanese goes on without a space
    if any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and not _NO_SECRET.search(value):
        return start, start + len(value), "secret"
    return None
