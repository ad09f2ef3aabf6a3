"""Summarize what a call was given in a few words, on one line: for display, headlines and evidence.

Pure. Callers redact: `summarize_arguments` only hides values whose key tells that they are secret.
"""

from __future__ import annotations

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
