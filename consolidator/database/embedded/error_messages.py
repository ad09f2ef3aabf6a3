"""Words for what can go wrong with a directory or a server of ours, so that every message says what, where, what next.

It decides nothing and touches nothing but the file it quotes.
"""

from __future__ import annotations

import errno
from pathlib import Path

from consolidator.errors import DatabaseUnavailable

ELSEWHERE = "or name a PostgreSQL 15+ in CONSOLIDATOR_DATABASE_URL"
FULL = "No space left on device"  # as PostgreSQL's programs say it under LC_ALL=C
TAIL_LINES = 12
MOVE_HOME = "set CONSOLIDATOR_HOME to another directory"
NOT_AS_ROOT = "run this as a user other than root, whose database is in CONSOLIDATOR_HOME"


def from_os_error(doing: str, path: Path, error: OSError, instead: str = MOVE_HOME) -> DatabaseUnavailable:
    """Return the error to raise when the operating system refused us something at `path`."""
    where = f"cannot {doing} in {path}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(doing, path, instead)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return DatabaseUnavailable(
            f"{where}: it is not writable for this user ({error.strerror}); make it so, {instead}, {ELSEWHERE}"
        )
    if error.errno in (errno.EEXIST, errno.ENOTDIR, errno.ELOOP):
        return DatabaseUnavailable(
            f"{where}: something that is not a directory of ours stands there ({error}); move it away, or {instead}"
        )
    return DatabaseUnavailable(f"{where}: {error}; {instead}, {ELSEWHERE}")


def disk_full(doing: str, path: Path, instead: str = MOVE_HOME) -> DatabaseUnavailable:
    """Return the error to raise when there is no room left at `path`."""
    return DatabaseUnavailable(
        f"cannot {doing} in {path}: the disk is full; free at least 100 MB there and try again, or {instead}"
    )


def from_output(doing: str, path: Path, output: str, instead: str = MOVE_HOME) -> DatabaseUnavailable:
    """Return the error to raise when one of PostgreSQL's programs failed; `output` is what it said."""
    if FULL in output:
        return disk_full(doing, path, instead)
    said = "\n  ".join(line for line in output.splitlines()[-TAIL_LINES:] if line.strip())
    return DatabaseUnavailable(f"cannot {doing} in {path}; it said:\n  {said or '(nothing)'}\nMend that, {ELSEWHERE}")


def tail(log: Path, begin: int = 0) -> str:
    """Return the end of a log file, but nothing from before byte `begin`."""
    try:
        with log.open("rb") as file:
            file.seek(max(begin, log.stat().st_size - 8192))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
