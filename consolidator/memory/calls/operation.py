"""Says what a call operates on: the program or tool, and the paths, addresses, names and words it is given.

Pure: looks at one call's arguments alone. Whether two calls are the same operation is told by `match`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from consolidator.memory.calls import shell, tool_kinds
from consolidator.memory.calls.shell import Command
from consolidator.memory.calls.symbols import shell_command

MAX_OPERANDS = 24
MAX_WORDS = 80

_PATCHED = re.compile(r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ b?/?)(\S+)", re.MULTILINE)
_CD = re.compile(r"\s*(?:cd|pushd)\s+(\"[^\"]+\"|'[^']+'|[^\s;&|]+)\s*(?:&&|;)")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class Operation:
    """What a call does, to what."""

    kind: str  # shell | read | edit | tool
    name: str  # "git push"; "" for files; else the tool
    operands: tuple[str, ...] = ()  # paths, URLs, names, normalised
    words: tuple[str, ...] = ()  # pieces of code, queries and other text, sorted
    directory: str | None = None  # where the command says it runs
    inspects: bool = False  # only looks, changes nothing
    hidden: bool = False  # the exit status is not that of the program: a pipe or `||` stands behind it

    @property
    def key(self) -> str:
        """Return the operation's name, as grouping and display use it."""
        prefix = {"shell": "sh:", "tool": ""}.get(self.kind, self.kind)
        return f"{prefix}{self.name}"

    @property
    def program(self) -> str:
        """Return what carries it out: the shell's program, the class of file tool, or the tool."""
        return self.name.split(" ", 1)[0] if self.kind == "shell" else self.key

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "kind": self.kind,
            "name": self.name,
            "operands": list(self.operands),
            "words": list(self.words),
            "directory": self.directory,
            "inspects": self.inspects,
            "hidden": self.hidden,
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Operation:
        """Return the operation that `to_json` described."""
        return cls(**{**state, "operands": tuple(state["operands"]), "words": tuple(state["words"])})


def parse_operations(tool: str, arguments: Any) -> list[Operation]:
    """Return what a call does: first the operation whose outcome it reports, then others that its success proves."""
    line = shell_command(tool, arguments)
    if line is not None:
        return _shell(line)
    name = tool.rsplit("__", 1)[-1].lower()
    paths = _paths(arguments)
    if paths and isinstance(arguments, Mapping):
        command = str(arguments.get("command", ""))
        if tool_kinds.READING_TOOLS.fullmatch(name) or (tool_kinds.EDITING_TOOLS.fullmatch(name) and command == "view"):
            return [Operation("read", "", paths, inspects=True)]
        if tool_kinds.EDITING_TOOLS.fullmatch(name):
            return [Operation("edit", "", paths)]
    if tool_kinds.EDITING_TOOLS.fullmatch(name) and (patched := _patched(arguments)):
        return [Operation("edit", "", patched)]
    return [_tool(tool, arguments)]


def _paths(arguments: Any) -> tuple[str, ...]:
    if not isinstance(arguments, Mapping):
        return ()
    found = [
        arguments[key] for key in tool_kinds.PATH_KEYS if isinstance(arguments.get(key), str) and arguments[key].strip()
    ]
    return tuple(normalize_operand(path) for path in found[:1])


def _patched(arguments: Any) -> tuple[str, ...]:
    texts = [value for _, value in scalar_leaves(arguments) if isinstance(value, str)]
    return tuple(dict.fromkeys(normalize_operand(path) for text in texts for path in _PATCHED.findall(text)))[
        :MAX_OPERANDS
    ]


def _tool(tool: str, arguments: Any) -> Operation:
    operands: list[str] = []
    text: list[str] = []
    for key, value in scalar_leaves(arguments):
        if isinstance(value, bool) or value is None or tool_kinds.SETTING_KEYS.fullmatch(key.rsplit(".", 1)[-1]):
            continue
        said = str(value).strip()
        if isinstance(value, str) and (len(said) > 80 or len(said.split()) > 1):
            text.append(said)
        elif _telling(value):
            operands.append(
                f"{key}={said}" if not isinstance(value, str) or "/" not in said else normalize_operand(said)
            )
        elif said:
            text.append(said)
    name = tool.rsplit("__", 1)[-1].lower()
    verb = tool_kinds.SQL_VERB.match(text[0]) if text else None
    return Operation(
        "tool",
        f"{tool} {verb[1].upper()}" if verb else tool,
        tuple(dict.fromkeys(operands))[:MAX_OPERANDS],
        name_words(" ".join(text)),
        inspects=tool_kinds.INSPECTING_TOOLS.fullmatch(name) is not None,
    )


