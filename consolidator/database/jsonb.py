"""JSON as jsonb can hold it: what it cannot (U+0000, lone surrogates, NaN) is escaped reversibly behind U+E000.

U+E000 is a private-use character; where a text holds it itself, it is escaped too.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

MARK = "\ue000"
_ESCAPE = re.compile("[\x00\ud800-\udfff\ue000]")
_UNESCAPE = re.compile(MARK + "([0-9a-f]{4})")
_FLOATS = {MARK + "nan": math.nan, MARK + "inf": math.inf, MARK + "-inf": -math.inf}


def dumps(value: Any) -> str:
    """Return JSON text that jsonb takes, whatever Python could parse."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
        if "\\u0000" not in text and MARK not in text:
            text.encode()
            return text
    except ValueError:  # NaN, or a lone surrogate (UnicodeEncodeError is a ValueError)
        pass
    return json.dumps(_escaped(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)


def loads(data: str | bytes) -> Any:
    """Return what `dumps` was given."""
    text = data if isinstance(data, str) else bytes(data).decode()
    value = json.loads(text)
    return _unescaped(value) if MARK in text else value


def escape(text: str) -> str:
    """Return a text that a PostgreSQL text column takes."""
    return _ESCAPE.sub(lambda found: f"{MARK}{ord(found[0]):04x}", text)


def unescape(text: str) -> str:
    """Return what `escape` was given."""
    return _UNESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, float) and not math.isfinite(value):
        return MARK + ("nan" if math.isnan(value) else "inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {escape(str(key)): _escaped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(item) for item in value]
    return value


def _unescaped(value: Any) -> Any:
    if isinstance(value, str):
        return _FLOATS[value] if value in _FLOATS else unescape(value)
    if isinstance(value, dict):
        return {unescape(key): _unescaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unescaped(item) for item in value]
    return value
