"""Finds credentials by where they stand: in options and positions of commands, headers, cookies, manifests, tables.

Only the program tells whether -p means a password, a port or a parent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

from consolidator.llm.patterns import lazy_regex
from consolidator.llm.redaction.forms import CredentialSpan, read_table, read_words, write_alternation
from consolidator.llm.redaction.names import (
    PLACE_WORDS,
    is_credential,
    is_credential_name,
    is_word_or_reference,
    names_password,
)
from consolidator.llm.redaction.values import (
    is_chosen,
    is_hexadecimal,
    is_invented,
    is_placeholder,
    is_tangled,
    is_uuid,
    looks_random,
    mixes_kinds,
)


class Usage(NamedTuple):
    """Where a program takes a password."""

    pattern: re.Pattern[str]  # over words that each follow a null character; its group is the password
    is_sure: bool


def _read_usage(program: str, usage: str) -> Usage:
    *before, last = usage.split()
    options = r"(?:\0-[^\0]*)*"
    is_plain = len(last) == 1 and all(word == "*" for word in before)
    pattern = rf"\0(?:[^\0]*/)?{program}(?:\.exe)?(?=\0)" if is_plain else ""
    for word in before:
        if word == "*":
            pattern += rf"{options}\0(?!-)[^\0]+"
        else:
            pattern += rf"(?:\0[^\0]*)*?\0{re.escape(word)}" if pattern else rf"\0{re.escape(word)}"
            pattern += r"[^\0]*" if word.endswith(".") else r"(?=\0)"
    if (pattern and not before[-1:]) or (before and not before[-1].startswith("-")):
        pattern += options
    start = rf"[\w.@+\\-]{{1,64}}{re.escape(last[1:-1])}" if last.startswith("*") else re.escape(last[:-1]) or "(?!-)"
    return Usage(lazy_regex(rf"{pattern}\0['\"]*{start}([^\0]{{3,}})"), last.endswith("P"))


USAGES: dict[str, list[Usage]] = {}
for _line in read_table("usages"):
    _programs, _, _forms = _line.partition(":")
    for _program in _programs.split():
        USAGES.setdefault(_program, []).extend(_read_usage(_program, form) for form in _forms.split(" | "))
# Short options of curl that take no value may stand before the one that takes a user and a password.
_CURL_USER = r"\0-(?:-(?:proxy-)?user=|[0-9aBfgGiIjJklLMnNOpqRsSvVZ#]{0,12}[uU]\0?)['\"]*[^\0:]+:([^\0]+)"
USAGES["curl"].append(Usage(lazy_regex(_CURL_USER), True))
P_IS_NO_PASSWORD = frozenset(read_words("p-is-no-password"))
_PROGRAM = lazy_regex(rf"(?<![\w.-]){write_alternation(USAGES)}(?:\.exe)?(?=\s)")
# An option or a word of each usage; most texts have none.
_HINT = lazy_regex(
    r"-(?<=[ \t]-)(?:[pPuUwakKAXst]|[a-zA-Z0-9#]{1,8}[uU]|storepass|keypass|-(?:proxy-)?user=?|-auth|-pass"
    r"|pass(?:in|out)?|n?[bB][bBc]?)[ =\"'A-Za-z0-9]|/(?<=[ \t]/)(?:p(?:ass)?:|rp:|user:|add\b)"
)
_USAGE_WORDS = frozenset(PLACE_WORDS[: PLACE_WORDS.index("sudo ")])
_LINE_WORD = lazy_regex(r"(?:[^\s'\"|;&<>]|'[^'\n]{0,256}'|\"[^\"\n]{0,256}\"){1,512}")
_LINE_END = lazy_regex(r"(?<!\\)\n|[|;]|&&")
_LINE_CHARS = 600  # characters of a command that are read after its program's name
_MAX_WORDS = 256  # words of a command that are read
COMMAND_KEYS = ("command", "cmd", "commands", "script")  # of a call's arguments: a line of a shell, or its words
_PROGRAM_KEYS = ("command", "cmd", "program", "executable", "entrypoint", "file")

_QUOTED_TEXT = r"'[^'\n]{1,128}'|\"[^\"\n]{1,128}\""
# Commands that store a secret: a noun with a verb before or after it.
_STORE = (
    r"(?:secrets?|secretsmanager|user-secrets|keyvault|vars?|variables?|env|config|kv|keyring|parameters?)[\s:-]{1,2}"
    r"(?:secret\s|versions\s|generic\s)?(?:set|put|patch|add|create|new|write|update|import|insert|upsert|edit)\b",
    r"(?:set|put|create|add|write|update|store|insert|encrypt)[\s-](?:generic-|internet-)?(?:secret|password|parameter)\b",
)
_STORING = tuple(map(re.compile, _STORE))  # two searches for literals are faster than one for either
_ANY_VALUE = rf"(?P<value>{_QUOTED_TEXT}|[^\s'\"|;&<>\\]{{6,512}}+)"
# What stores give a value: an option, or a name before "=" or a space.
_STORED = lazy_regex(
    rf"(?:(?<=\s)(?:--(?:body|value|secret|secret-string|secret-value|plaintext|text|data|string-value|password)[\s=]|-[bvw]\s?)"
    rf"|(?<=\s)(?:--from-literal[\s=])?[\"']?[A-Za-z_][\w./:-]{{0,64}}=)\s{{0,2}}{_ANY_VALUE}"
)
_STORED_AFTER_NAME = lazy_regex(
    rf"(?:\s{{1,3}}-{{1,2}}[\w-]{{1,24}}){{0,2}}(?:\s{{1,3}}[\w\"'.:/-]{{1,64}}){{1,2}}?\s{{1,3}}{_ANY_VALUE}"
)
_ECHO = (
    r"(?:echo|printf)\s{1,3}(?:-[neE]{1,3}\s{1,3})?(?:\\{0,4}[\"']?%s(?:\\{1,4}n)?\\{0,4}[\"']?\s{1,3})?"
    rf"\\{{0,4}}(?P<value>{_QUOTED_TEXT}|[^\s'\"|;&<>\\]{{1,512}}+)\\{{0,4}}[\"']?\s{{0,3}}"
)
_FILE = r"\s{0,3}(?P<file>[^\s|;&<>]{1,200}+)"
# What a place around a value must be besides, by the name of its group.
_CONDITIONS = {
    "file": lazy_regex(r"(?i)token|secret|passw|passphrase|cred|api[_-]?key|netrc|pgpass|vault|[._-](?:pw|key)\b"),
    "name": lazy_regex(r"(?i)pass|pwd|secret|token|api_?key|cred|\bpw"),
    "reader": lazy_regex(
        rf"{_STORE[0]}|\b{_STORE[1]}|--(?:password|passphrase|pass|token)-stdin\b|--with-token\b|passwd\b\s{{0,3}}(?:--stdin|-f|\Z)|\bkinit\b"
        r"|\bsudo\s{1,3}(?:-\w{1,3}\s{1,3})?-S\b|--passphrase-fd\b|\bcryptsetup\b|\bsmbpasswd\b|\bsecret-tool\b"
        r"|\bpass\s{1,3}insert\b"
    ),
}


def _is_no_word(value: str) -> bool:
    return len(value) >= 6 and not (is_word_or_reference(value) or " " in value or "://" in value)


def _is_raw(value: str) -> bool:
    return is_chosen(value) or is_hexadecimal(value)


def _is_made(value: str) -> bool:
    return is_chosen(value) or is_invented(value)


_TESTS: dict[str, Callable[[str], bool]] = {
    "any": lambda value: True,
    "no-word": _is_no_word,
    "raw": _is_raw,
    "made": _is_made,
}


class Place(NamedTuple):
    """What stands around a credential."""

    words: tuple[str, ...]  # one of these is in each text; none: any word of a credential's name
    mark: str  # and this, too, in lower case
    pattern: re.Pattern[str]
    is_value: Callable[[str], bool]
    kind: str


_MACROS = {"{ECHO}": _ECHO, "{FILE}": _FILE, "{ANY}": _ANY_VALUE, "{QUOTED}": _QUOTED_TEXT}


def _read_places() -> Iterator[Place]:
    """Yield the places of places.txt, which describes its form."""
    lines = list(read_table("places"))
    starts = [index for index, line in enumerate(lines) if not line.startswith(" ")]
    for start, end in pairwise([*starts, len(lines)]):
        kind, test, _ = lines[start].split(" ", 2)
        mark, *words = re.findall(r'"([^"]*)"', lines[start])
        pattern = "".join(line[2:] for line in lines[start + 1 : end])
        for name, part in _MACROS.items():
            pattern = pattern.replace(name, part)
        yield Place(tuple(words), mark, lazy_regex(pattern), _TESTS[test], kind)


PLACES = tuple(_read_places())
# ["-p","X"] as text: the program is unknown, so the value itself must look like a password.
_LISTED_OPTION = lazy_regex(r"-(?:[pPw]|[a-zA-Z]{0,8}u)\\{0,4}[\"']")
_LISTED_PASSWORD = lazy_regex(
    r"\\{0,4}[\"']-(?:[pPw]|[a-zA-Z]{0,8}u(?=[^,\n]{1,6},[^,\n]{2,70}:))\\{0,4}[\"']\s{0,2},\s{0,4}\\{0,4}[\"']"
    r"(?:[\w.@-]{1,64}:)?(?P<value>(?!--)[^\s\"'\\]{8,64})\\{0,4}[\"']"
)


def find_places(text: str, lowered: str, telling_words: set[str]) -> Iterator[CredentialSpan]:
    """Yield the credentials that the table of places tells, of a text in which these telling words were found."""
    for place in PLACES:
        if place.mark in lowered and (not place.words or not telling_words.isdisjoint(place.words)):
            yield from _take_values(place.pattern.finditer(text), place.is_value, place.kind)


def _take_values(
    matches: Iterator[re.Match[str]], is_value: Callable[[str], bool], kind: str = "password"
) -> Iterator[CredentialSpan]:
    for match in matches:
        value = match["value"].strip("'\"")
        if is_placeholder(value) or not is_value(value):
            continue
        groups = match.groupdict()
        if all(_CONDITIONS[name].search(groups[name]) for name in groups.keys() & _CONDITIONS.keys()):
            start = match.start("value") + match["value"].index(value)
            yield start, start + len(value), kind


def find_command_passwords(text: str, telling_words: set[str], *, in_command: bool = False) -> Iterator[CredentialSpan]:
    """Yield passwords in options and positions of commands, what commands store, and what lists of arguments hold."""
    if "secret" in telling_words or "password" in telling_words or "put-parameter" in text:
        yield from _find_stored(text)
    if ("-p" in text or "-P" in text or "-w" in text or "curl" in telling_words) and _LISTED_OPTION.search(text):
        yield from _take_values(_LISTED_PASSWORD.finditer(text), is_chosen)
    if in_command or not telling_words.isdisjoint(_USAGE_WORDS):
        yield from _find_in_lines(text, 0, len(text))
    elif " -" in text or " /" in text or "\t" in text:
        reach = 0
        for hint in _HINT.finditer(text):
            if hint.start() >= reach:
                start = max(reach, hint.start() - _LINE_CHARS)
                reach = min(len(text), hint.end() + _LINE_CHARS)
                yield from _find_in_lines(text, max(start, text.rfind("\n", start, hint.start()) + 1), reach)


def _find_stored(text: str) -> Iterator[CredentialSpan]:
    """Yield what a command stores as a secret or a setting: in an option, or after a name."""
    for store in chain.from_iterable(pattern.finditer(text) for pattern in _STORING):
        before = text[store.start() - 1] if store.start() else " "
        if before.isalnum() or before in "_./-":
            continue
        end = _LINE_END.search(text, store.end(), store.end() + _LINE_CHARS)
        stop = end.start() if end else min(len(text), store.end() + _LINE_CHARS)
        is_secret = "secret" in store.group() or "keyvault" in store.group() or "password" in store.group()
        if not is_secret and not re.search(r"secret|Secure|vault|var", text[max(0, store.start() - 24) : stop]):
            continue
        yield from _take_values(_STORED.finditer(text, store.end(), stop), _is_no_word)
        named = _STORED_AFTER_NAME.match(text, store.end(), stop)
        if named:
            yield from _take_values(iter([named]), is_chosen)


def _find_in_lines(text: str, start: int, end: int) -> Iterator[CredentialSpan]:
    reach = 0
    for program in _PROGRAM.finditer(text, start, end):
        if program.start() < reach:
            continue  # read as a word of the command before
        line_end = _LINE_END.search(text, program.end(), program.end() + _LINE_CHARS)
        reach = line_end.start() if line_end else min(len(text), program.end() + _LINE_CHARS)
        words = [program, *_LINE_WORD.finditer(text, program.end(), reach)]
        for index, (start, end) in find_argument_passwords("", [word.group() for word in words], is_line=True).items():
            word = words[index].group()[start:end]
            first = words[index].start() + start + len(word) - len(word.lstrip("'\"\\"))
            value = word.strip("'\"\\")
            if len(value) >= 3 and not is_placeholder(value):
                yield first, first + len(value), "password"


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
    words = [word if isinstance(word, str) and len(word) <= 1024 else "" for word in arguments[:_MAX_WORDS]]
    commands = program.split()
    joined = "".join(f"\0{word}" for word in (*commands, *words))
    programs = {word.rsplit("/", 1)[-1].removesuffix(".exe") for word in (*commands, *words)}
    starts: dict[int, int] = {}  # where each password begins in the joined words
    for name in programs & USAGES.keys():
        for usage in USAGES[name]:
            for match in usage.pattern.finditer(joined):
                if usage.is_sure or _is_made(match[1].strip("'\"")):
                    starts[joined.count("\0", 0, match.start(1)) - 1 - len(commands)] = match.start(1)
    spans = {
        index: (start - joined.rindex("\0", 0, start) - 1, len(words[index]))
        for index, start in starts.items()
        if index >= 0
    }
    if not is_line and programs.isdisjoint(P_IS_NO_PASSWORD):
        for index, (option, word) in enumerate(pairwise(words), start=1):
            if option == "-p" and (is_tangled(word) or mixes_kinds(word)):
                spans.setdefault(index, (0, len(word)))
    return {
        index: (start, end)
        for index, (start, end) in spans.items()
        if not is_placeholder(words[index][start:].strip("'\""))
    }


_HEADER = lazy_regex(r"(bearer|basic|token|digest|apikey|bot)\s{1,2}([a-z0-9._~+/=-]{8,8192}+)")  # in lower case
# After the header's name any scheme may follow, or none.
_AUTHORIZATION = lazy_regex(
    r"(?i)authorization\\{0,4}[\"']?\]?\s{0,2}[:=,]\s{0,2}\\{0,4}[\"']?"
    r"(?:[A-Za-z][A-Za-z0-9-]{1,24}\s{1,2}|(?![A-Za-z][A-Za-z0-9-]{1,24}\s))(?P<value>[A-Za-z0-9._~+/=:-]{8,8192}+)"
)
_SESSION_NAME = lazy_regex(r"(?i)sid\b|sess|auth|token|jwt|csrf|xsrf|remember|login")
_COOKIE = lazy_regex(r"(?i)\b(set-cookie2?|cookie)\\{0,4}[\"']?\s{0,2}[:=,]\s{0,2}\\{0,4}[\"']?([^\r\n\"'\\]{8,8192}+)")
_COOKIE_OPTION = lazy_regex(
    r"-(?<=\s-)(?:b|-cookie)[\s=]\s{0,3}\\{0,4}(?:[\"'](?P<quoted>[^\r\n\"'\\]{8,8192}+)|(?P<bare>[^\s\"'\\]{8,8192}+))"
)


def find_headers(text: str, lowered: str, telling_words: set[str]) -> Iterator[CredentialSpan]:
    """Yield the credentials of authorization headers and cookies."""
    has_authorization = "auth" in telling_words and "authorization" in lowered
    if has_authorization or "bearer" in lowered or "apikey" in lowered:
        for match in _HEADER.finditer(lowered):
            scheme, value = match.group(1), text[match.start(2) : match.end(2)]
            before = lowered[match.start() - 1 : match.start()]
            if before.isalnum() or before == "=":
                continue
            if scheme != "bearer" and "authorization" not in lowered[max(0, match.start() - 32) : match.start()]:
                continue
            if not is_placeholder(value) and not is_word_or_reference(value):
                yield match.start(2), match.end(2), "basic-auth" if scheme == "basic" else "bearer-auth"
    if has_authorization:
        for match in _AUTHORIZATION.finditer(text):
            value = match["value"]
            if _is_raw(value) and not is_word_or_reference(value):
                yield match.start("value"), match.end("value"), "authorization"
    if "cookie" in telling_words:
        for match in _COOKIE.finditer(text):
            if _has_session_cookie(match.group(2)):
                yield match.start(2), match.end(2), "cookie"
    if " -b" in text or " --cookie" in text:
        for match in _COOKIE_OPTION.finditer(text):
            group = match.lastgroup or "bare"
            if _has_session_cookie(match[group]):
                yield match.start(group), match.end(group), "cookie"


def _has_session_cookie(cookies: str) -> bool:
    """Tell whether a cookie authenticates a session: by its value alone, or by its name and a value that is no word."""
    for pair in cookies.split(";"):
        name, value = (part.strip() for part in pair.partition("=")[::2])
        if looks_random(value) or is_hexadecimal(value):
            return True
        is_no_word = is_tangled(value) or mixes_kinds(value) or is_uuid(value)
        if _SESSION_NAME.search(name) and is_no_word and not is_placeholder(value):
            return True
    return False


_KIND = lazy_regex(r"\bkind\\{0,4}[\"']?:\s{0,4}\\{0,4}[\"']?(?:Sealed)?Secret\b(?!\w)")
_DATA = lazy_regex(r"\b(?:stringData|data)\\{0,4}[\"']?:[ ]{0,4}(?P<brace>\{)?")
# One entry of YAML or JSON, also with escaped line ends; a block's text stands in the lines below its key.
_ENTRY = lazy_regex(
    r"(?P<indent>(?:^|\n|\\n)[ ]{1,16}|[{,]\s{0,40})\\{0,4}[\"']?[A-Za-z0-9._-]{1,128}\\{0,4}[\"']?:[ ]{0,4}"
    r"(?:[|>][+-]?(?:\n|\\n)\s{1,32})?\\{0,4}[\"']?(?P<value>[^\s\"'{}\[\],\\][^\s\"'{},\\]{2,8192}+)"
)
_REACH = 16_384  # characters of a manifest on each side of its kind
_DIVIDER = lazy_regex(r"(?:\n|\\n)---|(?:\n|\\n)[a-zA-Z]")


def find_secret_members(value: Mapping[Any, Any]) -> dict[str, str]:
    """Return the members of a JSON object that its type makes credentials, with their kind: of Secrets, of web keys."""
    if value.get("kind") == "Secret":
        return {"data": "secret", "stringData": "secret"}
    if isinstance(value.get("kty"), str):
        return dict.fromkeys(("d", "p", "q", "dp", "dq", "qi", "k"), "private-key")
    return {}


def find_manifest_secrets(text: str) -> Iterator[CredentialSpan]:
    """Yield the values in the data of Secrets."""
    reach = 0  # what was read for an earlier kind or data is not read again
    for kind in _KIND.finditer(text):
        if kind.start() < reach:
            continue
        start = max(text.rfind("\n---", reach, kind.start()), kind.start() - _REACH, reach)
        end = text.find("\n---", kind.end(), kind.end() + _REACH)
        reach = min(len(text), kind.end() + _REACH) if end < 0 else end
        yield from _find_data(text, start, reach)


def _find_data(text: str, start: int, end: int) -> Iterator[CredentialSpan]:
    """Yield the values of the data between two positions."""
    stop = start
    for data in _DATA.finditer(text, start, end):
        if data.start() < stop:
            continue
        if data["brace"]:
            close = text.find("}", data.end(), end)
            stop = close if close >= 0 else end
            begin = data.end() - 1
        else:
            divider = _DIVIDER.search(text, data.end(), end)
            stop = divider.start() if divider else end
            begin = data.end()
        for entry in _ENTRY.finditer(text, begin, stop):
            if not is_placeholder(entry["value"]):
                yield entry.start("value"), entry.end("value"), "secret"


# The line of a table that names its columns is made of short cells, parted by one of these.
_NAME_CELL = r"[\"'`*]{0,2}[\w.#/-]{1,32}(?: [\w.()#/-]{1,32}){0,2}[\"'`*]{0,2}"
_HEADERS = {
    delimiter: lazy_regex(rf"(?P<lead>[^\n]{{1,120}}?: )?{margin}{_NAME_CELL}(?:{between}{_NAME_CELL}){{1,40}}{end}\Z")
    for delimiter, margin, between, end in (
        ("|", r"[|\s]{0,40}", r"[ ]{0,40}\|[ ]{0,40}", r"[|\s]{0,40}"),
        ("\t", r"\s{0,40}", r"\t{1,8}", r"\s{0,8}"),
        (";", r"[ \t]{0,40}", ";", ";?"),
        (",", r"(?:[ \t]{1,40}(?![^\n]{0,200}, ))?", ", ?", ""),
        ("  ", r"[ \t]{0,40}", "[ ]{2,80}", r"\s{0,40}"),
    )
}
_CELL_MARKS = " \t\"'`*\\"
_AFTER_COLUMN = lazy_regex(
    r"[\w.-]{0,16}[\"'`*\\)]{0,6}(?:[ ]{0,40}[|,;\t\r\n]"
    r"|\s{0,4}[vV](?i:alues)|\s{1,4}(?i:from)\s|\\{1,4}[nt]|[ ]{2}|[ ]{0,4}\Z)"
)
_ONLY_NAMES = lazy_regex(r"[\w .()#/*`\"'|\t,;-]*+\Z")
_LINE_BREAK = lazy_regex(r"\r?\n|\\{1,4}n")
_RULE = lazy_regex(r"[\s|:+=-]{3,}\Z")
_WORD = lazy_regex(r"(?<!\S)\S+")
_BRACKET = lazy_regex(r"[\[\](){}<>]")
_MAX_LINE = 2000  # characters of a line of a table
_MAX_ROWS = 1000
_INSERT = lazy_regex(r"(?i)(?:insert\s{1,4}(?:ignore\s{1,4})?into|copy)\s{1,4}[^\s()]{1,80}\s{0,4}\Z")
_VALUES = lazy_regex(r"(?i)\s{0,8}values\s{0,8}|\s{1,4}from\s{1,4}stdin[^\n]{0,80}\n")
_ROW_END = lazy_regex(r"\)\s{0,4},?\s{0,8}(?=\()|\)|\n\n")


def find_column_secrets(text: str, lowered: str, words: Sequence[re.Match[str]]) -> Iterator[CredentialSpan]:
    """Yield the values of columns named for credentials: of Markdown and terminal tables, CSV and INSERT statements.

    `lowered` is the text in lower case; `words` are the telling words in it.
    """
    reach = 0
    is_insert = "insert" in lowered or "copy" in lowered
    for word in words:
        if word.start() < reach or text[word.start() - 1] in ".$@:=<" or not _AFTER_COLUMN.match(text, word.end()):
            continue
        first = max(reach, word.start() - _MAX_LINE)
        escaped = text.rfind("\\n", first, word.start())
        start = max(first, text.rfind("\n", first, word.start()) + 1, escaped + 2 if escaped >= 0 else 0)
        end, following = _find_line_end(text, word.end())
        reach = end
        if end - start > _MAX_LINE:
            continue
        opening = text.rfind("(", start, word.start()) if is_insert else -1
        if opening >= 0 and _INSERT.search(text, start, opening):
            yield from _find_inserted(text, opening)
            continue
        if not _ONLY_NAMES.match(text, word.end(), end):
            continue
        line = next(filter(None, (header.match(text, start, end) for header in _HEADERS.values())), None)
        if line is None:
            continue
        delimiter = next(mark for mark, header in _HEADERS.items() if header.pattern == line.re.pattern)
        start = max(start, line.end("lead"))
        header = _split_cells(text, start, end, delimiter)
        names = _name_columns(text, header)
        for _ in range(_MAX_ROWS if names else 0):
            row, (end, following) = following, _find_line_end(text, following)
            if row >= len(text) or end - row > _MAX_LINE:
                break
            if _RULE.match(text, row, end):
                continue
            cells = _split_cells(text, row, end, delimiter)
            if len(cells) != len(header) and delimiter == "  ":  # each begins below its column's name
                cells = [_find_word(text, row + cell - start, end) for cell, _ in header]
            if len(cells) != len(header) or (
                delimiter == "  " and any(first == last for first, last in cells[: max(names) + 1])
            ):
                break
            yield from _judge_cells(text, cells, names)
            reach = end


def _name_columns(text: str, header: list[tuple[int, int]]) -> dict[int, str]:
    """Return the names of the columns that hold credentials, by index."""
    names = {index: text[slice(*cell)].strip(_CELL_MARKS) for index, cell in enumerate(header)}
    return {index: name for index, name in names.items() if len(name) < 40 and is_credential_name(name)}


def _find_line_end(text: str, start: int) -> tuple[int, int]:
    """Return where a line ends, and where the next one begins."""
    line_break = _LINE_BREAK.search(text, start, start + _MAX_LINE + 1)
    return line_break.span() if line_break else (min(len(text), start + _MAX_LINE + 1), len(text))


def _find_word(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the word that begins at `start`; an empty one if none does."""
    word = _WORD.match(text, start, end)
    return word.span() if word else (start, start)


