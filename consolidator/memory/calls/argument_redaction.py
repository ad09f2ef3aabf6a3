"""Hide the credentials among a call's values before anything is counted or shown.

Often only the key tells that a value is secret (`{"password": ...}`, `--password ...`), and the key is gone once the
values are taken apart. Pure: the result depends on the call alone, so that nights equal batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from consolidator.llm.redaction.redact import redact_json
from consolidator.memory.calls.columns import Columns, Scalar

REDACTED_SECRET = "[redacted:secret]"
_PROBE = "q7Rk2vXp9LmZ4wTb"  # a fake secret: a key that makes the redaction hide it is a secret's key
_SECRET_DATA = ("data", "stringData")  # of a Kubernetes Secret
_MAX_KEY = 80
_MAX_SCANNED = 4096  # characters of a value that are redacted, before it is cut to what is kept
_MAX_KEPT = 2048  # characters of one value
_MAX_TOTAL = 8192  # characters of all values
_MAX_DEPTH, _MAX_MEMBERS = 6, 64


@lru_cache(maxsize=4)
def argument_redactor(redact: Callable[[str], str]) -> ArgumentRedactor:
    """Return the shared redactor of a redaction: its caches serve all sessions, whose arguments have the same keys."""
    return ArgumentRedactor(redact)


class ArgumentRedactor:
    """Hides in columns and named values what `redact` would hide in "key=value" texts."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self.redact_command = lru_cache(maxsize=64)(redact)  # agents repeat their command lines
        self._inspect_path = lru_cache(maxsize=1 << 13)(self._inspect_path_uncached)

    def redact_columns(self, columns: Columns) -> Columns:
        """Return columns with secrets hidden in paths and values; the same object where there is nothing to hide."""
        redacted: Columns | None = None
        kinds = [path for path, column in columns.items() if path.endswith("kind") and "Secret" in column]
        secret_data = tuple(f"{path.removesuffix('kind')}{data}." for path in kinds for data in _SECRET_DATA)
        for path, column in columns.items():
            safe_path, secret_key = self._inspect_path(path)
            if secret_data and path.startswith(secret_data):
                column = [REDACTED_SECRET if isinstance(value, str) else value for value in column]
            elif secret_key is not None:
                column = [self._hide_secret(secret_key, value) for value in column]
            elif path.endswith("value"):
                column = self._redact_named_column(columns, path, column)
            if redacted is None and safe_path == path and column == columns[path]:
                continue
            if redacted is None:
                redacted = {other: columns[other] for other in columns if self._inspect_path(other)[0] == other}
            merges = safe_path != path and safe_path in redacted
            redacted[safe_path] = [*redacted[safe_path], *column] if merges else column
        return columns if redacted is None else redacted

    def redact_named(self, key: str, value: Scalar) -> Scalar:
        """Return a value, hidden where its key tells that it is a secret."""
        return value if self._inspect_path(key)[1] is None else self._hide_secret(key, value)

    def _inspect_path_uncached(self, path: str) -> tuple[str, str | None]:
        """Return a path without secrets, and its last key where that key tells that its value is a secret."""
        safe_path, key = self._redact(path), path.rsplit(".", 1)[-1].replace("[]", "")
        is_secret = safe_path == path and 0 < len(key) <= _MAX_KEY and self._hide_secret(key, _PROBE) == REDACTED_SECRET
        return safe_path, key if is_secret else None

    def _hide_secret(self, key: str, value: Scalar) -> Scalar:
        if not isinstance(value, str):
            return value
        text = f'{key}="{value}"'
        return REDACTED_SECRET if self._redact(text) != text else value

    def _redact_named_column(self, columns: Columns, path: str, column: list[Scalar]) -> list[Scalar]:
        """Hide values whose names are in a column beside them: `{"name": "API_TOKEN", "value": ...}`."""
        prefix = path.removesuffix("value")
        names = columns.get(prefix + "name") or columns.get(prefix + "key") or []
        if len(names) != len(column):
            return column
        pairs = zip(names, column, strict=True)
        return [self.redact_named(name, value) if isinstance(name, str) else value for name, value in pairs]


def redact_arguments(arguments: Any) -> Any:
    """Return arguments with secrets hidden, as the nights hide them, and long strings cut, about 8 KiB at most."""
    scanned = _cut_strings(arguments, (_MAX_SCANNED, _MAX_SCANNED), [_MAX_MEMBERS * _MAX_SCANNED], 0)
    return _cut_strings(redact_json(scanned), (_MAX_KEY, _MAX_KEPT), [_MAX_TOTAL], 0)


def _cut_strings(value: Any, limits: tuple[int, int], budget: list[int], depth: int) -> Any:
    """Return a value with its members and levels cut, and its keys and strings to the limits.

    `budget` is how many characters all strings may still have.
    """
    if isinstance(value, (Mapping, list)) and (depth >= _MAX_DEPTH or budget[0] <= 0):
        return "…"
    if isinstance(value, Mapping):
        members = list(value.items())[:_MAX_MEMBERS]
        return {str(key)[: limits[0]]: _cut_strings(member, limits, budget, depth + 1) for key, member in members}
    if isinstance(value, list):
        return [_cut_strings(member, limits, budget, depth + 1) for member in value[:_MAX_MEMBERS]]
    if isinstance(value, str):
        value = value[: min(limits[1], max(budget[0], 0))]
        budget[0] -= len(value)
    return value
