"""Say what a call was given, by key, and what an edit replaced by what.

Pure, and for display: callers pass redacted arguments (see `argument_redaction`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from consolidator.memory.calls.argument_summary import shorten, strip_command
from consolidator.memory.calls.operation import patched_files, scalar_leaves
from consolidator.memory.calls.symbols import shell_command

MAX_EDIT_TEXT = 2048  # characters of an edit that are compared
_EDIT_KEYS = (
    ("old_string", "new_string"),
    ("oldText", "newText"),
    ("old_str", "new_str"),
    ("old_text", "new_text"),
    ("search", "replace"),
)


def argument_texts(tool: str, arguments: Any) -> dict[str, str]:
    """Return a call's arguments as texts by key; for a shell {"command": the stripped command line}."""
    line = shell_command(tool, arguments)
    if line is not None:
        return {"command": strip_command(line)}
    if isinstance(arguments, Mapping):
        return {str(key): _to_text(value) for key, value in arguments.items() if key != "description"}
    return {} if arguments in (None, "") else {"input": _to_text(arguments)}


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _common_affixes(old: str, new: str) -> tuple[int, int]:
    """Return the lengths of the common prefix and suffix of two texts, in whole words."""
    shorter = min(len(old), len(new))
    start = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    while start > 0 and old[start - 1].isalnum():
        start -= 1
    shorter -= start
    end = next((n for n in range(shorter) if old[-1 - n] != new[-1 - n]), shorter)
    while end > 0 and old[len(old) - end].isalnum():
        end -= 1
    return start, end


def describe_edit(arguments: Any, redact: Callable[[str], str]) -> str:
    """Return in a few words what an edit, or a patch of one file, replaced by what; "" where the call is neither."""
    if len(patched_files(arguments)) == 1:
        lines = "\n".join(str(value) for _, value in scalar_leaves(arguments))[:MAX_EDIT_TEXT].splitlines()
        before, after = ("\n".join(line[1:] for line in lines if line[:1] == sign != line[1:2]) for sign in "-+")
        return _describe_replacement(redact(before), redact(after))
    if not isinstance(arguments, Mapping):
        return ""
    for old_key, new_key in _EDIT_KEYS:
        old, new = arguments.get(old_key), arguments.get(new_key)
        if isinstance(old, str) and isinstance(new, str):
            return _describe_replacement(redact(old[:MAX_EDIT_TEXT]), redact(new[:MAX_EDIT_TEXT]))
    return ""


def _describe_replacement(old: str, new: str) -> str:
    """Describe the lines that differ; where one line became another, the words in it that differ."""
    before, after = ([line.strip() for line in text.splitlines()] for text in (old, new))
    removed = [line for line in before if line not in after]
    added = [line for line in after if line not in before]
    if len(removed) == 1 and len(added) == 1:
        start, end = _common_affixes(removed[0], added[0])
        removed, added = ([line[start : len(line) - end]] for line in (removed[0], added[0]))
    old_text, new_text = shorten(" ".join(removed), 100), shorten(" ".join(added), 100)
    if old_text and new_text:
        return f"`{old_text}` → `{new_text}`"
    return f"added `{new_text}`" if new_text else f"removed `{old_text}`" if old_text else ""
