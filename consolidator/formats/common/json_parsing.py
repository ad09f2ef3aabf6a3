"""Parse JSON texts of foreign logs; invalid bytes and numbers are tolerated, extreme nesting is not."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 200  # levels of nesting; deeper values could overflow the stack of recursive code
EXTRA_TEXT = "not JSON: more text after the value"  # how the error for several JSON values begins
_SPACE = " \t\r\n"


def _parse_float(text: str) -> float | str:
    """Parse a number; one that is infinite as a float (1e999) stays a string, since JSON cannot write it again."""
    value = float(text)
    return value if math.isfinite(value) else text


_DECODER = json.JSONDecoder(strict=False, parse_float=_parse_float, parse_constant=str)


def parse_json(raw: bytes | str) -> Any:
    """Parse one JSON text; raise ValueError with a readable reason.

    Invalid UTF-8 becomes U+FFFD, control characters in strings (NUL too) are kept, and NaN and Infinity, which JSON
    does not have, become strings.
    """
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    start = len(text) - len(text.lstrip(_SPACE))
    value, end = parse_prefix(text, start)
    if rest := text[end:].lstrip(_SPACE):
        raise ValueError(f"{EXTRA_TEXT}, at character {len(text) - len(rest) + 1}")
    return value


def parse_container(value: object) -> Any:
    """Return the object or the list that a text holds in JSON; None for any other text or value."""
    try:
        parsed = parse_json(value) if isinstance(value, (str, bytes)) else None
    except ValueError:
        return None
    return parsed if isinstance(parsed, (dict, list)) else None


def parse_arguments(item: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the first of an item's fields that is there, as its value if it is JSON; a patch or a script is text."""
    arguments = next((item[name] for name in names if item.get(name) is not None), None)
    parsed = parse_container(arguments) if isinstance(arguments, str) and arguments[:1] in ("{", "[") else None
    return arguments if parsed is None else parsed


def parse_prefix(text: str, start: int) -> tuple[Any, int]:
    """Parse the JSON value at `start` by the rules of `parse_json`; return it and the index of its end."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except ValueError as error:  # an integer of thousands of digits
        raise ValueError(f"a JSON value out of range: {error}") from None
    if text.count("[", start, end) + text.count("{", start, end) > MAX_DEPTH and exceeds_max_depth(value):
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    return value, end


def find_whole(text: str) -> int | None:
    """Return where a whole object begins that was written right behind a torn one; None where there is none.

    It begins where the torn one cannot go on. What a torn line holds may look like a line, too: there the torn one
    can go on, so it is never taken for one.
    """
    try:
        _DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        for start in range(max(error.pos - 2, 1), error.pos + 2):
            if text.startswith('{"', start):
                try:
                    _DECODER.raw_decode(text, start)
                except (ValueError, RecursionError):
                    continue
                return start
    except (ValueError, RecursionError):
        pass
    return None


def exceeds_max_depth(value: Any, most: int = MAX_DEPTH) -> bool:
    """Tell whether a value has more than so many levels of objects and lists, without recursion."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(most):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True


def to_float(value: Any) -> float | None:
    """Return a parsed number as a float; None for other values and for numbers too large for a float."""
    try:
        return float(value) if isinstance(value, (int, float)) else None
    except OverflowError:
        return None
