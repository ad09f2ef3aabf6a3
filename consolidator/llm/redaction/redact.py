"""Hides credentials, as [redacted:kind], before a model, memory or an export sees a text.

Redaction is idempotent and logs nothing of what it hides. Short texts are cached, and the latest long
ones, in this process only.
"""

from __future__ import annotations

import logging
import re
import traceback
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from consolidator.llm.redaction.forms import CredentialSpan, find_tokens
from consolidator.llm.redaction.names import (
    find_assignments,
    find_prose_secrets,
    find_telling_words,
    is_credential,
    is_credential_name,
    lower_same_length,
)
from consolidator.llm.redaction.places import (
    COMMAND_KEYS,
    find_argument_passwords,
    find_column_secrets,
    find_command_passwords,
    find_headers,
    find_manifest_secrets,
    find_places,
    find_program,
    find_secret_members,
)

_MARKER = re.compile(r"(\[redacted:[a-z-]+\])")
_MAX_ROUNDS = 8  # hiding one value can expose the edge of another; real texts need fewer rounds
_MIN_CHARS = 10  # characters of a name with its credential
_MIN_TOKEN_CHARS = 16  # characters of what is told by its form, or by a command or header around it
_MAX_DEPTH = 64  # levels of nested JSON
_MAX_CACHED_CHARS = 200  # characters of a text that is cached
_MAX_REMEMBERED_CHARS = 256 * 1024  # of one that is remembered until the next ones come
_HEADERS = ("cookie", "cookies", "set-cookie", "authorization", "proxy-authorization")

