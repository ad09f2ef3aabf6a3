"""Flattens JSON into columns: every leaf under its path, with list indexes and id-like keys generalised.

Pure and bounded. `{"flights": [{"no": "A1"}, {"no": "B2"}]}` is `{"flights[].no": ["A1", "B2"]}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, TypeAlias

Scalar: TypeAlias = str | int | float | bool | None
Columns: TypeAlias = dict[str, list[Scalar]]

MAX_LEAVES = 256  # of one result or argument object
MAX_COLUMN = 64
MAX_DEPTH = 8
MAX_TEXT = 256  # a longer text of a result is prose, not a value that is passed on
MAX_LINES = 64
_ID_KEY = re.compile(r".*\d{3}.*|(?=.*\d)[A-Z0-9_-]{5,}|(?=.*\d)[0-9a-f-]{8,}|\d+", re.DOTALL)
_TOKEN = re.compile(r"[\w@.+:/#~-]+")
_TELLING = re.compile(r"[\d_@/#]|^[A-Z]{2,}$|\w\.\w")
_RUNS = re.compile(r"[A-Z]+|[a-z]+|\d+")


def flatten(value: Any, *, texts: int | None = None) -> Columns:
    """Return the leaves of a JSON value by path; longer strings than `texts` are left out, when it is given."""
    found: Columns = {}
    _walk(value, "", found, [MAX_LEAVES], texts, 0)
    return found


def _walk(value: Any, path: str, found: Columns, room: list[int], texts: int | None, depth: int) -> None:
    if isinstance(value, dict) and depth < MAX_DEPTH:
        for key, inner in value.items():
            name = key if isinstance(key, str) else str(key)
            if not name.isalpha() and _ID_KEY.fullmatch(name):
                _leaf(name, f"{path}.keys[]" if path else "keys[]", found, room, texts)
                name = "*"
            below = f"{path}.{name}" if path else name
            if isinstance(inner, dict | list):
                _walk(inner, below, found, room, texts, depth + 1)
            elif isinstance(inner, str | int | float | None):
                _leaf(inner, below, found, room, texts)
            if room[0] <= 0:
                return
    elif isinstance(value, list) and depth < MAX_DEPTH:
        if not value and texts is None:
            found.setdefault(path + "[]", [])
        for inner in value[:MAX_COLUMN]:
            _walk(inner, path + "[]", found, room, texts, depth + 1)
            if room[0] <= 0:
                return
    elif isinstance(value, str | int | float | None):
        _leaf(value, path, found, room, texts)


def _leaf(value: Scalar, path: str, found: Columns, room: list[int], texts: int | None) -> None:
    if texts is not None and (
        not 0 < len(value) <= texts if isinstance(value, str) else value is None or isinstance(value, bool)
    ):
        return
    column = found.setdefault(path, [])
    if len(column) < MAX_COLUMN:
        column.append(value)
        room[0] -= 1


def flatten_result(result: Any) -> Columns:
    """Return what a result offers to later calls: its leaves, or the lines of a text that are one word each."""
    result = _plain(result)
    if not isinstance(result, str):
        return flatten(result, texts=MAX_TEXT)
    lines = result.split("\n", MAX_LINES)[:MAX_LINES]
    words = [line.strip() for line in lines]
    found: Columns = {}
    if len(lines) == 1 and 0 < len(words[0]) <= MAX_TEXT:
        found[""] = [words[0]]
    single: list[Scalar] = [word for word in words if 3 <= len(word) <= MAX_TEXT and " " not in word]
    if single and len(lines) > 1:
        found["lines[]"] = single
    return found


def _plain(result: Any) -> Any:
    """Return what content blocks (`[{"type": "text", "text": ...}]`) say, else the value as it is."""
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
    """Put columns together again; None where a path goes through two lists or columns of one list differ in length."""
    root: dict[str, Any] = {}
    for path, column in paths:
        head, listed, tail = path.partition("[]")
        if "[]" in tail:
            return None
        *parents, last = head.split(".")
        inner = root
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                return None
        if not listed:
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
    """Return the words of a message that look like a value rather than like prose, in order."""
    found = (word.strip(".:,/-+") for word in _TOKEN.findall(text[:20_000]))
    return [word for word in found if 2 <= len(word) <= MAX_TEXT and _TELLING.search(word)]


def value_shape(value: Scalar) -> str:
    """Return what a value looks like: "mia_li_3668" is "a_a_9999", "NO6JO3" is "X6", "src/app.py" is "/.py"."""
    if not isinstance(value, str):
        return type(value).__name__
    if "/" in value:
        name = value.rsplit("/", 1)[-1]
        return "/." + name.rsplit(".", 1)[-1][:8] if "." in name else "/"
    if value.isalnum() and value.upper() == value and not value.isdigit():
        return f"X{len(value)}"
    return _RUNS.sub(_run, value)[:40]


def _run(match: re.Match[str]) -> str:
    run = match[0]
    if run.isdigit():
        return "9" * min(len(run), 8)
    return "a" if run.islower() else "A"
