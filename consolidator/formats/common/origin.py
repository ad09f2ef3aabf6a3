"""Derive a session's origin from its file, for logs without session ids."""

from __future__ import annotations

from pathlib import Path


def derive_origin(path: Path, root: Path) -> str:
    """Return the file's path below `root` without its suffix; its name if `root` is the file itself."""
    try:
        relative = path.relative_to(root)
    except ValueError:
        relative = Path(path.name)
    if not relative.parts:
        relative = Path(path.name)
    return relative.with_suffix("").as_posix()
