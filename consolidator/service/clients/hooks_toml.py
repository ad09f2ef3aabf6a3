"""What a client's TOML file says of our hooks, one table each below `[[hooks]]`. Pure: texts in, texts out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from consolidator.errors import UsageError


def add_tables(text: str, entries: Sequence[dict[str, Any]], is_ours: Callable[[Any], bool]) -> str:
    """Return a file with these hooks of ours, each once; an earlier version's give way to them."""
    if [table for table in _tables(text) if is_ours(table.get("command"))] == list(entries):
        return text
    text = remove_tables(text, is_ours)
    blocks = [tomlkit.dumps({"hooks": [entry]}) for entry in entries]
    return text + ("\n" if text else "") + "\n".join(blocks)


def remove_tables(text: str, is_ours: Callable[[Any], bool]) -> str:
    """Return a file without our hooks; what of others stands beside them stays."""
    document = _parse(text)
    hooks = document.get("hooks")
    if not any(is_ours(table.get("command")) for table in _tables(text)):
        return text
    for number in reversed(range(len(hooks or []))):
        if is_ours(hooks[number].get("command")):  # type: ignore[index] # a file with our hooks has tables of hooks
            del hooks[number]  # type: ignore[union-attr]
    if not hooks:
        del document["hooks"]
    rest = tomlkit.dumps(document)
    return rest[:-1] if rest.endswith("\n\n") or rest == "\n" else rest  # the line that was put before ours


def list_events(text: str, is_ours: Callable[[Any], bool]) -> list[str]:
    """Return the events for which a file holds a hook of ours."""
    return [str(table.get("event")) for table in _tables(text) if is_ours(table.get("command"))]


def _tables(text: str) -> list[dict[str, Any]]:
    hooks = _parse(text).unwrap().get("hooks", [])
    if not isinstance(hooks, list) or not all(isinstance(table, dict) for table in hooks):
        raise UsageError("hooks are no TOML tables there")
    return hooks


def _parse(text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise UsageError(f"this is no TOML: {error}") from error
