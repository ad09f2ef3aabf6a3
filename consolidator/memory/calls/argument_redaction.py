"""Keep a call's arguments in bounds, without credentials.

Pure: the result depends on the call alone, so that nights equal batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from consolidator.llm.redaction.redact import redact_json

_MAX_SCANNED = 4096  # characters of a value that are redacted, before it is cut to what is kept
_MAX_KEPT = 2048  # characters of one value
_MAX_TOTAL = 8192  # characters of all values
_MAX_MEMBERS = 64  # of an object or a list
_MAX_DEPTH = 6


def redact_arguments(arguments: Any) -> Any:
    """Return arguments with secrets hidden and long strings cut, about 8 KiB at most."""
    budget = _MAX_TOTAL  # characters that may still be kept

    def cut(value: Any, limit: int, depth: int = 0) -> Any:
        nonlocal budget
        if isinstance(value, str):
            text = value[: min(limit, max(budget, 0))]
            budget -= len(text)
            return text
        if not isinstance(value, Mapping | list):
            return value
        if depth >= _MAX_DEPTH or budget <= 0:
            return "…"
        if isinstance(value, list):
            return [cut(member, limit, depth + 1) for member in value[:_MAX_MEMBERS]]
        members = list(value.items())[:_MAX_MEMBERS]
        return {str(key)[:80]: cut(member, limit, depth + 1) for key, member in members}

    redacted = redact_json(cut(arguments, _MAX_SCANNED))
    budget = _MAX_TOTAL
    return cut(redacted, _MAX_KEPT)
