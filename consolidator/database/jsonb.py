"""JSON that jsonb can store: U+0000, lone surrogates and NaN, which it cannot, are escaped reversibly behind U+E000.

U+E000 is a private-use character; a text that contains it has it escaped too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from psycopg.types.json import Jsonb

ESCAPE_MARK = "\ue000"
_ESCAPE = re.compile("[\x00\ud800-\udfff\ue000]")
_UNESCAPE = re.compile(ESCAPE_MARK + "([0-9a-f]{4})")
_TEXT = frozenset({str})
_PLAIN = frozenset({str, int, bool, type(None)})
_REWRITTEN = re.compile("e|^-0[.]0$")  # floats that jsonb writes in another way
_CANONICAL = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)
_FLOATS = {ESCAPE_MARK + "nan": math.nan, ESCAPE_MARK + "inf": math.inf, ESCAPE_MARK + "-inf": -math.inf}


def dumps(value: Any) -> str:
    """Return JSON text that jsonb accepts, for any value that Python's json can parse."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
        if "\\u0000" not in text and ESCAPE_MARK not in text:
            text.encode()
            return text
    except ValueError:  # NaN, or a lone surrogate (UnicodeEncodeError is a ValueError)
        pass
    return json.dumps(_escape_value(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)


def dumps_canonical(value: dict[str, Any]) -> str | None:
    """Return what `dumps` does with sorted keys, where that is canonical: no escape, no number that jsonb rewrites.

    None for other values; most have one text for the database and for its hash, which is then made once.
    """
    try:
        if not _is_plain(value):
            return None
        text = _CANONICAL.encode(value)
        if "\\u0000" in text or ESCAPE_MARK in text:
            return None
        text.encode()
    except (ValueError, RecursionError):  # a lone surrogate, a number with thousands of digits, a deep tree
        return None
    return text


def as_jsonb(value: Any) -> Jsonb:
    """Return a value as a jsonb parameter of a query."""
    return Jsonb(value, dumps=dumps)


def loads(data: str | bytes) -> Any:
    """Return the value that `dumps` was given."""
    text = data if isinstance(data, str) else bytes(data).decode()
    value = json.loads(text)
    return _unescape_value(value) if ESCAPE_MARK in text else value


def escape(text: str) -> str:
    """Return a text that a PostgreSQL text column accepts."""
    return _ESCAPE.sub(lambda match: f"{ESCAPE_MARK}{ord(match[0]):04x}", text)


def unescape(text: str) -> str:
    """Return the text that `escape` was given."""
    return _UNESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def text_array(texts: Iterable[str | None]) -> str:
    """Return texts as a text[] parameter, as PostgreSQL writes one: the driver looks at each text of a list first."""
    quoted = ("NULL" if text is None else _quote(text) for text in texts)
    return f"{{{','.join(quoted)}}}"


def _quote(text: str) -> str:
    return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'


def _is_plain(value: dict[Any, Any] | list[Any]) -> bool:
    """Tell whether a tree has only names that are texts, and values that come back from jsonb as they are."""
    items: Collection[Any] = value
    if type(value) is dict:
        if not _TEXT.issuperset(map(type, value)):
            return False
        items = value.values()
    if _PLAIN.issuperset(map(type, items)):  # most are
        return True
    for item in items:
        kind = type(item)
        if kind in _PLAIN or ((kind is dict or kind is list) and _is_plain(item)):
            continue
        if kind is not float or _REWRITTEN.search(repr(item)):
            return False
    return True


def _escape_value(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, float) and not math.isfinite(value):
        return ESCAPE_MARK + ("nan" if math.isnan(value) else "inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {escape(str(key)): _escape_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escape_value(item) for item in value]
    return value


def _unescape_value(value: Any) -> Any:
    if isinstance(value, str):
        return _FLOATS[value] if value in _FLOATS else unescape(value)
    if isinstance(value, dict):
        return {unescape(key): _unescape_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unescape_value(item) for item in value]
    return value


def text_size(value: Any) -> int:
    """Return about how many characters a JSON value has; its own stack, since values may be nested deep."""
    size, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            size += len(each)
        elif isinstance(each, Mapping):
            size += 8 * len(each)
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            size += 8 * len(each)
            waiting += each
    return size
