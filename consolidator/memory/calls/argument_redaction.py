"""Hides the credentials among a call's values before anything is counted from them.

What stands beside a value may be all that tells (`{"password": ...}`, `--password ...`), and is gone once the values
are taken apart. Pure; what comes out depends on the call alone, so that nights equal batch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from consolidator.memory.calls.columns import Columns, Scalar

REDACTED_SECRET = "[redacted:secret]"
_PROBE = "q7Rk2vXp9LmZ4wTb"  # nobody's: what would be hidden beside a name that tells
_LONGEST_KEY = 80


@lru_cache(maxsize=4)
def argument_redactor(redact: Callable[[str], str]) -> ArgumentRedactor:
    """Return the veil of a redaction: one for all calls and sessions, whose arguments have the same names again."""
    return ArgumentRedactor(redact)


class ArgumentRedactor:
    """Hides what `redact` would."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self.redact_command = lru_cache(maxsize=64)(redact)  # a command line; agents repeat themselves
        self._known = lru_cache(maxsize=1 << 13)(self._judged)

    def redact_columns(self, given: Columns) -> Columns:
        """Return columns with what is secret in their paths, and beside these, hidden; the same ones if nothing is."""
        found: Columns | None = None
        for path, column in given.items():
            name, key = self._known(path)
            if key is not None:
                column = [self._beside(key, value) for value in column]
            elif path.endswith("value"):
                column = self._named(given, path, column)
            if found is None and name == path and column == given[path]:
                continue
            if found is None:
                found = {before: given[before] for before in given if self._known(before)[0] == before}
            found[name] = [*found[name], *column] if name != path and name in found else column
        return given if found is None else found

    def redact_named(self, key: str, value: Scalar) -> Scalar:
        """Return a value, hidden where the name beside it tells that it is a secret."""
        return value if self._known(key)[1] is None else self._beside(key, value)

    def _judged(self, path: str) -> tuple[str, str | None]:
        """Return a path without what is secret in it, and its last key where that tells of a secret."""
        name, key = self._redact(path), path.rsplit(".", 1)[-1].replace("[]", "")
        tells = name == path and 0 < len(key) <= _LONGEST_KEY and self._beside(key, _PROBE) == REDACTED_SECRET
        return name, key if tells else None

    def _beside(self, key: str, value: Scalar) -> Scalar:
        if not isinstance(value, str):
            return value
        text = f'{key}="{value}"'
        return REDACTED_SECRET if self._redact(text) != text else value

    def _named(self, given: Columns, path: str, column: list[Scalar]) -> list[Scalar]:
        """Hide values whose names stand beside them: `{"name": "API_TOKEN", "value": ...}`."""
        before = path.removesuffix("value")
        names = given.get(before + "name") or given.get(before + "key") or []
        if len(names) != len(column):
            return column
        pairs = zip(names, column, strict=True)
        return [self.redact_named(name, value) if isinstance(name, str) else value for name, value in pairs]
