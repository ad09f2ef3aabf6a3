"""Parse what a call operates on: its program or tool, the paths, names and words it is given.

Pure: looks at one call's arguments alone. `solutions.operation_matching` decides whether two calls are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from consolidator.memory.calls import shell, tool_kinds
from consolidator.memory.calls.blame import MAX_ECHOES_READ, find_blamed
from consolidator.memory.calls.directory import call_directory, line_directory
from consolidator.memory.calls.shell import Command
from consolidator.memory.calls.symbols import shell_command, tool_symbol
from consolidator.memory.plain import Plain

MAX_OPERANDS = 24
MAX_WORDS = 80
_PATCHED_FILE = re.compile(r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ b?/?)(\S+)", re.MULTILINE)
_LINES = re.compile(r"\d+[:,]\d+")  # a range of lines identifies nothing: it moves with every edit
_OF_SSH = re.compile(r"^ssh: ", re.MULTILINE)
_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class Operation(Plain):
    """What a call does, to what."""

    kind: str  # shell | read | edit | tool
    name: str  # "git push"; "" for files; else the tool's name
    operands: tuple[str, ...] = ()  # paths, URLs, names, normalised
    words: tuple[str, ...] = ()  # name parts of code, queries and other text, sorted
    directory: str | None = None  # where the call says that it runs
    inspects: bool = False  # reads only, changes nothing
    hidden: bool = False  # a pipe or `||` after the program hides its exit status

    @property
    def key(self) -> str:
        """The operation's name, for grouping and display."""
        prefix = {"shell": "sh:", "tool": ""}.get(self.kind, self.kind)
        return f"{prefix}{self.name}"

    @property
    def program(self) -> str:
        """What carries it out: the shell's program, the class of file tool, or the tool."""
        return self.name.split(" ", 1)[0] if self.kind == "shell" else self.key


def parse_operations(tool: str, arguments: Any, error: str | None = None) -> list[Operation]:
    """Return what a call does: first the operation whose outcome it reports, then those that its success implies.

    Of a call that failed with an `error`, what it printed, the operation that failed comes first.
    """
    line = shell_command(tool, arguments)
    if line is not None:
        directory = call_directory(tool, arguments)
        line = line[: shell.MAX_COMMAND]
        operations = _parse_plain_line(line) if error is None else _parse_shell_line(line, error[:MAX_ECHOES_READ])
        return [replace(operation, directory=directory) for operation in operations]
    name = tool_kinds.tool_base_name(tool)
    paths = _file_path(arguments)
    if paths and isinstance(arguments, Mapping):
        command = str(arguments.get("command", ""))
        if tool_kinds.READING_TOOLS.fullmatch(name) or (tool_kinds.EDITING_TOOLS.fullmatch(name) and command == "view"):
            return [Operation("read", "", paths, inspects=True)]
        if tool_kinds.EDITING_TOOLS.fullmatch(name):
            return [Operation("edit", "", paths)]
    if tool_kinds.EDITING_TOOLS.fullmatch(name) and (patched := patched_files(arguments)):
        return [Operation("edit", "", tuple(dict.fromkeys(map(normalize_operand, patched))))]
    return [_tool_operation(tool, arguments)]


def failed_symbol(tool: str, arguments: Any, error: str) -> str:
    """Return the symbol of what failed in a call."""
    operation, symbol = parse_operations(tool, arguments, error)[0], tool_symbol(tool, arguments)
    return operation.key if operation.kind == "shell" and symbol.removesuffix(" >") != operation.key else symbol


def _file_path(arguments: Any) -> tuple[str, ...]:
    if not isinstance(arguments, Mapping):
        return ()
    paths = [
        arguments[key] for key in tool_kinds.PATH_KEYS if isinstance(arguments.get(key), str) and arguments[key].strip()
    ]
    return tuple(normalize_operand(path) for path in paths[:1])


def patched_files(arguments: Any) -> list[str]:
    """Return the files that a patch changes, as it names them; none where a call is given no patch."""
    texts = [value for _, value in scalar_leaves(arguments) if isinstance(value, str)]
    return list(dict.fromkeys(path for text in texts for path in _PATCHED_FILE.findall(text)))[:MAX_OPERANDS]


def _tool_operation(tool: str, arguments: Any) -> Operation:
    operands: list[str] = []
    texts: list[str] = []
    for key, value in scalar_leaves(arguments):
        if isinstance(value, bool) or value is None or tool_kinds.SETTING_KEYS.fullmatch(key.rsplit(".", 1)[-1]):
            continue
        text = str(value).strip()
        if isinstance(value, str) and (len(text) > 80 or len(text.split()) > 1):
            texts.append(text)
        elif _identifies(value):
            is_path = isinstance(value, str) and "/" in text
            operands.append(normalize_operand(text) if is_path else f"{key}={text}")
        elif text:
            texts.append(text)
    name = tool_kinds.tool_base_name(tool)
    verb = tool_kinds.SQL_VERB.match(texts[0]) if texts else None
    return Operation(
        "tool",
        f"{tool} {verb[1].upper()}" if verb else tool,
        tuple(dict.fromkeys(operands))[:MAX_OPERANDS],
        name_words(" ".join(texts)),
        inspects=tool_kinds.INSPECTING_TOOLS.fullmatch(name) is not None,
    )


