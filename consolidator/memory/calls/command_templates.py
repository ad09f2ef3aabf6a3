"""Turn command lines into usage patterns: operands become holes, so that `bd close app-12` and `bd close app-13` agree.

Pure.
"""

from __future__ import annotations

import re

from consolidator.memory.calls import shell
from consolidator.memory.calls.columns import Scalar

FREE = "<free>"
MAX_OPERANDS = 4
_KEYWORD_VALUE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,15}")  # a value that says how, not what


def operands_of(line: str) -> list[Scalar]:
    """Return the first operands of the program that a line reports: they name what it is about."""
    command = shell.reported_command(shell.parse_commands(line))
    return [] if command is None else list(command.operands[:MAX_OPERANDS])


def usage_pattern(line: str) -> str | None:
    """Return how the reported program is used: options as they are, operands and free text as holes.

    `git add a.c b.c` becomes `git add <free>`; `bd update app-12 --status done` `bd update <free> --status done`.
    """
    command = shell.reported_command(shell.parse_commands(line))
    if command is None:
        return None
    parts = [command.name]
    subcommand_words = command.subcommand.split() if command.subcommand else []
    after_option = takes_value = False
    for word in command.words:
        if subcommand_words and word == subcommand_words[0]:
            subcommand_words.pop(0)
        elif word.startswith("-") and len(word) > 1:
            name, equals, value = word.partition("=")
            parts.append(word if not equals or _KEYWORD_VALUE.fullmatch(value) else f"{name}={FREE}")
            after_option, takes_value = True, f"{word}=" in "".join(command.options)
        elif takes_value or after_option or parts[-1] != FREE:
            is_keyword = (takes_value or after_option) and _KEYWORD_VALUE.fullmatch(word)
            parts.append(word if is_keyword else FREE)
            after_option = takes_value = False
    return " ".join(parts)
