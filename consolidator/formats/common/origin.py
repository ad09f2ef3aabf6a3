"""Names a conversation by its file, for logs that give it no name of their own."""

from __future__ import annotations

from pathlib import Path


def origin_of(path: Path, root: Path) -> str:
    """Return the file's path below `root` without its suffix; its own name where `root` is the file."""
    try:
        below = path.relative_to(root)
    except ValueError:
        below = Path(path.name)
    if not below.parts:
        below = Path(path.name)
    return below.with_suffix("").as_posix()
