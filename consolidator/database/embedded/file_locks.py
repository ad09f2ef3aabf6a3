"""File locks, which the kernel gives back when their holder dies, however it dies.

Three files in a home's `postgres` directory carry all that processes must agree on:
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

PATIENCE = 900.0  # seconds; crash recovery of a large database may hold `starting` for minutes
PAUSE = 0.02


class FileLock:
    """A flock on a file of ours; locks of the same process on two of these exclude each other too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def try_exclusive(self) -> bool:
        """Take the lock for ourselves alone if nobody holds it."""
        return self._try(fcntl.LOCK_EX)

    def share(self, patience: float = PATIENCE) -> None:
        """Take the lock together with all others who share it."""
        self._wait(fcntl.LOCK_SH, patience)

    def exclusive(self, patience: float = PATIENCE) -> None:
        """Take the lock for ourselves alone, after all others have gone."""
        self._wait(fcntl.LOCK_EX, patience)

    def release(self) -> None:
        """Give the lock back and keep the file open."""
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the lock back for good; closing twice does nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def is_current(self) -> bool:
        """Tell whether the path still names the file that is locked: it may have been removed and made anew."""
        try:
            named = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        held = os.fstat(self.fd)
        return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock exclusively for a block."""
        self.exclusive()
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

    def _wait(self, kind: int, patience: float) -> None:
        deadline = time.monotonic() + patience
        while not self._try(kind):
            if time.monotonic() > deadline:
                raise DatabaseUnavailable(
                    f"another process has held {self.path} for {patience:.0f} s; see who with `fuser {self.path}`, "
                    f"end it and try again"
                )
            time.sleep(PAUSE)


class Locks:
    """The locks of one user of a home's server."""

    def __init__(self, keep: Path) -> None:
        self.starting = FileLock(keep / "starting.lock")
        self.users = FileLock(keep / "users.lock")

    @classmethod
    def opened(cls, keep: Path) -> Locks:
        """Return the locks of `keep` with `starting` held."""
        while True:
            locks = cls(keep)
            locks.starting.exclusive()
            if locks.starting.is_current() and locks.users.is_current():
                return locks
            locks.close()

    def close(self) -> None:
        """Give all of them back."""
        self.users.close()
        self.starting.close()
