"""Hides credentials, as [redacted:kind], before a model, memory or an export sees a text.

Redaction is idempotent and logs nothing of what it hides. Short texts are cached in this process only.
"""

from __future__ import annotations

import re
import traceback
from functools import lru_cache
from typing import Any

from consolidator.llm.redaction.forms import CredentialSpan, find_private_keys, find_tokens
from consolidator.llm.redaction.names import (
    find_assignments,
    find_parameters,
    find_prose_secrets,
    find_telling_words,
    is_credential,
    is_credential_name,
    lower_same_length,
)
from consolidator.llm.redaction.places import (
    find_argument_passwords,
    find_command_passwords,
    find_headers,
    find_manifest_secrets,
    find_program,
    find_secret_members,
)

_MARKER = re.compile(r"(\[redacted:[a-z-]+\])")
_MAX_ROUNDS = 8  # hiding one value can expose the edge of another; real texts need fewer rounds
_MIN_CHARS = 10  # characters of a name with its credential
_MIN_TOKEN_CHARS = 16  # characters of what is told by its form, or by a command or header around it
_MAX_DEPTH = 64  # levels of nested JSON
_MAX_CACHED_CHARS = 200  # characters of a text that is cached
_HEADERS = ("cookie", "cookies", "set-cookie", "authorization", "proxy-authorization")


def redact(text: str) -> str:
    """Return `text` with every credential in it replaced by `[redacted:kind]`."""
    return _redact_cached(text) if len(text) <= _MAX_CACHED_CHARS else _redact_text(text)


@lru_cache(maxsize=32_768)
def _redact_cached(text: str) -> str:
    """Redact a short text: names, paths and words are repeated from call to call."""
    return _redact_text(text)


def _redact_text(text: str) -> str:
    pieces = _MARKER.split(text) if "[redacted:" in text else [text]
    pieces[::2] = [_redact_until_stable(piece) for piece in pieces[::2]]
    return "".join(pieces)


def redact_json(value: Any) -> Any:
    """Return a JSON value with the credentials in its strings and under credential keys replaced."""
    return _redact_value(value, "", 0)


def format_redacted_traceback(error: BaseException) -> str:
    """Return an error's traceback, redacted, for a log."""
    return redact("".join(traceback.format_exception(error)))


def find_credentials(text: str) -> list[CredentialSpan]:
    """Return the credentials of a text as (start, end, kind), in order, not overlapping."""
    if len(text) < _MIN_CHARS:
        return []
    lowered = lower_same_length(text)
    words = find_telling_words(text, lowered)
    spans: list[CredentialSpan] = []
    if len(text) >= _MIN_TOKEN_CHARS:
        spans += [*find_private_keys(text), *find_tokens(text), *find_manifest_secrets(text)]
        spans += [*find_headers(text, lowered), *find_command_passwords(text, lowered)]
    if words:
        spans += [*find_assignments(text, lowered, words), *find_prose_secrets(text, lowered, words)]
    if "=" in text:
        spans += find_parameters(text)
    return _merge_spans(spans) if spans else spans


def _redact_until_stable(text: str) -> str:
    """Redact a text without markers, then the pieces between the new markers, until nothing more is found."""
    if not find_credentials(text):  # nearly every text
        return text
    for _ in range(_MAX_ROUNDS):
        pieces = _MARKER.split(text)
        has_changed = False
        for index in range(0, len(pieces), 2):
            spans = find_credentials(pieces[index])
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


def _redact_value(value: Any, name: str, depth: int, program: str = "") -> Any:
    """Redact a value; `name` is its credential name or "", `program` the one that a list of arguments is for."""
    if depth > _MAX_DEPTH:
        return "[too deep to read]"
    if isinstance(value, str):
        if name.lower() in _HEADERS:
            return _redact_header(name, value)
        if name and is_credential(name, value):
            return "[redacted:secret]"
        return redact(value)
    if isinstance(value, int) and "pass" in name.lower() and is_credential(name, str(value)):
        return "[redacted:secret]"
    if isinstance(value, dict):
        return _redact_dict(value, name, depth)
    if isinstance(value, list):
        return _redact_list(value, name, depth, program)
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
        redacted[redacted_key] = _redact_value(item, item_name, depth + 1, program)
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


def _redact_list(value: list[Any], name: str, depth: int, program: str) -> list[Any]:
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
            redacted.append(_redact_value(item, item_name, depth + 1))
        previous = item if isinstance(item, str) else ""
    return redacted
