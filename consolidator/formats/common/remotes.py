"""Tell which repository a working directory is a checkout of, by the remote that it came from.

A directory of this machine speaks for itself: `origin` in its git configuration, as git believes it. Of a directory
that is not here a log may say it, by a field of its own or by what git printed, and is believed only where the folder
has the repository's name: a log that somebody sent chooses its directory, and so its project, anyway.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from consolidator.formats.common.project import read_beginning

_MAX_CONFIG = 64 << 10  # bytes
_MAX_PRINTED = 16 << 10  # characters of an output that are read
_ORIGIN = re.compile(r'^\s*\[remote "origin"\]\s*$([^\[]*)', re.MULTILINE)
_URL = re.compile(r"^\s*url\s*=\s*\"?([^\s\"]+)\"?\s*$", re.MULTILINE)
_REMOTE = re.compile(
    r"(?:(?:https?|ssh|git)://)?(?:[^\s/@]+@)?(?P<host>[\w.-]+)(?::\d+(?=/))?[:/](?P<path>[\w.~-]+(?:/[\w.~-]+)+)/?"
)
_LOCAL = re.compile(r"localhost|127(?:\.\d+){3}|\.{0,2}")
# Calls that print the address of `origin`, and nothing else that could look like it.
_ASKS = re.compile(
    r"git (?:(?:push|fetch|pull)(?: -[\w-]+)*(?: origin(?: [\w./:+-]+)*)?|remote (?:-v|get-url origin))"
    r"(?: 2>&1)?(?: \| (?:head|tail)(?: -n?\s?\d+)?)?"
)
_ADDS = re.compile(
    r"git worktree add(?: -[bB] [\w.][\w./-]*| --?[\w-]+)* \"?(?P<path>[\w./@+-]+)\"?(?: [\w./@-]+)?(?: -b [\w./-]+)?"
    r"(?: 2>&1)?(?: && .*)?"
)
_PRINTED = re.compile(r"^(?:To |From |origin\t|)(\S{1,300}?[:/]\S{1,300}?)(?: \((?:fetch|push)\))?$", re.MULTILINE)


def find_repository(project: str | None, claim: object = None) -> str | None:
    """Return the repository whose checkout a project's directory is: "host/owner/name"; None where nothing tells.

    `claim` is the address that a log gives, which counts for a directory that is not on this machine.
    """
    if project is None:
        return None
    if project.startswith("/") and not project.startswith("//") and os.path.isdir(project):
        origin = _ORIGIN.search(read_beginning(Path(project, ".git", "config"), _MAX_CONFIG, is_own=True))
        url = origin and _URL.search(origin[1])
        return normalise_remote(url[1]) if url else None
    repository = normalise_remote(claim) if isinstance(claim, str) else None
    folder = re.split(r"[/\\]", project)[-1].lower()
    return repository if repository is not None and repository.rpartition("/")[2].lower() == folder else None


def asks_remote(line: str, project: str) -> bool:
    """Whether a command line prints the address that the checkout in a directory came from."""
    line = line.strip().removeprefix(f"cd {project} && ").replace(f"git -C {project} ", "git ", 1)
    return _ASKS.fullmatch(line) is not None


def find_worktree(line: str, directory: str) -> str | None:
    """Return the folder that a call of `git worktree add` makes, where the whole line is that call."""
    match = _ADDS.fullmatch(line.strip().removeprefix(f"cd {directory} && "))
    return None if match is None else os.path.normpath(os.path.join(directory, match["path"]))


def read_printed(text: str) -> str | None:
    """Return the address that such a call printed."""
    match = _PRINTED.search(text[:_MAX_PRINTED])
    return match[1] if match else None


def normalise_remote(url: str) -> str | None:
    """Return a remote's address without scheme, user, password, port and ending; None for one of this machine."""
    match = _REMOTE.fullmatch(url.strip()[:500])
    if match is None or _LOCAL.fullmatch(match["host"]):
        return None
    return f"{match['host'].lower()}/{match['path'].removesuffix('.git')}"
