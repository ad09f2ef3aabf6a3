"""Derive the project of a working directory: all worktrees of a repository are one project.

A worktree that exists says which repository it is of. Else the path's text decides, since the directory may be on
another machine, or deleted: of an agent that keeps its worktrees away from their repository, this is taken to lie in
the home beside the agent's folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from consolidator.formats.common.log_files import open_log

_DRIVE = re.compile(r"^[A-Za-z]:[\\/]|^\\\\")  # C:\..., C:/..., \\server\share
_SIBLING_WORKTREE = re.compile(r"^(?P<repository>.*/[^/]+)(?:__|[-.])worktrees/[^/]+(?:/.*)?$")  # .../NAME-worktrees/X
_INNER_WORKTREE = re.compile(r"^(?P<repository>.*/[^/]+?)/(?:\.claude/|\.git/|\.)worktrees/[^/]+(?:/.*)?$")
# ~/.codex/worktrees/X/NAME, ~/.cursor/worktrees/NAME/X
_AGENTS_WORKTREE = re.compile(
    r"(?P<worktree>(?P<home>.*)/(?:\.codex/worktrees/[^/]+/(?P<codex>[^/]+)|\.cursor/worktrees/(?P<cursor>[^/]+)/[^/]+))"
    r"(?:/.*)?"
)
# ~/worktrees/NAME/X/NAME, as several tools that manage worktrees lay them out
_NAMED_WORKTREE = re.compile(r"(?P<worktree>(?P<repository>.*/worktrees/(?P<name>[^/]+))/[^/]+/(?P=name))(?:/.*)?")
_GIT_FILE = re.compile(r"gitdir:\s*(?P<repository>.+)/\.git/worktrees/(?P<name>[^/\n]+)\s*")
_MAX_GIT_FILE = 4096  # bytes


def derive_project(cwd: object) -> str | None:
    """Return the project of a working directory: a worktree's repository, else the normalised directory."""
    path = _normalise(cwd if isinstance(cwd, str) else "")
    if match := _AGENTS_WORKTREE.fullmatch(path):
        repository = _read_repository(Path(match["worktree"]))
        return repository or f"{match['home']}/{match['codex'] or match['cursor']}"
    for pattern in (_INNER_WORKTREE, _SIBLING_WORKTREE):
        if match := pattern.match(path):
            return match["repository"]
    named = _NAMED_WORKTREE.fullmatch(path)
    place = named["worktree"] if named else path
    is_here = path.startswith("/") and not path.startswith("//")  # a log must not have another machine asked
    repository = _read_repository(Path(place), is_proved=True) if is_here else None
    return repository or (named["repository"] if named else path) or None


def _read_repository(worktree: Path, *, is_proved: bool = False) -> str | None:
    """Return the repository that a worktree on this machine says it is of; None where there is none.

    `is_proved` asks the repository, too: a folder that somebody sent may say anything.
    """
    match = _GIT_FILE.fullmatch(read_beginning(worktree / ".git").replace("\\", "/"))
    if match is None:
        return None
    repository = _normalise(str(worktree / match["repository"]))
    pointer = (
        read_beginning(Path(repository, ".git", "worktrees", match["name"], "gitdir")).strip() if is_proved else ""
    )
    return repository if not is_proved or (pointer and Path(pointer) == worktree / ".git") else None


def read_beginning(path: Path, size: int = _MAX_GIT_FILE, *, is_own: bool = False) -> str:
    """Return the beginning of a file; "" where it is none, or belongs to somebody else though it must be `is_own`."""
    try:
        with open_log(path) as file:  # refuses what is no file
            if is_own and os.fstat(file.fileno()).st_uid != os.geteuid():
                return ""
            return file.read(size).decode("utf-8", "replace")
    except (OSError, ValueError):  # or no path
        return ""


def _normalise(path: str) -> str:
    """Return a path with forward slashes, an upper-case drive letter, and no `.`, `..`, doubled or trailing slashes."""
    path = path.strip()
    if _DRIVE.match(path):
        path = path.replace("\\", "/")
        path = path[0].upper() + path[1:]
    root = "//" if path.startswith("//") else "/" if path.startswith("/") else ""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", ".") and not (part == ".." and root):
            parts.append(part)
    return root + "/".join(parts)
