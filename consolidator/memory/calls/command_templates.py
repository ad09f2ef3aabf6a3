"""Command templates: a command line whose operands are holes, so that `bd close app-12` and `bd close app-13` agree.

Pure. The hole of the first operand is `{1}`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from consolidator.memory.calls import shell
from consolidator.memory.calls.columns import Columns
from consolidator.memory.calls.symbols import command_argument

MAX_HOLES = 4
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_.-]{0,15}")  # a value that says how, not what


def extract_template(line: str) -> tuple[str, tuple[str, ...]]:
    """Return a command line with the operands of the program it reports taken out, and those operands."""
    command = shell.reported_command(shell.parse_commands(line))
    if command is None or "{" in line:
        return line, ()
    filled: list[str] = []
    parts: list[str] = []
    program = _word(command.program, line, 0)
    start = 0
    searched = program.end() if program else 0
    for operand in command.operands[:MAX_HOLES]:
        found = _word(operand, line, searched)
        if found is None or not operand:
            break
        filled.append(operand)
        parts.append(line[start : found.start()] + "{" + str(len(filled)) + "}")
        start = searched = found.end()
    return "".join(parts) + line[start:], tuple(filled)


def _word(word: str, line: str, start: int) -> re.Match[str] | None:
    """Return where a whole word of the shell stands in a line: not in a path, an option or another word."""
    return re.compile(rf"(?<![^\s\"'();&|]){re.escape(word)}(?![^\s\"'();&|<>])").search(line, start)


def usage_pattern(line: str) -> str | None:
    """Return how the program that a line reports is used: options as they are, operands and free text as holes.

    `git commit -m "first draft"` is `git commit -m <free>`; `bd update app-12 --status done` is
    `bd update <1> --status done`.
    """
    command = shell.reported_command(shell.parse_commands(line))
    if command is None:
        return None
    parts = [command.name]
    named = command.subcommand.split() if command.subcommand else []
    hole = 0
    option = value = False
    for word in command.words:
        if named and word == named[0]:
            named.pop(0)
        elif word.startswith("-") and len(word) > 1:
            parts.append(_option(word))
            option, value = True, f"{word}=" in "".join(command.options)
        elif value:
            parts.append(word if _PLAIN.fullmatch(word) else "<free>")
            option = value = False
        else:
            hole += 1
            parts.append(word if option and _PLAIN.fullmatch(word) else f"<{hole}>" if hole < MAX_HOLES else "…")
            option = False
        if parts[-1] == "…":
            break
    return " ".join(parts)


def _option(word: str) -> str:
    name, equals, value = word.partition("=")
    return word if not equals or _PLAIN.fullmatch(value) else f"{name}=<free>"


def fill_template(pattern: str, operands: Sequence[str]) -> str:
    """Put operands into the holes of a template."""
    for number, operand in enumerate(operands, 1):
        pattern = pattern.replace("{" + str(number) + "}", operand, 1)
    return pattern


def count_holes(pattern: str) -> int:
    """Return how many operands a template waits for."""
    return next((n for n in range(MAX_HOLES, 0, -1) if "{" + str(n) + "}" in pattern), 0)


def template_columns(arguments: Any) -> Columns:
    """Return the template ("$") and operands ("$1", "$2" ...) of a shell call's arguments as columns."""
    line = command_argument(arguments)
    if line is None:
        return {}
    pattern, operands = extract_template(line)
    found: Columns = {f"${number}": [operand] for number, operand in enumerate(operands, 1)}
    return {"$": [pattern], "$usage": [usage_pattern(line)], **found}
