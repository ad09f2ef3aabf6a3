"""Writes JSON lines that every reader takes: valid UTF-8, one line each, losslessly, whatever the strings hold."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

# A lone surrogate has no UTF-8, so it stays an escape; json escapes U+0000 and line ends by itself.
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN, _CANONICAL = (
    json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=canonical)
    for canonical in (False, True)
)


def to_line(value: Mapping[str, Any], *, canonical: bool = False) -> str:
    """Return an object as one line with its newline; `canonical` sorts the keys, so that equal objects are equal bytes.

    NaN and Infinity, which JSON does not have, are written as strings. Two lone surrogates that happen to stand
    together and make a character cannot be told from it in JSON, and come back as the character.
    """
    encoder = _CANONICAL if canonical else _PLAIN
    try:
        text = encoder.encode(value)
    except ValueError:
        text = encoder.encode(_finite(value))
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def whole(text: str) -> str:
    """Join surrogate halves that met only when pieces of a text were put together."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, (list, tuple)) else value