def _split_cells(text: str, start: int, end: int, delimiter: str) -> list[tuple[int, int]]:
    """Return where the cells of a line are; a delimiter within quotes parts nothing."""
    cells: list[tuple[int, int]] = []
    position = start
    while position <= end:
        quote = text[position : position + 1]
        close = text.find(quote, position + 1, end) if quote in ("'", '"') and delimiter != "|" else -1
        stop = text.find(delimiter, max(position, close), end)
        stop = end if stop < 0 else stop
        cells.append((position, stop))
        position = stop + len(delimiter)
        while delimiter in ("  ", ",") and text[position : position + 1] == " " and position < end:
            position += 1
    return cells


def _judge_cells(text: str, cells: list[tuple[int, int]], names: dict[int, str]) -> Iterator[CredentialSpan]:
    for index, name in names.items():
        raw = text[slice(*cells[index])] if index < len(cells) else ""
        value = raw.strip(_CELL_MARKS)
        if not _is_no_word(value) or _BRACKET.search(value) or not any(map(str.isdigit, value)):
            continue
        if is_credential(name, value):
            start = cells[index][0] + raw.index(value)
            yield start, start + len(value), "password" if names_password(name) else "secret"


def _find_inserted(text: str, opening: int) -> Iterator[CredentialSpan]:
    """Yield the credentials of an INSERT statement, whose columns' names stand in the parenthesis at `opening`."""
    close = text.find(")", opening, opening + _MAX_LINE)
    values = _VALUES.match(text, close + 1) if close >= 0 else None
    if values is None:
        return
    names = _name_columns(text, _split_cells(text, opening + 1, close, ","))
    position = values.end()
    for _ in range(_MAX_ROWS):
        if text[position - 1] == "\n" and "stdin" in values.group().lower():
            end, following = _find_line_end(text, position)
            yield from _judge_cells(text, _split_cells(text, position, end, "\t"), names)
            position = following
            if end >= len(text) or text.startswith("\\.", position):
                break
            continue
        if text[position : position + 1] != "(":
            break
        row_end = _ROW_END.search(text, position, position + _MAX_LINE)
        if row_end is None:
            break
        yield from _judge_cells(text, _split_cells(text, position + 1, row_end.start(), ","), names)
        position = row_end.end()
