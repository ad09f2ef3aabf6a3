"""Finds credentials by their own form: tokens of providers, private keys, passwords in URLs and password files.

A prefix alone is an ordinary word now and then, so what follows must look random unless its form is narrow enough.
Lengths are lower bounds where a provider has used several: a token that a tool's output truncated is one, too.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from consolidator.llm.patterns import lazy_regex
from consolidator.llm.redaction.values import (
    is_chosen,
    is_invented,
    is_placeholder,
    is_uuid,
    is_varied,
    looks_random,
    mixes_kinds,
)

# An extra condition on a match whose form alone is not enough.
MatchCondition = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class TokenRule:
    """One form of credential."""

    kind: str
    anchors: tuple[str, ...]  # each match begins with one of these; only they are searched for in clean text
    pattern: re.Pattern[str]  # group 1, if there is one, is the part to hide
    condition: MatchCondition | None = None


def has_random_tail(token: str) -> bool:
    """Tell whether what follows a token's prefix looks random, or is too long without a break to be anything else."""
    tail = re.split(r"[-_.~]", token, maxsplit=1)[-1]
    if looks_random(tail):
        return True
    if is_placeholder(token):
        return False
    long_runs = re.findall(r"[A-Za-z0-9]{30,}", tail)  # with a digit, however they repeat
    return (is_varied(token) and has_solid_run(token)) or any(any(map(str.isdigit, run)) for run in long_runs)


def has_solid_run(token: str) -> bool:
    """Tell whether 16 letters and digits follow one another, as in no name that is made of short words."""
    return re.search(r"[A-Za-z0-9]{16}", token) is not None


_CONDITIONS: dict[str, MatchCondition] = {"random": looks_random, "random-tail": has_random_tail}


