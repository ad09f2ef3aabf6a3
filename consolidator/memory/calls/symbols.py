"""Name what a call does by its *symbol*: the tool, or for a shell the program it reports ("sh:git commit").

Its *usage pattern* has holes for operands, so that `bd close app-12` and `bd close app-13` agree. Pure: looks at one
call, never at its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from consolidator.memory.calls import shell, tool_kinds
from consolidator.memory.calls.columns import Scalar
from consolidator.memory.calls.shell_programs import COMMAND_KEYS, SHELL_TOOLS, word_set
from consolidator.memory.calls.shell_words import WINDOWS_SHELLS, command_line, is_read_by_shell, program_name

if TYPE_CHECKING:
    from consolidator.memory.calls.call_pairing import CompletedCall


SHELL_PREFIX = "sh:"
_NO_STEPS = word_set("- cd pushd popd echo printf true false : exit clear date wait")
PATCH_TOOL = "apply_patch"
_PATCHES = re.compile(  # in quotes, or as a here-document; nothing else follows
    r"\s*(?:cd \S+ *(?:&&|;)\s*)?apply_?patch\s+(?:<<-?\s*['\"]?(?P<end>\w+)['\"]?\s*\n|['\"])?"
    r"(?P<patch>\*\*\* Begin Patch(?:[^\n]|\n(?!\*\*\* End Patch))*\n\*\*\* End Patch)\s*(?:(?P=end)|['\"])?\s*",
    re.DOTALL,
)
MAX_SYMBOL_LENGTH = 120  # characters
_MAX_CACHED_LINE = 512  # characters of a command line whose symbol is cached


def call_symbol(call: CompletedCall) -> str:
    """Return the symbol of a call: the tool's name, or "sh:program subcommand" for a shell."""
    return tool_symbol(call.tool, call.arguments)


def tool_symbol(tool: str, arguments: Any) -> str:
    """Return the symbol of a tool that is called with these arguments (JSON)."""
    line = shell_command(tool, arguments)
    if line is None:
        return _normalize_name(tool)
    return _line_symbol_cached(line) if len(line) <= _MAX_CACHED_LINE else _line_symbol(line)


def _line_symbol(line: str) -> str:
    """Return the symbol of a shell that runs a line."""
    command = shell.reported_command(shell.parse_commands(line))
    if command is None:
        return SHELL_PREFIX + "-"
    mark = " >" if command.writes and command.program in ("cat", "echo", "printf") else ""
    return _normalize_name(SHELL_PREFIX + command.name + mark)


_line_symbol_cached = lru_cache(maxsize=4096)(_line_symbol)  # several readers ask for the symbol of each call


def _normalize_name(name: str) -> str:
    return (name if name.isprintable() else " ".join(name.split()))[:MAX_SYMBOL_LENGTH]


def shell_command(tool: str, arguments: Any) -> str | None:
    """Return the command line that a shell tool runs; None where the tool is no shell."""
    if tool.lower() not in SHELL_TOOLS and tool.rsplit("__", 1)[-1].lower() not in SHELL_TOOLS:
        return None
    return command_argument(arguments)


def read_call(tool: str, arguments: Any) -> tuple[str, Any]:
    """Return a call as what it is: a patch that a shell hands to `apply_patch` is an edit of its files."""
    line = shell_command(tool, arguments)
    match = _PATCHES.fullmatch(line) if line is not None and "apply" in line[:_MAX_CACHED_LINE] else None
    if line is None or match is None or (match["end"] and _is_for_windows(arguments)):  # which has no such thing
        return tool, arguments
    return PATCH_TOOL, match["patch"]


def _is_for_windows(arguments: Any) -> bool:
    words = arguments.get("command") if isinstance(arguments, Mapping) else None
    return isinstance(words, list) and bool(words) and program_name(str(words[0])).lower() in WINDOWS_SHELLS


def command_argument(arguments: Any) -> str | None:
    """Return the command line among a shell tool's arguments."""
    return command_line(_given_command(arguments))


def runs_in_shell(arguments: Any) -> bool:
    """Tell whether a shell reads the command line among a tool's arguments."""
    return is_read_by_shell(_given_command(arguments))


def _given_command(arguments: Any) -> Any:
    if isinstance(arguments, (dict, Mapping)):  # `dict` first: a check of an abstract class is slow
        return next((arguments[key] for key in COMMAND_KEYS if key in arguments), None)
    return arguments


def is_shell_symbol(symbol: str) -> bool:
    """Whether a symbol names a program that a shell ran."""
    return symbol.startswith(SHELL_PREFIX)


def is_inspection(symbol: str) -> bool:
    """Whether a call only looked at something, or kept the books of the agent or its harness."""
    if is_shell_symbol(symbol):
        program, _, rest = display_name(symbol).partition(" ")
        if rest == ">":
            return False
        subcommands = tool_kinds.INSPECTING_SUBCOMMANDS.get(program, frozenset())
        inspects = program in tool_kinds.INSPECTING_PROGRAMS or program in _NO_STEPS
        return inspects or rest.split(" ")[0] in subcommands
    name = tool_kinds.tool_base_name(symbol)
    inspects_with = (tool_kinds.READING_TOOLS, tool_kinds.INSPECTING_TOOLS, tool_kinds.THINKING_TOOLS)
    return tool_kinds.is_bookkeeping(name) or any(pattern.fullmatch(name) for pattern in inspects_with)


def is_edit(symbol: str) -> bool:
    """Whether a call was made with a tool that edits files."""
    return (
        not is_shell_symbol(symbol)
        and tool_kinds.EDITING_TOOLS.fullmatch(tool_kinds.tool_base_name(symbol)) is not None
    )


def display_name(symbol: str, line: str = "") -> str:
    """Return a symbol for people: "git push" for "sh:git push"; with the wrappers that a command line runs it with."""
    name = symbol.removeprefix(SHELL_PREFIX)
    commands = shell.parse_commands(line) if line and is_shell_symbol(symbol) else []
    wrappers = next((command.wrappers for command in commands if command.name == name), ())
    return " ".join([*wrappers, name])


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
