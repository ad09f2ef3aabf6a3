"""Derive the project of a working directory: all worktrees of a repository are one project.

A pure function of the path's text: the directory may be on another machine, or deleted.
"""

from __future__ import annotations

import re

_DRIVE = re.compile(r"^[A-Za-z]:[\\/]|^\\\\")  # C:\..., C:/..., \\server\share
_SIBLING_WORKTREE = re.compile(r"^(?P<repository>.*/[^/]+)[-.]worktrees/[^/]+(?:/.*)?$")  # .../NAME-worktrees/X
_INNER_WORKTREE = re.compile(r"^(?P<repository>.*/[^/]+?)/(?:\.claude/|\.git/|\.)worktrees/[^/]+(?:/.*)?$")


def derive_project(cwd: str | None) -> str | None:
    """Return the project of a working directory: a worktree's repository, else the normalised directory."""
    path = _normalise(cwd or "")
    for pattern in (_INNER_WORKTREE, _SIBLING_WORKTREE):
        if match := pattern.match(path):
            return match["repository"]
    return path or None


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
