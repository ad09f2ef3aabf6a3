"""Turn command lines into templates: operands become holes, so that `bd close app-12` and `bd close app-13` agree.

Pure. The hole of the first operand is `{1}`.
"""

from __future__ import annotations

import re
from typing import Any

from consolidator.memory.calls import shell
from consolidator.memory.calls.columns import Columns
from consolidator.memory.calls.symbols import command_argument

MAX_HOLES = 4
_KEYWORD_VALUE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,15}")  # a value that says how, not what


def extract_template(line: str) -> tuple[str, tuple[str, ...]]:
    """Return a command line with holes for the operands of the program it reports, and those operands."""
    command = shell.reported_command(shell.parse_commands(line))
    if command is None or "{" in line:
        return line, ()
    operands: list[str] = []
    parts: list[str] = []
    program = _find_word(command.program, line, 0)
    start = 0
    search_from = program.end() if program else 0
    for operand in command.operands[:MAX_HOLES]:
        match = _find_word(operand, line, search_from)
        if match is None or not operand:
            break
        operands.append(operand)
        parts.append(line[start : match.start()] + "{" + str(len(operands)) + "}")
        start = search_from = match.end()
    return "".join(parts) + line[start:], tuple(operands)


def _find_word(word: str, line: str, start: int) -> re.Match[str] | None:
    """Find a whole shell word in a line: not inside a path, an option or another word."""
    return re.compile(rf"(?<![^\s\"'();&|]){re.escape(word)}(?![^\s\"'();&|<>])").search(line, start)


def usage_pattern(line: str) -> str | None:
    """Return how the reported program is used: options as they are, operands and free text as holes.

    `git commit -m "first draft"` becomes `git commit -m <free>`; `bd update app-12 --status done` becomes
    `bd update <1> --status done`.
    """
    command = shell.reported_command(shell.parse_commands(line))
    if command is None:
        return None
    parts = [command.name]
    subcommand_words = command.subcommand.split() if command.subcommand else []
    hole = 0
    after_option = takes_value = False
    for word in command.words:
        if subcommand_words and word == subcommand_words[0]:
            subcommand_words.pop(0)
        elif word.startswith("-") and len(word) > 1:
            parts.append(_option_pattern(word))
            after_option, takes_value = True, f"{word}=" in "".join(command.options)
        elif takes_value:
            parts.append(word if _KEYWORD_VALUE.fullmatch(word) else "<free>")
            after_option = takes_value = False
        else:
            hole += 1
            is_keyword = after_option and _KEYWORD_VALUE.fullmatch(word)
            parts.append(word if is_keyword else f"<{hole}>" if hole < MAX_HOLES else "…")
            after_option = False
        if parts[-1] == "…":
            break
    return " ".join(parts)


def _option_pattern(word: str) -> str:
    name, equals, value = word.partition("=")
    return word if not equals or _KEYWORD_VALUE.fullmatch(value) else f"{name}=<free>"


def template_columns(arguments: Any) -> Columns:
    """Return the template ("$"), usage pattern ("$usage") and operands ("$1", "$2" ...) of a shell call as columns."""
    line = command_argument(arguments)
    if line is None:
        return {}
    template, operands = extract_template(line)
    columns: Columns = {f"${number}": [operand] for number, operand in enumerate(operands, 1)}
    return {"$": [template], "$usage": [usage_pattern(line)], **columns}
