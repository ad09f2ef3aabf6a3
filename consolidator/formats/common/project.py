"""Which project a working directory belongs to: the worktrees of one repository are one project.

A pure function of the path's text: the directory may be on another machine, or gone.
"""

from __future__ import annotations

import re

_DRIVE = re.compile(r"^[A-Za-z]:[\\/]|^\\\\")  # C:\..., C:/..., \\server\share
_SIBLING = re.compile(r"^(?P<repository>.*/[^/]+)[-.]worktrees/[^/]+(?:/.*)?$")  # .../NAME-worktrees/X
_INSIDE = re.compile(r"^(?P<repository>.*/[^/]+?)/(?:\.claude/|\.git/|\.)worktrees/[^/]+(?:/.*)?$")


def project_of(cwd: str | None) -> str | None:
    """Return the project of a working directory: its repository if it is a worktree, else itself, normalised."""
    path = _normal(cwd or "")
    for pattern in (_INSIDE, _SIBLING):
        if found := pattern.match(path):
            return found["repository"]
    return path or None


def _normal(path: str) -> str:
    """Return a path with forward slashes, without `.`, `..`, doubled or trailing slashes; a drive letter is upper."""
    path = path.strip()
    if _DRIVE.match(path):
        path = path.replace("\\", "/")
        path = path[0].upper() + path[1:]
    root = "//" if path.startswith("//") else "/" if path.startswith("/") else ""
    kept: list[str] = []
    for part in path.split("/"):
        if part == ".." and kept and kept[-1] != "..":
            kept.pop()
        elif part not in ("", ".") and not (part == ".." and root):
            kept.append(part)
    return root + "/".join(kept)
