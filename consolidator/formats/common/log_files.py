"""Find log files on disk; what cannot be accessed is kept, so that reading it reports the error."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path


def find_files(path: Path, *suffixes: str) -> Iterator[Path]:
    """Yield `path` itself if it is a file, else the files below it with one of the suffixes, sorted.

    Files and directories that cannot be accessed are yielded too, so that reading them reports the error.
    """
    paths = [path] if _may_be_file(path) else []

    def keep_unreadable_folder(error: OSError) -> None:
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            paths.append(Path(error.filename or path))

    for folder, _, names in os.walk(path, onerror=keep_unreadable_folder):
        candidates = (Path(folder, name) for name in names if name.endswith(suffixes))
        paths += [file for file in candidates if _may_be_file(file)]
    yield from sorted(set(paths))


def _may_be_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):  # a broken link, or deleted meanwhile
        return False
    except OSError:
        return True


def path_exists(path: Path) -> bool:
    """Tell whether a path exists; one that cannot be accessed counts as existing."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: an impossible name
        return False
    except OSError:
        return True
    return True