def _telling(value: Any) -> bool:
    """Whether a short value names one thing, as an id, a path or an address does, and not a mode or a flag."""
    if isinstance(value, str):
        return len(value) >= 4 and re.search(r"[\d/@:_#.]", value) is not None
    return isinstance(value, int) and abs(value) >= 1000


def scalar_leaves(value: Any, key: str = "", limit: int = 64) -> list[tuple[str, Any]]:
    """Return the scalar values of a JSON value with their dotted keys, list positions left out, at most `limit`."""
    found: list[tuple[str, Any]] = []
    stack: list[tuple[str, Any]] = [(key, value)]
    while stack and len(found) < limit:
        name, item = stack.pop()
        if isinstance(item, Mapping):
            stack.extend((f"{name}.{k}" if name else str(k), item[k]) for k in reversed(list(item)[:limit]))
        elif isinstance(item, list):
            stack.extend((name, part) for part in reversed(item[:limit]))
        else:
            found.append((name, item))
    return found


@lru_cache(maxsize=1024)
def _shell_cached(line: str) -> tuple[Operation, ...]:
    commands = shell.parse_commands(line)
    main = shell.reported_command(commands)
    if main is None:
        return (Operation("shell", "-", words=name_words(line)),)
    directory = _CD.match(line)
    where = normalize_operand(directory[1].strip("'\"")) if directory else None
    hidden = _hides(commands, main)
    proven = [command for command in _proven(commands) if command is not main]
    return tuple(_command(command, line, where, hidden) for command in [main, *proven[:8]])


def _shell(line: str) -> list[Operation]:
    return list(_shell_cached(line[: shell.MAX_COMMAND]))


def _proven(commands: list[Command]) -> Iterator[Command]:
    """Yield the commands that must have succeeded when the last one did: those that only && joins to it."""
    for command in reversed(commands):
        yield command
        if command.link not in ("&&", "|", "|&"):
            return


def _hides(commands: list[Command], main: Command) -> bool:
    behind = commands[next(n for n, command in enumerate(commands) if command is main) + 1 :]
    return any(command.link in ("|", "|&", "||", ";", "&") for command in behind)


def _command(command: Command, line: str, where: str | None, hidden: bool) -> Operation:
    inline = command.program in tool_kinds.INTERPRETERS and (
        "<<" in command.redirections
        or any(option.split("=", 1)[0] in tool_kinds.INLINE_CODE_OPTIONS for option in command.options)
    )
    plain = [word for word in command.operands if len(word) <= 200 and not re.search(r"\s", word)]
    text = [word for word in command.operands if len(word) > 200 or re.search(r"\s", word)]
    operands = [normalize_operand(word) for word in plain]
    if command.writes:
        operands += [normalize_operand(r.split(">")[-1]) for r in command.redirections if ">" in r and "&" not in r]
    if inline:
        text = [line]
    return Operation(
        "shell",
        command.name,
        tuple(dict.fromkeys(word for word in operands if len(word) > 1))[:MAX_OPERANDS],
        name_words(" ".join(text)),
        where,
        _inspects(command),
        hidden,
    )


def _inspects(command: Command) -> bool:
    if command.writes:
        return False
    if command.program == "sed":
        return not any(option.startswith(("-i", "--in-place")) for option in command.options)
    if command.program in tool_kinds.INSPECTING_SUBCOMMANDS:
        return (command.subcommand or "").split(" ")[0] in tool_kinds.INSPECTING_SUBCOMMANDS[command.program]
    return command.program in tool_kinds.INSPECTING_PROGRAMS


def normalize_operand(word: str) -> str:
    """Return a path, address or name without what does not tell it apart: "./", a line, a test's name, a version."""
    word = word.strip().strip("'\"").replace("\\", "/")
    if "://" in word:
        return re.sub(r"^(\w+://)[^/@]*@", r"\1", word)[:200]
    word = re.sub(r"(?:::.*|(?::\d+)+)$", "", word) if "/" in word or "." in word else word
    word = re.sub(r"(?<=[\w\]])(?:[=<>~!^]=|@(?=[\d^~<>lvn])).*$", "", word)
    while word.startswith("./"):
        word = word[2:]
    return (word.rstrip("/") or word)[:200]


def name_words(text: str) -> tuple[str, ...]:
    """Return the pieces of a text's names ("player_name", "playerName": name, player), sorted, plain ones left out."""
    pieces = {piece.lower() for piece in _PIECE.findall(text[:8192])} - tool_kinds.STOP_WORDS
    return tuple(sorted({piece.rstrip("s") for piece in pieces if len(piece) > 1}))[:MAX_WORDS]
