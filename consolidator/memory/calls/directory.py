"""Tell in which directory a call runs: as far as the call itself says it, or from where the shell was before it.

Pure. Where a shell was is known of logs that say it with each call.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from consolidator.memory.calls.symbols import shell_command

_DIRECTORY_KEYS = ("workdir", "cwd", "working_directory", "working_dir", "workingDirectory", "directory")
_CD = re.compile(
    r"[\s(]*(?:set [-+]\w+\s*(?:&&|;|\n)\s*)*(?:cd|pushd|(?i:set-location)(?:\s+-(?:Literal)?Path)?)\s+(?:--\s+)?"
    r"(\"[^\"\n]+\"|'[^'\n]+'|[^\s;&|()]+)"
    r"\s*(?:>\s*/dev/null\s*)?(?:&&|;|\n)"
)
_DRIVE = re.compile(r"[A-Za-z]:(?=[\\/]|$)")
_MOUNTED_DRIVE = re.compile(r"(?:/mnt)?/([A-Za-z])(?=/|$)")  # of Git Bash "/d/app", of WSL "/mnt/d/app"
_SIBLING_WORKTREE = re.compile(r"(?:__|[-.])worktrees/[^/]+(?:/|$)")  # after the folder of the repository
_NOT_THERE = re.compile(
    r"no such file|did not match any files|can't cd to|path not in the working tree|(?:path|directory) does not exist",
    re.IGNORECASE,
)
_ALREADY_THERE = "zoxide: you are already in the only match"  # what it calls `cd` or `z`
_CD_FAILED = re.compile(r"\bcd: ?\d*|can't cd to ", re.IGNORECASE)
_LATER_CD = re.compile(r"(?:[;&|\n(]|^)[^\S\n]*(?:cd|pushd|popd|(?i:set-location))\b")
_ANY_CD = re.compile(r"\b(?:cd|pushd|popd|(?i:set-location))\b")
_EXPANDED = re.compile(r"[$`*?]")  # by the shell, to what it alone knows
_MAX_ERROR, _MAX_PARTS = 4000, 24  # characters that are read, and parts of a path that are compared


def call_directory(tool: str, arguments: Any) -> str | None:
    """Return where a call runs: the `cd`s that start its command line, after its directory argument; None if unsaid."""
    line = shell_command(tool, arguments)
    if line is None:
        return None
    directory = None
    if isinstance(arguments, Mapping):
        directories = (arguments.get(key) for key in _DIRECTORY_KEYS)
        directory = next((_normalize(path) for path in directories if isinstance(path, str) and path.strip()), None)
    return line_directory(line, directory)


def line_directory(line: str, start: str | None = None) -> str | None:
    """Return where a command line runs after the `cd`s that start it; `start` is where it starts."""
    position = 0
    directory = plain_path(start) if start and _DRIVE.match(start) else start
    while match := _CD.match(line, position):
        directory = _join(directory, _normalize(match[1].strip("'\"")))
        position = match.end()
    return directory


def find_place(tool: str, arguments: Any, cwd: str | None, root: str | None) -> str | None:
    """Return where a shell call runs, below `root`: "" for that folder itself, a whole path for one elsewhere.

    `cwd` is where the shell was before it. None where that is unknown, or the line runs its parts in several folders.
    """
    line = shell_command(tool, arguments)
    if line is None or not cwd or not root or changes_folder(line):
        return None
    directory = _join(_normalize(plain_path(cwd, root)), call_directory(tool, arguments) or ".")
    return place_below(directory, root) if is_absolute(directory) and "$" not in directory else None


def find_left_folder(line: str, cwd: str) -> str | None:
    """Return where a command line leaves a shell that was in `cwd`; None where that is not certain."""
    line = line.strip()
    in_subshell = line[:1] + line[-1:] == "()" or (line.endswith("&") and not line.endswith("&&"))
    if in_subshell or _ANY_CD.search(line) is None:
        return cwd
    line = f"{line}\n"
    directory = None if _ANY_CD.search(strip_cd(line)) else line_directory(line, cwd)
    return directory if directory is not None and is_absolute(directory) and not _EXPANDED.search(directory) else None


def changes_folder(line: str) -> bool:
    """Whether a command line changes its directory after the `cd`s that start it: its parts run in several."""
    return _LATER_CD.search(strip_cd(line.lstrip(" (")).partition("<<")[0]) is not None


def place_below(directory: str, root: str) -> str:
    """Return where a directory lies below a folder: "" for the folder itself, the whole path for one elsewhere.

    A worktree beside the folder, `ROOT-worktrees/NAME`, is taken for the folder.
    """
    path, above = plain_path(directory, root), plain_path(root).rstrip("/")
    if f"{path}/".startswith(f"{above}/"):
        return path[len(above) + 1 :]
    worktree = _SIBLING_WORKTREE.match(path, len(above)) if above and path.startswith(above) else None
    return path[worktree.end() :] if worktree else path


@lru_cache(maxsize=65536)
def plain_path(path: str, beside: str | None = None) -> str:
    """Return a path with slashes and without `.` and `..` as far as they can be resolved; "" for where one is.

    One on a drive of Windows is "D:/app". Git Bash and WSL call that "/d/app" and "/mnt/d/app", which elsewhere are
    other folders: they are read so `beside` a path that has a drive.
    """
    if beside is not None and _DRIVE.match(beside):
        path = _MOUNTED_DRIVE.sub(r"\1:", path, count=1) if _MOUNTED_DRIVE.match(path) else path
    if _DRIVE.match(path):
        path = path[0].upper() + path[1:].replace("\\", "/")
    path = posixpath.normpath(path)
    return "" if path == "." else path


def is_absolute(path: str) -> bool:
    """Whether a path begins at the root or a drive."""
    return path.startswith("/") or _DRIVE.match(path) is not None


def names_path_in(place: str, words: Iterable[str]) -> bool:
    """Whether words name a path in a folder as seen from above it: the same words are no paths within the folder."""
    return bool(place) and any(word.strip("'\"").removeprefix("./").startswith(f"{place}/") for word in words)


def goes_again(place: str, error: str) -> bool:
    """Whether a `cd` failed since the shell was in the folder already that it goes to: `place` is where it would be."""
    is_said = _ALREADY_THERE in error[:_MAX_ERROR]
    if not is_said and _NOT_THERE.search(error, 0, _MAX_ERROR) is None:
        return False
    parts = place.split("/")[-_MAX_PARTS:]
    halves = range(1, len(parts) // 2 + 1)
    repeated = {"/".join(parts[-n:]) for n in halves if parts[-n:] == parts[-2 * n : -n]}
    failed = (line for line in error[:_MAX_ERROR].splitlines() if repeated and _CD_FAILED.search(line))
    return (is_said and bool(repeated)) or any(word in repeated for line in failed for word in _words_of(line))


def _words_of(line: str) -> Iterator[str]:
    return (word.strip("'\"`‘’").removeprefix("./").rstrip("/.") for word in re.split(r":(?:\s|$)|\s", line))


def expects_root(place: str, words: Sequence[str], error: str, known: Iterable[str] = ()) -> bool:
    """Whether a call failed in `place` since its paths are as seen from the project's folder.

    One that is not there begins with that folder, or is `known` in the project's.
    """
    lines = [line for line in error[:_MAX_ERROR].splitlines() if _NOT_THERE.search(line)]
    named = {each for line in lines for each in _words_of(line)}
    paths = {word.removeprefix("./").rstrip("/") for word in words} - {""}
    missing = [path for path in paths if any(f"/{each}".endswith(f"/{path}") for each in named)]
    is_known = any(f"{each}/".startswith(f"{path}/") for path in missing for each in known)
    return bool(place) and (is_known or any(f"{path}/".startswith(f"{place}/") for path in missing))


def name_folder(place: str) -> str:
    """Return a directory below the project's folder in words."""
    return "the project root" if place in ("", ".") else f"`{place.replace('`', chr(39))}/`"


