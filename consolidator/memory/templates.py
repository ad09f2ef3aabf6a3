"""Command templates: a command line whose operands are holes, so that `bd close app-12` and `bd close app-13` agree.

Pure. The hole of the first operand is `{1}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from consolidator.memory import shell
from consolidator.memory.symbols import line_of
from consolidator.memory.values import Columns

MAX_HOLES = 4


def template(line: str) -> tuple[str, tuple[str, ...]]:
    """Return a command line with the operands of the program it reports taken out, and those operands."""
    command = shell.reported(shell.parse(line))
    if command is None or "{" in line:
        return line, ()
    filled: list[str] = []
    parts: list[str] = []
    start = max(line.find(command.program), 0)
    parts.append(line[:start])
    for operand in command.operands[:MAX_HOLES]:
        at = line.find(operand, start)
        if at < 0 or not operand:
            break
        filled.append(operand)
        parts.append(line[start:at] + "{" + str(len(filled)) + "}")
        start = at + len(operand)
    return "".join(parts) + line[start:], tuple(filled)


def fill(pattern: str, operands: Sequence[str]) -> str:
    """Put operands into the holes of a template."""
    for number, operand in enumerate(operands, 1):
        pattern = pattern.replace("{" + str(number) + "}", operand, 1)
    return pattern


def holes(pattern: str) -> int:
    """Return how many operands a template waits for."""
    return next((n for n in range(MAX_HOLES, 0, -1) if "{" + str(n) + "}" in pattern), 0)


def template_columns(arguments: Any) -> Columns:
    """Return the template ("$") and operands ("$1", "$2" ...) of a shell call's arguments as columns."""
    line = line_of(arguments)
    if line is None:
        return {}
    pattern, operands = template(line)
    found: Columns = {f"${number}": [operand] for number, operand in enumerate(operands, 1)}
    return {"$": [pattern], **found}


def with_command(arguments: Mapping[str, Any], line: str) -> dict[str, Any]:
    """Return arguments of a shell tool with another command line."""
    return {**arguments, "command": line}
