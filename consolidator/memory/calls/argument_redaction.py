"""Hide the credentials among a call's values before anything is counted or shown.

Often only the key tells that a value is secret (`{"password": ...}`, `--password ...`), and the key is gone once the
values are taken apart. Pure: the result depends on the call alone, so that nights equal batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from consolidator.memory.calls.columns import Columns, Scalar

REDACTED_SECRET = "[redacted:secret]"
_PROBE = "q7Rk2vXp9LmZ4wTb"  # a fake secret: a key that makes the redaction hide it is a secret's key
_SECRET_DATA = ("data", "stringData")  # of a Kubernetes Secret
_MAX_KEY = 80
_MAX_SCANNED = 4096  # characters of a value that are redacted, before it is cut to what is kept
_MAX_KEPT = 2048  # characters of one value
_MAX_TOTAL = 8192  # characters of all values
_MAX_DEPTH = 6


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


def redact_arguments(arguments: Any, redact: Callable[[str], str]) -> Any:
    """Return arguments with secrets hidden and long strings cut, about 8 KiB at most."""
    budget = [_MAX_TOTAL]  # characters that may still be kept

    def clean(value: Any, key: str, depth: int) -> Any:
        if isinstance(value, Mapping):
            if depth >= _MAX_DEPTH or budget[0] <= 0:
                return "…"
            name = value.get("name", value.get("key"))
            keys = {"value": name} if isinstance(name, str) else {}
            if value.get("kind") == "Secret":
                value = {
                    k: dict.fromkeys(v, REDACTED_SECRET) if k in _SECRET_DATA and isinstance(v, Mapping) else v
                    for k, v in value.items()
                }
            return {redact(str(k))[:80]: clean(v, keys.get(k, str(k)), depth + 1) for k, v in list(value.items())[:64]}
        if isinstance(value, list):
            return [clean(v, key, depth + 1) for v in value[:64]] if depth < _MAX_DEPTH and budget[0] > 0 else "…"
        if isinstance(value, str):
            text = _redact_with_key(value[:_MAX_SCANNED], key, redact)[: min(_MAX_KEPT, max(budget[0], 0))]
            budget[0] -= len(text)
            return text
        return value

    return clean(arguments, "", 0)


def _redact_with_key(value: str, key: str, redact: Callable[[str], str]) -> str:
    """Redact a value together with its key, which may be what tells that it is a secret."""
    if 0 < len(key) <= 40 and "\n" not in value:
        text = redact(f"{key}={value}")
        if text.startswith(f"{key}="):
            return text[len(key) + 1 :]
    return redact(value)