def read_table(name: str) -> Iterator[str]:
    """Yield the lines of a table beside this module, without comments and empty ones."""
    for line in (Path(__file__).parent / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line


def read_words(name: str) -> tuple[str, ...]:
    """Return a list of words.txt."""
    lines = (line.partition(": ") for line in read_table("words"))
    return tuple(word for list_name, _, words in lines if list_name == name for word in words.split("|"))


def _read_tokens() -> tuple[list[TokenRule], list[tuple[str, int, TokenRule]]]:
    """Return the rules of tokens.txt, which describes its form, and those that a part inside a token tells.

    With each of the latter stand the part and from how many characters before it the rule's pattern is searched.
    """
    patterns: dict[str, str] = {}
    rules: list[TokenRule] = []
    inner: list[tuple[str, int, TokenRule]] = []
    for line in read_table("tokens"):
        if " = " in line:
            name, _, pattern = line.partition(" = ")
            patterns[name] = pattern
            continue
        kind, beginnings, pattern, *condition = line.split("  ")
        anchors = tuple(beginnings.split())
        if pattern.startswith("*"):
            alternatives, tail = "|".join(map(re.escape, anchors)), patterns.get(pattern[1:], pattern[1:])
            rules.append(TokenRule(kind, anchors, lazy_regex(f"(?:{alternatives}){tail}"), has_random_tail))
            continue
        rule = TokenRule(kind, anchors, lazy_regex(pattern), _CONDITIONS[condition[0]] if condition else None)
        if anchors[0] == "inside":
            inner.append((anchors[2], int(anchors[1]), rule))
        else:
            rules.append(rule)
    return rules, inner


TOKEN_RULES, INNER_RULES = _read_tokens()

CredentialSpan = tuple[int, int, str]  # start, end, kind

_DISCORD_TOKEN = lazy_regex(
    r"[MNO](?:(?<![A-Za-z0-9_-].)|(?<=\\[ntr].))[A-Za-z0-9_-]{22,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}"
)
_LONG_CHARS = 43  # characters of the shortest of what is searched for in long words alone
# Providers that nobody listed write tokens in the same way: short words that say what the token is for, then random
# characters. Identifiers have the same look without such a word (toolu_..., chatcmpl-...).
_TELLING_PART = lazy_regex(
    r"[_-](?:live|test|prod|sandbox|sk|[a-z]at|tok|tkn|token|secret|api|apikey|oauth)[_-](?P<tail>[A-Za-z0-9_=-]{16,512}+)"
)
# Or only a service's short name. Hashes have one case, and identifiers are shorter (toolu_... has 24 characters).
_LONG_TAIL = lazy_regex(r"[_-](?P<tail>[A-Za-z0-9]{28,128}+)(?![A-Za-z0-9_./+=-])")
_SERVICE_PREFIX = lazy_regex(r"(?<![A-Za-z0-9_./+%#&-])[A-Za-z][A-Za-z0-9]{1,11}(?:[_-][A-Za-z0-9]{2,11}){0,2}\Z")
_IDENTIFIED = lazy_regex(
    r"(?i)(?:sha\d{1,3}|toolu|call|cmpl|msg|message|req|request|resp|run|thread|asst|file|evt|user|org|id)\Z"
)
_TOKEN_PREFIX = lazy_regex(r"[A-Za-z0-9_-]+\Z")
# Meta's apps: their number and a token.
_APP_TOKEN = lazy_regex(r"[|%](?<=\d{15}[|%])(?:7C)?[A-Za-z0-9_-]{27,40}(?![A-Za-z0-9_-])")
# In a URL only the password is hidden, or a token in place of the user name.
_URL_CREDENTIALS = lazy_regex(
    r"://(?P<user>[^\s:/@\"'`<>\\]{0,512}+)(?::(?P<password>[^\s/@\"'`<>\\]{1,512}+))?@[A-Za-z0-9_.\[$%{-]"
)
# The rest of a password that holds an unencoded "@". In the address of a database no other one follows the host's.
_PASSWORD_REST = lazy_regex(r"[^\s\"'`<>\\]{1,256}@(?=[\w.-])")
_WEB_PASSWORD_REST = lazy_regex(r"[^\s/\"'`<>\\]{1,256}@(?=[\w.-])")
_DATABASE = lazy_regex(
    r"(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|oracle|clickhouse)(?:\+\w{1,16})?\Z"
)
# A URL that was cut before its host: no port has letters. But the tag of an image may have.
_CUT_PASSWORD = lazy_regex(
    r"://(?<!docker...)(?<!image...)(?<!oci...)[^\s:/@\"'`<>\\.]{0,128}+:(?=[^\s\d]{0,64}\d)(?=[^\sA-Za-z]{0,64}[A-Za-z])"
    r"(?P<password>[!#-&(*-+.0-:=?A-Z\[\]^_a-z{|}~-]{6,512}+)(?=[\s…\"'\\]|\Z)"
)
# host:port:database:user:password, as ~/.pgpass has it.
_PGPASS = lazy_regex(
    r"(?m)(?:^|(?<=[\s\"'`]))[A-Za-z0-9_.*-]{1,253}+:(?:\d{2,5}|\*):[A-Za-z0-9_.*-]{1,64}+:[A-Za-z0-9_.*@-]{1,64}+:"
    r"(?P<password>[^\s:\"'`]{6,128}+)(?=$|[\s\"'`])"
)
_PGPASS_HINT = lazy_regex(r":(?:\d{2,5}|\*):[^\s:]{1,64}:[^\s:]{1,64}:[^\s:]")
# A token whose end was cut off: what is left of it may be too short for its form.
_CUT_TOKEN = lazy_regex(r"[a-z][a-z0-9_-]{2,14}[_-](?P<tail>[A-Za-z0-9]{12,64}+)(?:\Z|…|\.{3})")
_MIN_INNER_CHARS = 35  # characters of the shortest token that a part inside tells
_MIN_TAIL_CHARS = 30  # characters of a service's name and a long tail
_MIN_CREDENTIAL_CHARS = 19  # characters of the shortest word with a credential of a known form


@cache
def _compile_search() -> tuple[re.Pattern[str], re.Pattern[str], dict[str, tuple[TokenRule, ...]]]:
    by_anchor: dict[str, list[TokenRule]] = {}
    for rule in TOKEN_RULES:
        for anchor in rule.anchors:
            by_anchor.setdefault(anchor, []).append(rule)
    # The search returns only the longest anchor at a position: its rules include those of the shorter ones.
    for anchor, rules in by_anchor.items():
        for shorter in by_anchor:
            if shorter != anchor and anchor.startswith(shorter):
                rules.extend(rule for rule in by_anchor[shorter] if rule not in rules)
    anchors = write_alternation(by_anchor)
    # A token begins where a word does, or after an escape such as the "\\n" in "\\nAKIA...". To search for what stands
    # before a word takes half the time of a search for the word.
    before = lazy_regex(rf"[^A-Za-z0-9_](?:(?<=\\)[ntr])?{anchors}")
    escaped = lazy_regex(rf"(?:(?<![A-Za-z0-9_])|(?<=\\[ntr])){anchors}")
    return before, escaped, {anchor: tuple(rules) for anchor, rules in by_anchor.items()}


def find_tokens(text: str) -> Iterator[CredentialSpan]:
    """Yield the credentials with a known form; spans may overlap."""
    if "://" in text:
        yield from _find_url_passwords(text)
    words = [word for word in text.split() if len(word) >= _MIN_CREDENTIAL_CHARS]  # most texts need no further search
    if not words:
        return
    yield from _find_private_keys(text)
    joined = "\n".join(words)
    longest = len(max(words, key=len))
    long = [word for word in words if len(word) >= _LONG_CHARS] if longest >= _LONG_CHARS else []
    if any(len(run) >= _KEY_LINE_CHARS for word in long for run in _KEY_RUN.findall(word)):
        yield from _find_key_bodies(text)
    before, pattern, rules = _compile_search()
    if before.search(f"\n{joined}"):
        position = 0
        for word in words:
            position = text.find(word, position)
            for match in pattern.finditer(text, position, position + len(word)):
                yield from _apply_rules(rules[match.group()], text, match.start())
            position += len(word)
    if longest >= _MIN_INNER_CHARS:
        for anchor, reach, rule in INNER_RULES:
            if anchor in joined:
                yield from _find_by_inner_part(text, anchor, reach, rule)
    if _TELLING_PART.search(joined):
        yield from _find_telling_prefixes(text)
    if longest >= _MIN_TAIL_CHARS and _LONG_TAIL.search(joined):
        yield from _find_service_prefixes(text)
    if any(_DISCORD_TOKEN.search(word) for word in long):
        yield from ((match.start(), match.end(), "discord-token") for match in _DISCORD_TOKEN.finditer(text))
    if any(_APP_TOKEN.search(word) for word in long):
        yield from ((match.start() - 15, match.end(), "app-token") for match in _APP_TOKEN.finditer(text))
    if joined.count(":") >= 4 and _PGPASS_HINT.search(joined):
        for match in _PGPASS.finditer(text):
            if is_chosen(match["password"]) or is_invented(match["password"]):
                yield match.start("password"), match.end("password"), "password"


def _apply_rules(rules: tuple[TokenRule, ...], text: str, start: int) -> Iterator[CredentialSpan]:
    for rule in rules:
        match = rule.pattern.match(text, start)
        group = 1 if match is not None and match.re.groups else 0
        if match is not None and (rule.condition is None or rule.condition(match.group(group))):
            yield match.start(group), match.end(group), rule.kind
            return
    cut = _CUT_TOKEN.match(text, start)
    if cut is not None and looks_random(cut["tail"]):
        yield start, cut.end("tail"), rules[0].kind


def _find_by_inner_part(text: str, anchor: str, reach: int, rule: TokenRule) -> Iterator[CredentialSpan]:
    position = text.find(anchor)
    while position >= 0:
        end = position + len(anchor)
        match = rule.pattern.search(text, max(0, position - reach), end + 256)
        group = 1 if rule.pattern.groups else 0
        if match is not None and (rule.condition is None or rule.condition(match.group(group))):
            yield match.start(group), match.end(group), rule.kind
            end = max(end, match.end())
        position = text.find(anchor, end)


def _find_telling_prefixes(text: str) -> Iterator[CredentialSpan]:
    for match in _TELLING_PART.finditer(text):
        tail = match["tail"]
        if not text[match.start() - 1 : match.start()].isalnum():
            continue
        if "_" in match.group()[: -len(tail)]:
            is_token = looks_random(tail) or mixes_kinds(tail)
        else:  # hyphens also join the names of hosts, pods and files
            is_token = has_solid_run(tail) and has_random_tail(f"_{tail}")
        if is_token or is_uuid(tail):
            prefix = _TOKEN_PREFIX.search(text, max(0, match.start() - 24), match.start())
            yield prefix.start() if prefix else match.start(), match.end(), "service-token"


def _find_service_prefixes(text: str) -> Iterator[CredentialSpan]:
    for match in _LONG_TAIL.finditer(text):
        tail = match["tail"]
        if tail.islower() or tail.isupper() or sum(map(str.isdigit, tail)) < 2 or not looks_random(tail):
            continue
        prefix = _SERVICE_PREFIX.search(text, max(0, match.start() - 40), match.start())
        if prefix is not None and not _IDENTIFIED.search(prefix.group()):
            yield prefix.start(), match.end(), "service-token"


def _find_url_passwords(text: str) -> Iterator[CredentialSpan]:
    """Yield the passwords in URLs (postgres://user:password@host), or a token in place of the user name."""
    reach = 0
    for match in _URL_CREDENTIALS.finditer(text):
        if match.start() < reach:
            continue
        user, password = match.group("user"), match.group("password")
        if password is not None:
            is_database = _DATABASE.search(text, max(0, match.start() - 24), match.start()) is not None
            rest = (_PASSWORD_REST if is_database else _WEB_PASSWORD_REST).match(text, match.end("password") + 1)
            start, reach = match.start("password"), rest.end() - 1 if rest else match.end("password")
            if not is_placeholder(text[start:reach].strip("[]()")):
                yield start, reach, "password"
        elif looks_random(user):
            yield match.start("user"), match.end("user"), "token"
    for match in _CUT_PASSWORD.finditer(text):
        if not is_placeholder(match["password"]):
            yield match.start("password"), match.end("password"), "password"


def write_alternation(words: Iterable[str]) -> str:
    """Return an expression for the words in which common beginnings stand once; it matches the longest word."""
    tree: dict[str, Any] = {}
    for word in words:
        branch = tree
        for char in word:
            branch = branch.setdefault(char, {})
        branch[""] = {}
    return _write_branch(tree)


def _write_branch(branch: dict[str, Any]) -> str:
    parts = [re.escape(char) + _write_branch(rest) for char, rest in sorted(branch.items()) if char]
    if not parts:
        return ""
    joined = parts[0] if len(parts) == 1 and "" not in branch else f"(?:{'|'.join(parts)})"
    return f"{joined}?" if "" in branch else joined


_KEY_LIMIT = 65_536  # characters of a private key block
_KEY_MARKER = lazy_regex(r"-----(BEGIN|END)[A-Z0-9 _-]{0,100}PRIVATE KEY(?: BLOCK)?-----")
_KEY_RUN = lazy_regex(r"[A-Za-z0-9+/]++")
_KEY_LINE = lazy_regex(r"[A-Za-z0-9+/=]{24,}")
# Between two lines of a key there may be escapes (\n, \\n), a viewer's line numbers (12→), headers of old formats.
_KEY_GAP = 24  # characters
_KEY_LINE_CHARS = 64
# At least three lines of one of the lengths that keys' lines have; what follows may be shorter.
_KEY_BODY = lazy_regex(
    r"(?<![A-Za-z0-9+/=])(?P<line>[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70})(?![A-Za-z0-9+/=])"
    r"(?:[^A-Za-z0-9+/=]{1,12}n?[^A-Za-z0-9+/=]{0,12}(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70})(?![A-Za-z0-9+/])){2,64}"
    r"(?:[\s\\]{1,8}n?\s{0,8}[A-Za-z0-9+/=]{4,70}(?![A-Za-z0-9+/=]))?"
)
_PUTTY_KEY = lazy_regex(r"Private-Lines:\s{0,4}\d{1,3}")
_PUTTY_LIMIT = 8192  # characters of its private part
_PUTTY_MAC = lazy_regex(r"Private-(?:MAC|Hash):\s{0,4}([0-9a-fA-F]{32,128})")
_WEB_KEY = lazy_regex(r"[\"']kty\\{0,4}[\"']\s{0,4}:\s{0,4}\\{0,4}[\"'](?:RSA|EC|OKP|oct)\\{0,4}[\"']")
_WEB_KEY_MEMBER = lazy_regex(
    r"[\"'](?:d|p|q|dp|dq|qi|k)\\{0,4}[\"']\s{0,4}:\s{0,4}\\{0,4}[\"']([A-Za-z0-9_=-]{16,2048}+)"
)
_WEB_KEY_REACH = 4096  # characters of a key object on each side of its type
_ENCODED_STARTS = read_words("encoded")
_ENCODED_MARKER = lazy_regex(
    rf"(?<![A-Za-z0-9+/]){write_alternation(_ENCODED_STARTS)}[A-Za-z0-9+/\s\\]{{20,}}+={{0,2}}"
)
_ENCODED_SIGNS = (b"PRIVATE KEY", b"openssh-key-v1", b'"service_account"', b'{"auths":')
_ENCODED_LINE = lazy_regex(r"[A-Za-z0-9+/]{4,}")
_DECODED_CHARS = 120  # characters of base64 that hold the first line of a key


def _find_private_keys(text: str) -> Iterator[CredentialSpan]:
    """Yield private keys in any of their notations."""
    if "PRIVATE KEY" in text:
        yield from _find_pem_blocks(text)
    if "Private-Lines" in text:
        yield from _find_putty_keys(text)
    if "kty" in text:
        yield from _find_web_keys(text)
    if any(map(text.__contains__, _ENCODED_STARTS)):
        yield from _find_encoded_keys(text)


def _find_pem_blocks(text: str) -> Iterator[CredentialSpan]:
    """Yield private key blocks: complete, with escaped line ends, or truncated at either end."""
    markers = list(_KEY_MARKER.finditer(text))
    consumed = 0
    for number, marker in enumerate(markers):
        if marker.group(1) == "END":
            if marker.start() >= consumed:  # its beginning was truncated
                lines = list(_KEY_LINE.finditer(text, max(consumed, marker.start() - _KEY_LIMIT // 8), marker.start()))
                if lines and marker.start() - lines[-1].end() <= _KEY_GAP:
                    yield _take_adjacent(list(reversed(lines)))[-1].start(), marker.end(), "private-key"
            consumed = marker.end()
            continue
        following = markers[number + 1] if number + 1 < len(markers) else None
        stop = min(following.start() if following else len(text), marker.end() + _KEY_LIMIT)
        lines = list(_KEY_LINE.finditer(text, marker.end(), stop))
        if lines and lines[0].start() - marker.end() <= 16 * _KEY_GAP:
            last = _take_adjacent(lines)[-1].end()
            is_complete = following is not None and following.group(1) == "END" and stop - last <= 4 * _KEY_GAP
            consumed = following.end() if is_complete and following else last
            yield marker.start(), consumed, "private-key"


def _find_key_bodies(text: str) -> Iterator[CredentialSpan]:
    """Yield lines of a key of which neither the beginning nor the end is in the text."""
    for block in _KEY_BODY.finditer(text):
        line = block.group("line")
        markers = text[max(0, block.start() - _KEY_LIMIT // 8) : block.start()].rpartition("-----BEGIN ")[1:]
        after = text[block.end() : block.end() + 4 * _KEY_GAP]
        is_public = "-----BEGIN " in markers and "-----END " not in markers[1] and "PRIVATE KEY" not in markers[1][:60]
        if not is_public and looks_random(line) and ("-----END " not in after or "PRIV" in after):
            yield block.start("line"), block.end(), "private-key"


def _find_putty_keys(text: str) -> Iterator[CredentialSpan]:
    for marker in _PUTTY_KEY.finditer(text):
        if _KEY_LINE.search(text, marker.end(), marker.end() + 3 * _KEY_GAP):
            lines = list(_KEY_LINE.finditer(text, marker.end(), marker.end() + _PUTTY_LIMIT))
            yield lines[0].start(), _take_adjacent(lines)[-1].end(), "private-key"
    for check in _PUTTY_MAC.finditer(text):
        yield check.start(1), check.end(1), "private-key"


def _find_web_keys(text: str) -> Iterator[CredentialSpan]:
    reach = 0
    for kind in _WEB_KEY.finditer(text):
        start = max(reach, text.rfind("{", max(0, kind.start() - _WEB_KEY_REACH), kind.start()))
        end = text.find("}", kind.end(), kind.end() + _WEB_KEY_REACH)
        reach = kind.end() + _WEB_KEY_REACH if end < 0 else end
        for member in _WEB_KEY_MEMBER.finditer(text, start, reach):
            yield member.start(1), member.end(1), "private-key"


def _find_encoded_keys(text: str) -> Iterator[CredentialSpan]:
    """Yield base64 of private keys and of JSON with one, also wrapped; not of certificates, which begins alike."""
    for match in _ENCODED_MARKER.finditer(text):
        words = list(_ENCODED_LINE.finditer(text, match.start(), match.end()))
        adjacent = _take_adjacent([word for word in words if len(word.group()) >= 12] or words[:1])
        head = re.sub(r"[^A-Za-z0-9+/]", "", text[match.start() : match.start() + _DECODED_CHARS])
        try:
            decoded = base64.b64decode(head[: len(head) // 4 * 4])
        except binascii.Error:
            continue
        if any(map(decoded.__contains__, _ENCODED_SIGNS)):
            end = adjacent[-1].end()
            yield match.start(), end + len(re.match("={0,2}", text[end : end + 2]).group()), "private-key"  # type: ignore[union-attr]


def _take_adjacent(lines: list[re.Match[str]]) -> list[re.Match[str]]:
    """Return the first lines that are close to one another, in text order or reversed."""
    for index, (line, other) in enumerate(pairwise(lines)):
        if max(other.start() - line.end(), line.start() - other.end()) > _KEY_GAP:
            return lines[: index + 1]
    return lines
