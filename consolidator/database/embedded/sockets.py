"""A short, private directory for the server's socket: a socket's path is limited to some 100 bytes, a home's is not.

An existing directory is used only if it is no link, belongs to the right account and is closed to everybody else.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from consolidator.database.embedded.account import Account
from consolidator.database.embedded.unavailable import from_os_error

PORT = 5432  # only part of the socket's name: no TCP port is opened
SOCKET = f".s.PGSQL.{PORT}"
MAX_SOCKET_PATH = 100  # bytes; Linux allows 107, macOS 103
MAX_PATH = 900  # bytes; PostgreSQL cuts paths at 1023, and appends to them


def ensure_directory(identity: str, home: Path, account: Account) -> Path:
    """Return the socket directory of a home's cluster, created if it is missing."""
    digest = hashlib.sha256(os.fsencode(home) + b"\0" + identity.encode()).hexdigest()
    refusal = from_os_error("make a socket directory", Path("/tmp"), OSError("every path to one is too long"))
    for base in _candidate_directories():
        path = base / f"consolidator-{digest[:16]}"
        if len(os.fsencode(path / SOCKET)) > MAX_SOCKET_PATH or set(str(path)) & set(",\"'\n"):
            continue
        try:
            if not _claim_directory(path, account):
                path = Path(tempfile.mkdtemp(prefix="consolidator-", dir=base))
                _claim_directory(path, account)
        except OSError as error:
            refusal = from_os_error("make a socket directory", base, error)
            continue
        return path
    raise refusal


def is_private(path: Path, account: Account) -> bool:
    """Tell whether a path is a directory that only this account can enter."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == account.uid and not status.st_mode & 0o077


def remove_leftovers(path: Path) -> None:
    """Remove what a dead server left in its socket directory; the caller makes sure that no server uses it."""
    for name in (SOCKET, f"{SOCKET}.lock"):
        (path / name).unlink(missing_ok=True)


def shorten_path(target: Path, path: Path, name: str) -> Path:
    """Return a path to `target` that is short enough for PostgreSQL: itself, or a link in the directory `path`."""
    if len(os.fsencode(target)) <= MAX_PATH:
        return target
    link = path / name
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    return link


def _candidate_directories() -> list[Path]:
    """Return the parent directories to try, best first."""
    bases = [Path(tempfile.gettempdir()), Path("/tmp")]
    if os.geteuid() == 0:  # only root can write to /run, and everybody can pass through it
        return [Path("/run"), *bases[1:]]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime) and os.stat(runtime).st_uid == os.geteuid():
        bases.insert(0, Path(runtime))
    return bases


def _claim_directory(path: Path, account: Account) -> bool:
    """Make `path` a directory that only the account can enter; return whether that worked."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if is_private(path, account):
            return True
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False  # a link, a file, or another user's
    try:
        status = os.fstat(fd)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            return False
        if account.uid != os.geteuid():
            os.fchown(fd, account.uid, account.gid)
        return True
    finally:
        os.close(fd)
