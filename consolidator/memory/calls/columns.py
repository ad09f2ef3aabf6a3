"""Flatten JSON into columns: each leaf under its path, with list indexes and id-like keys generalized.

Pure and bounded. `{"flights": [{"no": "A1"}, {"no": "B2"}]}` becomes `{"flights[].no": ["A1", "B2"]}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, TypeAlias

Scalar: TypeAlias = str | int | float | bool | None
Columns: TypeAlias = dict[str, list[Scalar]]  # path -> its values in order

MAX_LEAVES = 256  # of one result or argument object
MAX_COLUMN = 64
MAX_DEPTH = 8
MAX_TEXT = 256  # a longer text of a result is prose, not a value that is passed on
MAX_LINES = 64
_ID_KEY = re.compile(r".*\d{3}.*|(?=.*\d)[A-Z0-9_-]{5,}|(?=.*\d)[0-9a-f-]{8,}|\d+", re.DOTALL)
_WORD = re.compile(r"[\w@.+:/#~-]+")
_LOOKS_LIKE_VALUE = re.compile(r"[\d_@/#]|^[A-Z]{2,}$|\w\.\w")
_CHARACTER_RUN = re.compile(r"[A-Z]+|[a-z]+|\d+")


def flatten(value: Any, *, max_text: int | None = None) -> Columns:
    """Return the leaves of a JSON value by path.

    With `max_text`, only values that a later call can use are kept: numbers, and non-empty strings up to that length.
    """
    columns: Columns = {}
    _walk(value, "", columns, [MAX_LEAVES], max_text, 0)
    return columns


def _walk(value: Any, path: str, columns: Columns, room: list[int], max_text: int | None, depth: int) -> None:
    """Add the leaves below `value`; `room` holds one number, how many leaves may still be added."""
    if isinstance(value, dict) and depth < MAX_DEPTH:
        for key, inner in value.items():
            name = key if isinstance(key, str) else str(key)
            if not name.isalpha() and _ID_KEY.fullmatch(name):
                _add_leaf(name, f"{path}.keys[]" if path else "keys[]", columns, room, max_text)
                name = "*"
            below = f"{path}.{name}" if path else name
            if isinstance(inner, dict | list):
                _walk(inner, below, columns, room, max_text, depth + 1)
            elif isinstance(inner, str | int | float | None):
                _add_leaf(inner, below, columns, room, max_text)
            if room[0] <= 0:
                return
    elif isinstance(value, list) and depth < MAX_DEPTH:
        if not value and max_text is None:
            columns.setdefault(path + "[]", [])
        for inner in value[:MAX_COLUMN]:
            _walk(inner, path + "[]", columns, room, max_text, depth + 1)
            if room[0] <= 0:
                return
    elif isinstance(value, str | int | float | None):
        _add_leaf(value, path, columns, room, max_text)


def _add_leaf(value: Scalar, path: str, columns: Columns, room: list[int], max_text: int | None) -> None:
    if max_text is not None and (
        not 0 < len(value) <= max_text if isinstance(value, str) else value is None or isinstance(value, bool)
    ):
        return
    column = columns.setdefault(path, [])
    if len(column) < MAX_COLUMN:
        column.append(value)
        room[0] -= 1


def flatten_result(result: Any) -> Columns:
    """Return what a result offers to later calls: its leaves, or the lines of a text that are single words."""
    result = _unwrap_content(result)
    if not isinstance(result, str):
        return flatten(result, max_text=MAX_TEXT)
    lines = result.split("\n", MAX_LINES)[:MAX_LINES]
    stripped = [line.strip() for line in lines]
    columns: Columns = {}
    if len(lines) == 1 and 0 < len(stripped[0]) <= MAX_TEXT:
        columns[""] = [stripped[0]]
    single_words: list[Scalar] = [line for line in stripped if 3 <= len(line) <= MAX_TEXT and " " not in line]
    if single_words and len(lines) > 1:
        columns["lines[]"] = single_words
    return columns


def _unwrap_content(result: Any) -> Any:
    """Return the content of text blocks (`[{"type": "text", "text": ...}]`), parsed as JSON where it is JSON."""
    if isinstance(result, list) and result and isinstance(result[0], dict) and result[0].get("type") == "text":
        text = "\n".join(str(block.get("text")) for block in result if isinstance(block, dict))
        if text[:1] in ("{", "["):
            try:
                return json.loads(text)
            except (ValueError, RecursionError):
                return text
        return text
    return result


def unflatten(paths: Iterable[tuple[str, list[Scalar]]]) -> Any:
    """Rebuild a JSON value from columns.

    Returns None where a path goes through two lists, or where columns of one list differ in length.
    """
    root: dict[str, Any] = {}
    for path, column in paths:
        head, brackets, tail = path.partition("[]")
        if "[]" in tail:
            return None
        *parents, last = head.split(".")
        inner = root
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                return None
        if not brackets:
            if not column:
                return None
            inner[last] = column[0]
        elif not tail:
            inner[last] = list(column)
        else:
            rows = inner.setdefault(last, [{} for _ in column])
            if not isinstance(rows, list) or len(rows) != len(column) or not all(isinstance(row, dict) for row in rows):
                return None
            for row, value in zip(rows, column, strict=True):
                row[tail.removeprefix(".")] = value
    return root


def value_words(text: str) -> list[str]:
    """Return the words of a message that look like a value rather than prose, in order."""
    words = (word.strip(".:,/-+") for word in _WORD.findall(text[:20_000]))
    return [word for word in words if 2 <= len(word) <= MAX_TEXT and _LOOKS_LIKE_VALUE.search(word)]


def value_shape(value: Scalar) -> str:
    """Return the form of a value: "a_a_9999" for "mia_li_3668", "X6" for "NO6JO3", "/.py" for "src/app.py"."""
    if not isinstance(value, str):
        return type(value).__name__
    if "/" in value:
        name = value.rsplit("/", 1)[-1]
        return "/." + name.rsplit(".", 1)[-1][:8] if "." in name else "/"
    if value.isalnum() and value.upper() == value and not value.isdigit():
        return f"X{len(value)}"
    return _CHARACTER_RUN.sub(_generalize_run, value)[:40]


def _generalize_run(match: re.Match[str]) -> str:
    run = match[0]
    if run.isdigit():
        return "9" * min(len(run), 8)
    return "a" if run.islower() else "A"
