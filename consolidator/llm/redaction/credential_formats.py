"""Finds credentials by their own form: tokens of providers, passwords in URLs, entries of password files.

`provider_tokens` lists the forms. The name of a value does not matter here: `assignments` reads names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from consolidator.llm.redaction.alternation import write_alternation
from consolidator.llm.redaction.provider_tokens import (
    INNER_RULES,
    TOKEN_RULES,
    TokenRule,
    has_random_tail,
    has_solid_run,
)
from consolidator.llm.redaction.value_shapes import is_placeholder, is_uuid, looks_random, mixes_kinds

CredentialSpan = tuple[int, int, str]  # start, end, kind

_DISCORD_TOKEN = re.compile(
    r"(?:(?<![A-Za-z0-9_-])|(?<=\\[ntr]))[MNO][A-Za-z0-9_-]{22,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}"
)
_DISCORD_CHARS = 57
# Providers that nobody listed write tokens in the same way: short words that say what the token is for, then random
# characters. Identifiers have the same look without such a word (toolu_..., chatcmpl-...).
_TELLING_PART = re.compile(
    r"[_-](?:live|test|prod|sandbox|sk|[a-z]at|tok|tkn|token|secret|api|apikey|oauth)[_-](?P<tail>[A-Za-z0-9_=-]{16,512}+)"
)
# Or only a service's short name. Hashes have one case, and identifiers are shorter (toolu_... has 24 characters).
_LONG_TAIL = re.compile(r"[_-](?P<tail>[A-Za-z0-9]{28,128}+)(?![A-Za-z0-9_./+=-])")
_SERVICE_PREFIX = re.compile(r"(?<![A-Za-z0-9_./+%#&-])[A-Za-z][A-Za-z0-9]{1,11}(?:[_-][A-Za-z0-9]{2,11}){0,2}\Z")
_IDENTIFIED = re.compile(
    r"(?i)(?:sha\d{1,3}|toolu|call|cmpl|msg|message|req|request|resp|run|thread|asst|file|evt|user|org|id)\Z"
)
_TOKEN_PREFIX = re.compile(r"[A-Za-z0-9_-]+\Z")
# Meta's apps: their number and a token.
_APP_TOKEN = re.compile(r"[|%](?<=\d{15}[|%])(?:7C)?[A-Za-z0-9_-]{27,40}(?![A-Za-z0-9_-])")
# In a URL only the password is hidden, or a token in place of the user name.
_URL_CREDENTIALS = re.compile(
    r"://(?P<user>[^\s:/@\"'`<>\\]{0,512}+)(?::(?P<password>[^\s/@\"'`<>\\]{1,512}+))?@[A-Za-z0-9_.\[$%{-]"
)
# host:port:database:user:password, as ~/.pgpass has it.
_PGPASS = re.compile(
    r"(?m)(?:^|(?<=[\s\"'`]))[A-Za-z0-9_.*-]{1,253}+:(?:\d{2,5}|\*):[A-Za-z0-9_.*-]{1,64}+:[A-Za-z0-9_.*@-]{1,64}+:"
    r"(?P<password>[^\s:\"'`]{6,128}+)(?=$|[\s\"'`])"
)
_PGPASS_HINT = re.compile(r":(?:\d{2,5}|\*):[^\s:]{1,64}:[^\s:]{1,64}:[^\s:]")
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
    # A token begins where a word does, or after an escape such as the "\\n" in "\\nAKIA...".
    plain = re.compile(rf"(?<![A-Za-z0-9_]){anchors}")
    escaped = re.compile(rf"(?:(?<![A-Za-z0-9_])|(?<=\\[ntr])){anchors}")
    return plain, escaped, {anchor: tuple(rules) for anchor, rules in by_anchor.items()}


def find_tokens(text: str) -> Iterator[CredentialSpan]:
    """Yield the credentials with a known form; spans may overlap."""
    if "://" in text and "@" in text:
        yield from _find_url_passwords(text)
    words = [word for word in text.split() if len(word) >= _MIN_CREDENTIAL_CHARS]  # most texts need no further search
    if not words:
        return
    joined = "\n".join(words)
    plain, escaped, rules = _compile_search()
    pattern = escaped if "\\" in joined else plain
    if pattern.search(joined):
        position = 0
        for word in words:
            position = text.find(word, position)
            for match in pattern.finditer(text, position, position + len(word)):
                yield from _apply_rules(rules[match.group()], text, match.start())
            position += len(word)
    for anchor, reach, rule in INNER_RULES:
        if anchor in joined:
            yield from _find_by_inner_part(text, anchor, reach, rule)
    if _TELLING_PART.search(joined):
        yield from _find_telling_prefixes(text)
    if _LONG_TAIL.search(joined):
        yield from _find_service_prefixes(text)
    if len(joined) >= _DISCORD_CHARS and "." in joined and len(max(words, key=len)) >= _DISCORD_CHARS:
        yield from ((match.start(), match.end(), "discord-token") for match in _DISCORD_TOKEN.finditer(text))
    if "|" in joined or "%" in joined:
        yield from ((match.start() - 15, match.end(), "app-token") for match in _APP_TOKEN.finditer(text))
    if joined.count(":") >= 4 and _PGPASS_HINT.search(joined):
        yield from _find_password_entries(text)


def _apply_rules(rules: tuple[TokenRule, ...], text: str, start: int) -> Iterator[CredentialSpan]:
    for rule in rules:
        match = rule.pattern.match(text, start)
        group = 1 if match is not None and match.re.groups else 0
        if match is not None and (rule.condition is None or rule.condition(match.group(group))):
            yield match.start(group), match.end(group), rule.kind
            return


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
    for match in _URL_CREDENTIALS.finditer(text):
        user, password = match.group("user"), match.group("password")
        if password is not None and not is_placeholder(password.strip("[]()")):
            yield match.start("password"), match.end("password"), "password"
        elif password is None and looks_random(user):
            yield match.start("user"), match.end("user"), "token"


def _find_password_entries(text: str) -> Iterator[CredentialSpan]:
    for match in _PGPASS.finditer(text):
        if not is_placeholder(match["password"]) and (
            mixes_kinds(match["password"]) or looks_random(match["password"])
        ):
            yield match.start("password"), match.end("password"), "password"
