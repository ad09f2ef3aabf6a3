"""Write objects as JSON lines: valid UTF-8, one line each, lossless for any strings."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

# A lone surrogate has no UTF-8 encoding, so it stays escaped; json itself escapes U+0000 and line ends.
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN, _CANONICAL = (
    json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=canonical)
    for canonical in (False, True)
)


def encode_line(value: Mapping[str, Any], *, canonical: bool = False) -> str:
    """Return an object as one line with its newline; `canonical` sorts the keys: equal objects give equal bytes.

    NaN and Infinity, which JSON does not have, are written as strings. Two adjacent lone surrogates that form a
    character are read back as that character: JSON cannot distinguish them.
    """
    encoder = _CANONICAL if canonical else _PLAIN
    try:
        text = encoder.encode(value)
    except ValueError:
        text = encoder.encode(_replace_non_finite(value))
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def join_surrogates(text: str) -> str:
    """Join surrogate pairs that were split between chunks of a text."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _replace_non_finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {name: _replace_non_finite(member) for name, member in value.items()}
    return [_replace_non_finite(one) for one in value] if isinstance(value, (list, tuple)) else value
