"""Tell which files a shell call writes: by redirection, an editing program, a copy, or inline code that opens them.

Pure. A path that a variable or a glob makes up is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from consolidator.memory.calls import shell
from consolidator.memory.calls.directory import line_directory
from consolidator.memory.calls.shell import Command
from consolidator.memory.calls.symbols import shell_command

MAX_PATHS = 16
_IN_PLACE = re.compile(r"-[a-zA-Z]*i|--in-place")
_COPYING_PROGRAMS = frozenset({"cp", "mv", "install", "rsync", "ln"})
_INLINE_WRITE = re.compile(
    r"\bopen\(\s*[rbf]?['\"]([^'\"\n{]{1,200})['\"]\s*,\s*(?:mode\s*=\s*)?['\"][wax+]"
    r"|\bPath\(\s*[rf]?['\"]([^'\"\n{]{1,200})['\"]\s*\)\.write_(?:text|bytes)"
    r"|\bwriteFile(?:Sync)?\(\s*['\"`]([^'\"`\n$]{1,200})['\"`]"
    r"|\bFile\.write!?\(\s*['\"]([^'\"\n]{1,200})['\"]"
)
_NO_PATH = re.compile(r"[$*?`\n]|^/dev/|^-|^&|^s([/|#,]).*\1")
_READ_TARGET = re.compile(  # `path = "x"` in code that opens `path` for writing
    r"\b(\w+)\s*=\s*(?:[\w.]*Path\()?[rf]?['\"]([^'\"\n{]{1,200})['\"]"
)
_VARIABLE_WRITE = re.compile(r"\bopen\(\s*(\w+)\s*,\s*['\"][wax+]|\b(\w+)\.write_(?:text|bytes)\(")


def written_paths(tool: str, arguments: Any) -> tuple[str, ...]:
    """Return the paths that a shell call writes, from its directory; () for another tool."""
    line = shell_command(tool, arguments)
    if line is None:
        return ()
    directory = line_directory(line)
    paths = (path for path in _find_paths(line) if path and not _NO_PATH.search(path))
    return tuple(dict.fromkeys(_from_directory(path, directory) for path in paths))[:MAX_PATHS]


def _find_paths(line: str) -> Iterator[str]:
    for command in shell.parse_commands(line):
        yield from _command_paths(command)
    text = line[: shell.MAX_SCANNED]
    for match in _INLINE_WRITE.finditer(text):
        yield next(group for group in match.groups() if group)
    written = {name for match in _VARIABLE_WRITE.finditer(text) for name in match.groups() if name}
    if written:
        yield from (match[2] for match in _READ_TARGET.finditer(text) if match[1] in written)


def _command_paths(command: Command) -> Iterator[str]:
    for redirection in command.redirections:
        if ">" in redirection and ">&" not in redirection:
            yield redirection.rsplit(">", 1)[-1].lstrip("|").strip("'\"")
    if command.program == "tee":
        yield from command.operands
    elif command.program in ("sed", "perl") and any(_IN_PLACE.match(option) for option in command.options):
        has_script = any(option.startswith(("-e", "--expression", "-f")) for option in command.options)
        yield from command.operands[0 if has_script else 1 :]
    elif command.program in _COPYING_PROGRAMS and len(command.operands) > 1:
        yield command.operands[-1]


def _from_directory(path: str, directory: str | None) -> str:
    path = path.removeprefix("./")
    return path if directory is None or path.startswith(("/", "~")) else f"{directory}/{path}"
