"""Compare the arguments of two calls: what the call that worked was given instead.

Pure, and for display: callers pass redacted arguments (see `argument_redaction`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from consolidator.memory.calls.argument_summary import shorten, strip_command
from consolidator.memory.calls.symbols import shell_command

MAX_SIDE = 200  # characters shown of either side of a change
MAX_CHANGES = 8
MAX_EDIT_TEXT = 2048  # characters of an edit that are compared
_MAX_WORDS = 300  # of a command
_CONTEXT = 24  # characters kept around a difference
_EDIT_KEYS = (
    ("old_string", "new_string"),
    ("oldText", "newText"),
    ("old_str", "new_str"),
    ("old_text", "new_text"),
    ("search", "replace"),
)


@dataclass(frozen=True, slots=True)
class ArgumentChange:
    """One difference between two calls: `old` is None for an addition, `new` is None for a removal."""

    key: str  # the argument; "command" for a shell
    old: str | None
    new: str | None

    @property
    def is_whitespace_only(self) -> bool:
        """Whether only spaces and line breaks differ: then both sides are stored alike, on one line."""
        return self.old is not None and self.old == self.new


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


def diff_arguments(failing: Mapping[str, str], resolving: Mapping[str, str]) -> list[ArgumentChange]:
    """Return how the resolving call's `argument_texts` differ from the failing one's; [] where they are equal."""
    changes: list[ArgumentChange] = []
    for key in [*failing, *(key for key in resolving if key not in failing)]:
        old, new = failing.get(key), resolving.get(key)
        if old == new:
            continue
        if old is None or new is None:
            changes.append(ArgumentChange(key, _shorten_side(old), _shorten_side(new)))
        elif (words := old.split()) == new.split():
            one_line = _shorten_side(" ".join(words))
            changes.append(ArgumentChange(key, one_line, one_line))
        elif key == "command":
            changes.extend(_diff_commands(old, new))
        else:
            changes.append(ArgumentChange(key, *_differing_parts(" ".join(words), " ".join(new.split()))))
    return changes[:MAX_CHANGES]


def _diff_commands(old: str, new: str) -> list[ArgumentChange]:
    before, after = old.split()[:_MAX_WORDS], new.split()[:_MAX_WORDS]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < 0.35:
        return [ArgumentChange("command", _shorten_side(old), _shorten_side(new))]
    return [
        ArgumentChange(
            "command", _shorten_side(" ".join(before[i:j]) or None), _shorten_side(" ".join(after[k:m]) or None)
        )
        for tag, i, j, k, m in matcher.get_opcodes()
        if tag != "equal"
    ]


def _differing_parts(old: str, new: str) -> tuple[str | None, str | None]:
    """Return the parts of two texts that differ, with a little context."""
    start, end = _common_affixes(old, new)
    start = max(0, start - _CONTEXT)
    end = max(0, end - _CONTEXT)
    parts = [text[start : len(text) - end] for text in (old, new)]
    marked = [("…" if start else "") + part + ("…" if end else "") for part in parts]
    return _shorten_side(marked[0]), _shorten_side(marked[1])


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
    """Return in a few words what an edit replaced by what; "" where the call is no such edit."""
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


def _shorten_side(text: str | None) -> str | None:
    return text if text is None else shorten(text, MAX_SIDE)
