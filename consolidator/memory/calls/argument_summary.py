"""Say what a call was given: in a few words on one line, by key, and of an edit what it replaced by what.

Pure, and for display, headlines and evidence. Callers redact (see `argument_redaction`): `summarize_arguments` only
hides values whose key tells that they are secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from consolidator.memory.calls import tool_kinds
from consolidator.memory.calls.directory import strip_cd
from consolidator.memory.calls.operation import patched_files, scalar_leaves
from consolidator.memory.calls.symbols import shell_command

MAX_SUMMARY = 120
_MAX_COMMAND = 16384  # characters of a command that are read

_MESSAGE_OPTION = re.compile(
    r"(?P<option>\s(?:-m|-am|--message|--body|--title|-F))[ =]"
    r"(?:\"\$\(cat <<-?\s*['\"]?(?P<end>\w+)['\"]?\n.*?\n[^\S\n]*(?P=end)\s*\)\"|\"(?:[^\"\\]|\\.)*\"|'[^']*')",
    re.DOTALL,
)
_OUTPUT_SUFFIX = re.compile(  # starts at the first space of a run only: else each space would start a scan of its own
    r"(?<!\s)\s*(?:2>&1|2>/dev/null|\|\s*(?:head|tail)(?:\s+-?\w+)*|\|\|\s*(?:true|echo\s+(?:\"[^\"]*\"|'[^']*'|\w+))"
    r"|;\s*echo\s+(?:\"[^\"]*\"|'[^']*'|\S+))\s*$"
)

_OUTPUT_MARKS = re.compile(r"[>|;]")  # one of these is in every suffix


def strip_command(line: str) -> str:
    """Return a command line without what does not change its effect: a leading cd, messages, output filters."""
    line = strip_cd(line[:_MAX_COMMAND])
    if "-" in line:
        line = _MESSAGE_OPTION.sub(r"\g<option> …", line)
    return strip_output(line)


def strip_output(line: str) -> str:
    """Return a command line without what only cuts or hides its output at its end."""
    line = line.strip()
    if not _OUTPUT_MARKS.search(line):
        return line
    for _ in range(6):
        shorter = _OUTPUT_SUFFIX.sub("", line)
        if shorter == line or not shorter:
            break
        line = shorter
    return line


def shorten(text: str, limit: int) -> str:
    """Return a text on one line, cut to `limit` characters with an ellipsis."""
    line = " ".join(text[: 8 * limit + 512].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def summarize_arguments(
    tool: str,
    arguments: Any,
    limit: int = MAX_SUMMARY,
    redact_named: Callable[[str, Any], Any] = lambda _, value: value,
) -> str:
    """Return what a call was given: its command, its file or those of its patch, or its values without settings.

    The summary has no keys, so a later redaction cannot see them: `redact_named(key, value)` hides a value whose key
    tells that it is secret.
    """
    line = shell_command(tool, arguments)
    if line is not None:
        return shorten(strip_command(line), limit)
    if isinstance(arguments, Mapping):
        for key in tool_kinds.PATH_KEYS:
            if isinstance(arguments.get(key), str) and "pattern" not in arguments:
                path: str = arguments[key]
                return path if len(path) <= limit else "…" + path[1 - limit :]
    if tool_kinds.EDITING_TOOLS.fullmatch(tool_kinds.tool_base_name(tool)) and (files := patched_files(arguments)):
        return shorten(", ".join(files), limit)
    leaves = scalar_leaves(arguments, limit=12)
    texts = [
        str(redact_named(_leaf_name(leaves, index), value))
        for index, (key, value) in enumerate(leaves)
        if value not in (None, "") and not isinstance(value, bool) and not tool_kinds.SETTING_KEYS.fullmatch(key)
    ]
    return shorten(" ".join(texts), limit)


def _leaf_name(leaves: list[tuple[str, Any]], index: int) -> str:
    """Return a leaf's key; for a "value" the name beside it, as in `{"name": "API_TOKEN", "value": ...}`."""
    key = leaves[index][0]
    if key.endswith("value"):
        prefix = key.removesuffix("value")
        for other, name in leaves[max(0, index - 1) : index + 2]:
            if other in (prefix + "name", prefix + "key") and isinstance(name, str):
                return name
    return key


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
