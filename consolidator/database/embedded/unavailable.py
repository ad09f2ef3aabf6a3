"""DatabaseUnavailable errors of the embedded server: each says what failed, where, and what to do next."""

from __future__ import annotations

import errno
from pathlib import Path

from consolidator.errors import DatabaseUnavailable, DiskFull

ELSEWHERE = "or name a PostgreSQL 15+ in CONSOLIDATOR_DATABASE_URL"
FULL = "No space left on device"  # the message of PostgreSQL's programs under LC_ALL=C
TAIL_LINES = 12
MOVE_HOME = "set CONSOLIDATOR_HOME to another directory"
NOT_AS_ROOT = "run this as a user other than root, whose database is in CONSOLIDATOR_HOME"


def from_os_error(action: str, path: Path, error: OSError, advice: str = MOVE_HOME) -> DatabaseUnavailable:
    """Return the error for something that the operating system refused at `path`."""
    where = f"cannot {action} in {path}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(action, path, advice)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return DatabaseUnavailable(
            f"{where}: it is not writable for this user ({error.strerror}); make it so, {advice}, {ELSEWHERE}"
        )
    if error.errno in (errno.EEXIST, errno.ENOTDIR, errno.ELOOP):
        return DatabaseUnavailable(f"{where}: something else is in the way ({error}); move it away, or {advice}")
    return DatabaseUnavailable(f"{where}: {error}; {advice}, {ELSEWHERE}")


def disk_full(action: str, path: Path, advice: str = MOVE_HOME) -> DiskFull:
    """Return the error for a full disk at `path`."""
    return DiskFull(
        f"cannot {action} in {path}: the disk is full; free at least 100 MB there and try again, or {advice}"
    )


def from_output(action: str, path: Path, output: str, advice: str = MOVE_HOME) -> DatabaseUnavailable:
    """Return the error for a failed PostgreSQL program, with the end of its output."""
    if FULL in output:
        return disk_full(action, path, advice)
    tail_lines = "\n  ".join(line for line in output.splitlines()[-TAIL_LINES:] if line.strip())
    return DatabaseUnavailable(
        f"cannot {action} in {path}; it said:\n  {tail_lines or '(nothing)'}\nMend that, {ELSEWHERE}"
    )


def read_log_tail(log: Path, start: int = 0) -> str:
    """Return the end of a log file, from byte `begin` at the earliest."""
    try:
        with log.open("rb") as file:
            file.seek(max(start, log.stat().st_size - 8192))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