# What hides a credential's name from a reader of characters, but not from a person, a shell or a decoder: invisible and
# full-width characters, continued lines, escaped and percent-encoded quotes, colours.
_INVISIBLE = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
_UNUSUAL = re.compile(f"[{_INVISIBLE}\uff01-\uff5e\u3000]")
# It begins with a set of characters, which is several times faster to search for than alternatives are.
_DISGUISE = re.compile(
    rf"""[{_INVISIBLE}\uff01-\uff5e\u3000\x1b\\`^%&<](?:
         (?<=[{_INVISIBLE}])
        |(?P<wide>(?<=[\uff01-\uff5e\u3000]))
        |(?<=\x1b)\[[0-9;]{{0,16}}m
        |(?:(?<=\\)|(?<=\s[`^]))\r?\n(?P<indent>[ \t]{{0,64}}+)
        |(?<=\\)\\{{2,7}}[rn](?:\\{{1,8}}n)?(?P<escaped_indent>[ ]{{0,64}}+)
        |(?:(?<=%)(?:25){{0,3}}|(?<=\\)\\{{0,3}}(?:u00|x))(?P<hex>[2-7][0-9A-Fa-f])\+?
        |(?<=<)(?:(?P<row>/tr)|(?P<cell>/t[hd])|/?(?:t[rhd]|thead|tbody|code|b|strong|p))\b[^<>\n]{{0,200}}+>\s{{0,40}}+
        |(?<=&)(?:\#(?P<number>3[4-9]|58|61)|\#x(?P<entity>2[27]|3[aAdD])|(?P<quote>quot)|(?P<apostrophe>apos));)""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"%(?:2[257]|3[AD])|&(?:quot;|\#)|\\(?:u00|x2|\\{2,7}n|\r)|\^\r?\n|`(?<=\s`)\r?\n|\x1b\[|<th\b|<th>"
)
_AROUND = 400  # characters that are read on each side of a disguise


def redact(text: str, *, in_command: bool = False) -> str:
    """Return `text` with every credential in it replaced by `[redacted:kind]`.

    In a command that was run, more is one: there a word after an option or a variable for passwords is no description.
    """
    if len(text) <= _MAX_CACHED_CHARS:
        return _redact_cached(text, in_command)
    is_short = len(text) <= _MAX_REMEMBERED_CHARS
    return _redact_again(text, in_command) if is_short else _redact_text(text, in_command)


def _redact_text(text: str, in_command: bool) -> str:
    if "[redacted:" not in text:
        return _redact_until_stable(text, in_command)
    pieces = _MARKER.split(text)
    pieces[::2] = [_redact_until_stable(piece, in_command) for piece in pieces[::2]]
    return "".join(pieces)


_redact_cached = lru_cache(maxsize=32_768)(_redact_text)  # of short texts: names, paths and words are repeated
_redact_again = lru_cache(maxsize=16)(_redact_text)  # of others, the latest: several readers redact the same text


def redact_json(value: Any) -> Any:
    """Return a JSON value with the credentials in its strings and under credential keys replaced."""
    return _redact_value(value, "", 0)


def format_redacted_traceback(error: BaseException) -> str:
    """Return an error's traceback, redacted, for a log."""
    return redact("".join(traceback.format_exception(error)))


def redact_record(record: logging.LogRecord) -> bool:
    """Redact a record before a handler writes it: an error may quote what it is about, and other packages log, too."""
    try:
        message = record.getMessage()
    except (TypeError, ValueError, LookupError):  # its arguments do not fit: a filter's error would be the caller's
        message = str(record.msg)
    record.msg, record.args = redact(message), None
    if record.exc_info and record.exc_info[1] is not None:
        record.exc_text = format_redacted_traceback(record.exc_info[1]).rstrip()
    return True


def find_credentials(text: str, *, as_written: bool = False, in_command: bool = False) -> list[CredentialSpan]:
    """Return the credentials of a text as (start, end, kind), in order, not overlapping.

    With `as_written`, nothing that disguises a credential is undone before.
    """
    if len(text) < _MIN_CHARS:
        return []
    lowered = lower_same_length(text)
    words, telling_words = find_telling_words(text, lowered)
    spans: list[CredentialSpan] = []
    if len(text) >= _MIN_TOKEN_CHARS:
        spans += find_tokens(text)
        if "Secret" in text and "kind" in text:
            spans += find_manifest_secrets(text)
        if telling_words or "bearer" in lowered:
            spans += find_headers(text, lowered, telling_words)
    if len(text) >= _MIN_TOKEN_CHARS or in_command:
        spans += find_command_passwords(text, telling_words, in_command=in_command)
    if words:
        spans += find_assignments(text, lowered, words, in_command=in_command)
        spans += find_prose_secrets(text, lowered, words)
        spans += find_column_secrets(text, lowered, words)
    if telling_words or "=" in text or " / " in text:
        spans += find_places(text, lowered, telling_words)
    if not as_written and (
        "\\\n" in text or (words and _ESCAPE.search(text)) or (not text.isascii() and _UNUSUAL.search(text))
    ):
        for part in _undisguise(text):
            spans += map(part.locate, find_credentials(part.text, as_written=True, in_command=in_command))
    return _merge_spans(spans) if spans else spans


def _redact_until_stable(text: str, in_command: bool) -> str:
    """Redact a text without markers, then the pieces between the new markers, until nothing more is found."""
    if not find_credentials(text, in_command=in_command):  # nearly every text
        return text
    for _ in range(_MAX_ROUNDS):
        pieces = _MARKER.split(text)
        has_changed = False
        for index in range(0, len(pieces), 2):
            spans = find_credentials(pieces[index], in_command=in_command)
            if spans:
                pieces[index] = _replace_spans(pieces[index], spans)
                has_changed = True
        text = "".join(pieces)
        if not has_changed:
            break
    return text


def _merge_spans(spans: list[CredentialSpan]) -> list[CredentialSpan]:
    """Join overlapping spans; the kind is that of the span that begins first, or was found first."""
    merged: list[CredentialSpan] = []
    for start, end, kind in sorted(spans, key=lambda span: span[0]):
        if merged and start < merged[-1][1]:
            first_start, first_end, first_kind = merged[-1]
            merged[-1] = (first_start, max(first_end, end), first_kind)
        elif end > start:
            merged.append((start, end, kind))
    return merged


def _replace_spans(text: str, spans: list[CredentialSpan]) -> str:
    parts: list[str] = []
    position = 0
    for start, end, kind in spans:
        parts += (text[position:start], f"[redacted:{kind}]")
        position = end
    parts.append(text[position:])
    return "".join(parts)


def _redact_value(value: Any, name: str, depth: int, program: str = "", in_command: bool = False) -> Any:
    """Redact a value; `name` is its credential name or "", `program` the one that a list of arguments is for."""
    if depth > _MAX_DEPTH:
        return "[too deep to read]"
    if isinstance(value, str):
        if name.lower() in _HEADERS:
            return _redact_header(name, value)
        if name and is_credential(name, value, env=name.startswith("-"), in_command=in_command):
            return "[redacted:secret]"
        return redact(value, in_command=in_command)
    if isinstance(value, int) and "pass" in name.lower() and is_credential(name, str(value)):
        return "[redacted:secret]"
    if isinstance(value, dict):
        return _redact_dict(value, name, depth)
    if isinstance(value, list):
        return _redact_list(value, name, depth, program, in_command)
    return value


def _redact_header(name: str, value: str) -> str:
    """Redact a header's value as in a text, after its name."""
    header = f"{'cookie' if name.lower() == 'cookies' else name}: "
    return redact(header + value).removeprefix(header)


def _redact_dict(value: dict[Any, Any], name: str, depth: int) -> dict[Any, Any]:
    # Kubernetes, compose files and APIs write {"name": "API_TOKEN", "value": "..."}.
    named = value.get("name", value.get("key"))
    value_name = named if isinstance(named, str) and "value" in value and _is_sensitive_name(named) else ""
    cookies = name.lower() in ("cookie", "cookies")
    program = find_program(value)
    secret_members = find_secret_members(value)
    redacted = {}
    for key, item in value.items():
        text = str(key)
        if text in secret_members:
            redacted[key] = _hide_strings(item, secret_members[text])
            continue
        redacted_key = redact(key) if isinstance(key, str) else key
        if cookies and isinstance(item, str):
            pair = f"{text}={item}"
            redacted[redacted_key] = item if _redact_header("cookie", pair) == pair else "[redacted:cookie]"
            continue
        item_name = text if _is_sensitive_name(text) else value_name if text == "value" else ""
        redacted[redacted_key] = _redact_value(item, item_name, depth + 1, program, text in COMMAND_KEYS)
    return redacted


def _hide_strings(value: Any, kind: str) -> Any:
    """Hide a string, or the strings that an object's members are."""
    if isinstance(value, dict):
        return {
            redact(key) if isinstance(key, str) else key: f"[redacted:{kind}]"
            if isinstance(item, str) and item
            else item
            for key, item in value.items()
        }
    return f"[redacted:{kind}]" if isinstance(value, str) and value else value


def _is_sensitive_name(name: str) -> bool:
    return name.lower() in _HEADERS or is_credential_name(name)


def _redact_list(value: list[Any], name: str, depth: int, program: str, in_command: bool) -> list[Any]:
    passwords = find_argument_passwords(program, value)
    is_pair = len(value) == 2  # as in ["Cookie", "sid=..."]
    redacted: list[Any] = []
    previous = ""
    for index, item in enumerate(value):
        is_named = (previous.startswith("-") and is_credential_name(previous)) or (
            is_pair and previous.lower() in _HEADERS
        )
        item_name = previous if is_named else name
        if index in passwords:
            start, end = passwords[index]
            redacted.append(f"{item[:start]}[redacted:password]{item[end:]}")
        else:
            redacted.append(_redact_value(item, item_name, depth + 1, in_command=in_command))
        previous = item if isinstance(item, str) else ""
    return redacted


def _undisguise(text: str) -> Iterator[_UndisguisedPart]:
    """Yield the parts of a text that hold a disguise, with what is around it."""
    group: list[re.Match[str]] = []
    for match in _DISGUISE.finditer(text):
        if group and match.start() - group[-1].end() > 2 * _AROUND:
            yield _UndisguisedPart(text, group)
            group = []
        group.append(match)
    if group:
        yield _UndisguisedPart(text, group)


class _UndisguisedPart:
    """A part of a text as its reader understands it, and where each piece of it stands in the original."""

    def __init__(self, original: str, disguises: list[re.Match[str]]) -> None:
        position = max(0, disguises[0].start() - _AROUND)
        position = max(position, original.rfind("\n", position, disguises[0].start()) + 1)
        parts: list[str] = []
        size = 0
        self._starts, self._shifts = [0], [position]  # from each position on, the original is so far ahead
        for match in disguises:
            plain = _read_disguise(match)
            parts += (original[position : match.start()], plain)
            size += match.start() - position + len(plain)
            position = match.end()
            self._starts.append(size)
            self._shifts.append(position - size)
        parts.append(original[position : position + _AROUND])
        self.text = "".join(parts)

    def locate(self, span: CredentialSpan) -> CredentialSpan:
        """Return where a span of this part is in the original."""
        start, end, kind = span
        return self._find_original(start), self._find_original(end), kind

    def _find_original(self, position: int) -> int:
        return position + self._shifts[bisect_right(self._starts, position) - 1]


def _read_disguise(match: re.Match[str]) -> str:
    if match["wide"] is not None:
        return " " if match.group() == "\u3000" else chr(ord(match.group()) - 0xFEE0)
    if match["indent"] or match["escaped_indent"]:
        return " "
    if match["row"] or match["cell"]:
        return "\n" if match["row"] else "|"
    if match["quote"] or match["apostrophe"]:
        return '"' if match["quote"] else "'"
    number = match["hex"] or match["entity"]
    return chr(int(number, 16)) if number else chr(int(match["number"])) if match["number"] else ""