def _identifies(value: Any) -> bool:
    """Whether a short value names one thing, as an id, a path or an address does, and no mode or flag."""
    if isinstance(value, str):
        return len(value) >= 4 and re.search(r"[\d/@:_#.]", value) is not None
    return isinstance(value, int) and abs(value) >= 1000


def scalar_leaves(value: Any, limit: int = 64) -> list[tuple[str, Any]]:
    """Return the scalar values of a JSON value with their dotted keys without list positions, at most `limit`."""
    leaves: list[tuple[str, Any]] = []
    stack: list[tuple[str, Any]] = [("", value)]
    while stack and len(leaves) < limit:
        name, item = stack.pop()
        if isinstance(item, Mapping):
            stack.extend((f"{name}.{k}" if name else str(k), item[k]) for k in reversed(list(item)[:limit]))
        elif isinstance(item, list):
            stack.extend((name, element) for element in reversed(item[:limit]))
        else:
            leaves.append((name, item))
    return leaves


@lru_cache(maxsize=1024)
def _parse_plain_line(line: str) -> tuple[Operation, ...]:
    return _parse_shell_line(line, None)


def _parse_shell_line(line: str, error: str | None) -> tuple[Operation, ...]:
    commands = shell.parse_commands(line)
    blamed = None if error is None else find_blamed(commands, error)
    reported = shell.reported_command(commands) if blamed is None else commands[blamed]
    if reported is None:
        return (Operation("shell", "-", words=name_words(line)),)
    directory = line_directory(line)
    following = commands[next(n for n, command in enumerate(commands) if command is reported) + 1 :]
    hidden = any(command.link in ("|", "|&", "||", ";", "&") for command in following)
    is_remote = reported.program == "ssh" and _OF_SSH.search(error or "") is None
    if is_remote and (remote := " ".join(reported.operands[1:])):
        first, *others = _parse_shell_line(remote, error)  # it is what fails, and what works another time
        return (replace(first, hidden=hidden or first.hidden), *others)
    implied = [command for command in _implied_successes(commands) if command is not reported]
    return tuple(_command_operation(command, line, directory, hidden) for command in [reported, *implied[:8]])


def _implied_successes(commands: list[Command]) -> Iterator[Command]:
    """Yield the commands that must have succeeded if the last one did: those that only && or a pipe joins to it."""
    for command in reversed(commands):
        yield command
        if command.link not in ("&&", "|", "|&"):
            return


def _command_operation(command: Command, line: str, directory: str | None, hidden: bool) -> Operation:
    runs_inline_code = command.program in tool_kinds.INTERPRETERS and (
        "<<" in command.redirections
        or any(option.split("=", 1)[0] in tool_kinds.INLINE_CODE_OPTIONS for option in command.options)
    )
    plain_operands = [
        word
        for word in command.operands
        if len(word) <= 200 and not re.search(r"\s", word) and not _LINES.fullmatch(word)
    ]
    texts = [word for word in command.operands if len(word) > 200 or re.search(r"\s", word)]
    operands = [normalize_operand(word) for word in plain_operands]
    if command.writes:
        operands += [normalize_operand(r.split(">")[-1]) for r in command.redirections if ">" in r and "&" not in r]
    if runs_inline_code:
        texts = [line]
    return Operation(
        "shell",
        command.operation,
        tuple(dict.fromkeys(word for word in operands if len(word) > 1))[:MAX_OPERANDS],
        name_words(" ".join(texts)),
        directory,
        _is_inspection(command),
        hidden,
    )


def _is_inspection(command: Command) -> bool:
    if command.writes:
        return False
    if command.program == "sed":
        return not any(option.startswith(("-i", "--in-place")) for option in command.options)
    if command.program in tool_kinds.INSPECTING_SUBCOMMANDS:
        return (command.subcommand or "").split(" ")[0] in tool_kinds.INSPECTING_SUBCOMMANDS[command.program]
    return command.program in tool_kinds.INSPECTING_PROGRAMS


def normalize_operand(word: str) -> str:
    """Return a path, address or name without "./", a line number, a test's name or a version: they identify nothing."""
    word = word.strip().strip("'\"").replace("\\", "/")
    if "://" in word:
        return re.sub(r"^(\w+://)[^/@]*@", r"\1", word)[:200]
    word = re.sub(r"(?:::.*|(?::\d+)+)$", "", word) if "/" in word or "." in word else word
    word = re.sub(r"(?<=[\w\]])(?:[=<>~!^]=|@(?=[\d^~<>lvn])).*$", "", word)
    while word.startswith("./"):
        word = word[2:]
    return (word.rstrip("/") or word)[:200]


def name_words(text: str) -> tuple[str, ...]:
    """Return the parts of a text's names ("player_name", "playerName": name, player), sorted, without stop words."""
    parts = {part.lower() for part in _NAME_PART.findall(text[:8192])} - tool_kinds.STOP_WORDS
    return tuple(sorted({part.rstrip("s") for part in parts if len(part) > 1}))[:MAX_WORDS]
