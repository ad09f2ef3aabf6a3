"""File locks, which the kernel releases when their holder dies, however it dies.

Three files in a home's `postgres` directory coordinate the processes that use its server:
`starting` (exclusive: starting or stopping the server), `users` (shared: one holder per user), `keeper` (exclusive).
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from consolidator.errors import DatabaseUnavailable

LOCK_SECONDS = 900.0  # seconds; crash recovery of a large database may hold `starting` for minutes
POLL_SECONDS = 0.02


class FileLock:
    """A flock on a file; two instances in one process exclude each other too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def try_exclusive(self) -> bool:
        """Take the lock exclusively if nobody holds it; return whether that worked."""
        return self._try(fcntl.LOCK_EX)

    def acquire_shared(self, timeout: float = LOCK_SECONDS) -> None:
        """Take the lock shared."""
        self._wait(fcntl.LOCK_SH, timeout)

    def acquire_exclusive(self, timeout: float = LOCK_SECONDS) -> None:
        """Take the lock exclusively, after all others have released it."""
        self._wait(fcntl.LOCK_EX, timeout)

    def release(self) -> None:
        """Release the lock and keep the file open."""
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the lock and close the file; closing twice does nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def is_current(self) -> bool:
        """Tell whether the path still names the locked file: it may have been removed and created again."""
        try:
            named = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        locked = os.fstat(self.fd)
        return (named.st_dev, named.st_ino) == (locked.st_dev, locked.st_ino)

    @contextmanager
    def hold_exclusive(self) -> Iterator[None]:
        """Hold the lock exclusively for a block."""
        self.acquire_exclusive()
        try:
            yield
        finally:
            self.release()

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self.fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait(self, kind: int, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self._try(kind):
            if time.monotonic() > deadline:
                raise DatabaseUnavailable(
                    f"another process has held {self.path} for {timeout:.0f} s; see who with `fuser {self.path}`, "
                    f"end it and try again"
                )
            time.sleep(POLL_SECONDS)


class ServerLocks:
    """The locks of one user of a home's server."""

    def __init__(self, state_dir: Path) -> None:
        self.starting = FileLock(state_dir / "starting.lock")
        self.users = FileLock(state_dir / "users.lock")

    @classmethod
    def open(cls, state_dir: Path) -> ServerLocks:
        """Return the locks in a state directory, with `starting` held."""
        while True:
            locks = cls(state_dir)
            locks.starting.acquire_exclusive()
            if locks.starting.is_current() and locks.users.is_current():
                return locks
            locks.close()

    def close(self) -> None:
        """Release all of them."""
        self.users.close()
        self.starting.close()
