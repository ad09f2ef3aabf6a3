"""A short, private directory for the server's socket: a socket's path may have some 100 bytes, a home's any number.

Nothing is trusted because of its name: a directory found there must be ours, no link, and closed to everybody else.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from consolidator.database.embedded.account import Account
from consolidator.database.embedded.error_messages import from_os_error

PORT = 5432  # only a part of the socket's name: no port is opened
SOCKET = f".s.PGSQL.{PORT}"
LONGEST_SOCKET = 100  # bytes; Linux allows 107, macOS 103
LONGEST_PATH = 900  # bytes; PostgreSQL cuts paths at 1023, and appends to them


def directory(identity: str, home: Path, account: Account) -> Path:
    """Make, or find again, the socket directory of a home's cluster, and return it."""
    digest = hashlib.sha256(os.fsencode(home) + b"\0" + identity.encode()).hexdigest()
    refusal = from_os_error("make a socket directory", Path("/tmp"), OSError("every path to one is too long"))
    for base in _bases():
        path = base / f"consolidator-{digest[:16]}"
        if len(os.fsencode(path / SOCKET)) > LONGEST_SOCKET or set(str(path)) & set(",\"'\n"):
            continue
        try:
            if not _claim(path, account):
                path = Path(tempfile.mkdtemp(prefix="consolidator-", dir=base))
                _claim(path, account)
        except OSError as error:
            refusal = from_os_error("make a socket directory", base, error)
            continue
        return path
    raise refusal


def is_ours(path: Path, account: Account) -> bool:
    """Tell whether a path is a directory that only this account can enter."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == account.uid and not found.st_mode & 0o077


def sweep(path: Path) -> None:
    """Remove what a dead server left in its socket directory; only while no server can be using it."""
    for name in (SOCKET, f"{SOCKET}.lock"):
        (path / name).unlink(missing_ok=True)


def shortened(target: Path, path: Path, name: str) -> Path:
    """Return a way to name `target` that PostgreSQL can bear: itself, or a link in the socket directory `path`."""
    if len(os.fsencode(target)) <= LONGEST_PATH:
        return target
    link = path / name
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    return link


def _bases() -> list[Path]:
    """Return directories to try, best first."""
    bases = [Path(tempfile.gettempdir()), Path("/tmp")]
    if os.geteuid() == 0:  # only root can write to /run, and anybody can pass through it
        return [Path("/run"), *bases[1:]]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime) and os.stat(runtime).st_uid == os.geteuid():
        bases.insert(0, Path(runtime))
    return bases


def _claim(path: Path, account: Account) -> bool:
    """Have a directory at `path` that belongs to the account alone; return whether that could be."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if is_ours(path, account):
            return True
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False  # a link, a file, or somebody else's
    try:
        found = os.fstat(fd)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            return False
        if account.uid != os.geteuid():
            os.fchown(fd, account.uid, account.gid)
        return True
    finally:
        os.close(fd)
