"""Hides credentials, as [redacted:kind], before a model, memory or an export sees a text.

Nothing here logs what it hides, and short texts are remembered in memory alone. Redacting twice gives the same as
redacting once.
"""

from __future__ import annotations

import re
import traceback
from functools import lru_cache
from typing import Any

from consolidator.llm.redaction.assignments import find_assignments, find_headers, is_credential, is_telling
from consolidator.llm.redaction.command_passwords import argument_passwords, find_command_passwords, program_of
from consolidator.llm.redaction.credential_formats import Span, find_private_keys, find_tokens
from consolidator.llm.redaction.prose_secrets import find_told

_MARK = re.compile(r"(\[redacted:[a-z-]+\])")
_ROUNDS = 8  # hiding one value can bare another's edge; more rounds than this no honest text needs
_SHORTEST = 10  # characters in which a name and its credential can be said
_DEPTH = 64  # of nested JSON
_SHORT = 200  # characters of a text that is worth remembering
_HEADERS = ("cookie", "cookies", "set-cookie", "authorization", "proxy-authorization")


def redact(text: str) -> str:
    """Return `text` with every credential in it replaced by `[redacted:kind]`."""
    return _remembered(text) if len(text) <= _SHORT else _redacted(text)


@lru_cache(maxsize=32_768)
def _remembered(text: str) -> str:
    """Redact a short text: the same names, paths and words come again in call after call."""
    return _redacted(text)


def _redacted(text: str) -> str:
    pieces = _MARK.split(text) if "[redacted:" in text else [text]
    pieces[::2] = [_settled(piece) for piece in pieces[::2]]
    return "".join(pieces)


def redact_json(value: Any) -> Any:
    """Return a JSON value with the credentials in its strings, and beside its telling keys, replaced."""
    return _redact_value(value, "", 0)


def traced(error: BaseException) -> str:
    """Return an error's traceback without the credentials in it, for a log."""
    return redact("".join(traceback.format_exception(error)))


def find(text: str) -> list[Span]:
    """Return where the credentials of a text are: (start, end, kind), in order, not overlapping."""
    if len(text) < _SHORTEST:
        return []
    lowered = text.replace("İ", "I").lower()  # the one letter that grows when lower-cased: positions must not move
    spans = [
        *find_private_keys(text),
        *find_tokens(text),
        *find_headers(text, lowered),
        *find_assignments(text, lowered),
        *find_command_passwords(text, lowered),
        *find_told(text, lowered),
    ]
    return _merged(spans)


def _settled(text: str) -> str:
    """Redact a piece without marks, and then what is left between the marks, until nothing is found."""
    for _ in range(_ROUNDS):
        pieces = _MARK.split(text)
        found = False
        for index in range(0, len(pieces), 2):
            spans = find(pieces[index])
            if spans:
                pieces[index] = _replaced(pieces[index], spans)
                found = True
        text = "".join(pieces)
        if not found:
            break
    return text


def _merged(spans: list[Span]) -> list[Span]:
    """Join overlapping spans; the one that begins first, and of those the first found, names the kind."""
    merged: list[Span] = []
    for start, end, kind in sorted(spans, key=lambda span: span[0]):
        if merged and start < merged[-1][1]:
            first, reach, known = merged[-1]
            merged[-1] = (first, max(reach, end), known)
        elif end > start:
            merged.append((start, end, kind))
    return merged


def _replaced(text: str, spans: list[Span]) -> str:
    parts: list[str] = []
    position = 0
    for start, end, kind in spans:
        parts += (text[position:start], f"[redacted:{kind}]")
        position = end
    parts.append(text[position:])
    return "".join(parts)


def _redact_value(value: Any, name: str, depth: int, program: str = "") -> Any:
    """Redact a value; `name` is the telling name it goes by, `program` what a list of arguments is for."""
    if depth > _DEPTH:
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
    """Redact a header's value as it is in a text, where its name stands before it."""
    before = f"{'cookie' if name.lower() == 'cookies' else name}: "
    return redact(before + value).removeprefix(before)


def _redact_dict(value: dict[Any, Any], name: str, depth: int) -> dict[Any, Any]:
    # Kubernetes, compose files and APIs say {"name": "API_TOKEN", "value": "..."}.
    named = value.get("name", value.get("key"))
    told = named if isinstance(named, str) and "value" in value and _tells(named) else ""
    cookies = name.lower() in ("cookie", "cookies")
    program = program_of(value)
    out = {}
    for key, item in value.items():
        text = str(key)
        hidden_key = redact(key) if isinstance(key, str) else key
        if cookies and isinstance(item, str):
            pair = f"{text}={item}"
            out[hidden_key] = item if _redact_header("cookie", pair) == pair else "[redacted:cookie]"
            continue
        own = text if _tells(text) else told if text == "value" else ""
        out[hidden_key] = _redact_value(item, own, depth + 1, program)
    return out


def _tells(name: str) -> bool:
    return name.lower() in _HEADERS or is_telling(name)


def _redact_list(value: list[Any], name: str, depth: int, program: str) -> list[Any]:
    passwords = argument_passwords(program, value)
    pair = len(value) == 2  # as in ["Cookie", "sid=..."]
    out: list[Any] = []
    before = ""
    for index, item in enumerate(value):
        telling = (before.startswith("-") and is_telling(before)) or (pair and before.lower() in _HEADERS)
        option = before if telling else name
        if index in passwords:
            start, end = passwords[index]
            out.append(f"{item[:start]}[redacted:password]{item[end:]}")
        else:
            out.append(_redact_value(item, option, depth + 1))
        before = item if isinstance(item, str) else ""
    return out