def name_folders(places: Sequence[str]) -> str:
    """Return directories below the project's folder in words, of which each will do."""
    *before, last = map(name_folder, places)
    return f"{', '.join(before)} or {last}" if before else last


def strip_cd(line: str) -> str:
    """Return a command line without the `cd`s that start it; a group in parentheses stays whole."""
    position = 0
    if line.lstrip().startswith("("):
        return line
    while match := _CD.match(line, position):
        position = match.end()
    return line[position:]


def in_directory(line: str, directory: str | None) -> str:
    """Return a command line as it runs in a directory; as it is where none is said."""
    return f"cd {directory} && {line}" if directory and line else line


def is_other_directory(first: str | None, second: str | None) -> bool:
    """Whether two directories are certainly different; an unknown one may be any, "app" may be "/srv/app"."""
    if not first or not second or first == second:
        return False
    shorter, longer = sorted((first.removeprefix("~/"), second.removeprefix("~/")), key=len)
    return not longer.endswith("/" + shorter.lstrip("/"))


def _normalize(path: str) -> str:
    path = path.strip().replace("\\", "/")
    while path.startswith("./"):
        path = path[2:]
    return (path.rstrip("/") or path)[:200]


def _join(start: str | None, path: str) -> str:
    """Return a path as seen from a directory, with its leading `..` resolved."""
    if start is None or path.startswith(("~", "$", "-")) or is_absolute(path):
        return plain_path(path, start) if _DRIVE.match(path) or _DRIVE.match(start or "") else path
    parts = start.split("/") if start else []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] not in ("..", "", "~"):
            parts.pop()
        elif part not in (".", ""):
            parts.append(part)
    return "/".join(parts) or "."
