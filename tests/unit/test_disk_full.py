"""A full disk is told as what it is, whatever wrote to it and whichever error it was wrapped into."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import psycopg
import pytest

from consolidator.errors import ConsolidatorError, DatabaseError, DiskFull, UsageError, as_disk_full, raise_if_disk_full


def wrapped(error: Exception, in_: Exception, *, explicitly: bool = True) -> Exception:
    """Return an error that was raised because of another."""
    in_.__context__ = error
    in_.__cause__ = error if explicitly else None
    in_.__suppress_context__ = explicitly
    return in_


def postgres(state: str, text: str) -> psycopg.Error:
    """Return an error of PostgreSQL."""
    error = psycopg.errors.lookup("53100")(text) if state == "53100" else psycopg.InternalError(text)
    error.sqlstate = state
    return error


NO_SPACE = OSError(errno.ENOSPC, "No space left on device", "/backup/x")
FULL: dict[str, Callable[[], BaseException]] = {
    "no space": lambda: NO_SPACE,
    "quota": lambda: OSError(errno.EDQUOT, "Disk quota exceeded"),
    "file too large": lambda: OSError(errno.EFBIG, "File too large"),
    "read-only": lambda: OSError(errno.EROFS, "Read-only file system"),
    "PostgreSQL's disk_full": lambda: postgres("53100", 'could not extend file "base/1/2": No space left on device'),
    "PostgreSQL's words for a quota": lambda: postgres("XX000", "could not write: Disk quota exceeded"),
    "PostgreSQL's words for a file's size": lambda: postgres("58030", "could not extend: File too large"),
    "wrapped into ours": lambda: wrapped(NO_SPACE, UsageError("cannot write it")),
    "wrapped twice": lambda: wrapped(wrapped(NO_SPACE, RuntimeError("x")), ValueError("y")),
    "raised while it was handled": lambda: wrapped(NO_SPACE, KeyError("x"), explicitly=False),
    "in a group": lambda: ExceptionGroup("tasks", [ValueError("x"), OSError(errno.ENOSPC, "full")]),
    "as a cause in a group": lambda: ExceptionGroup("tasks", [wrapped(NO_SPACE, RuntimeError("x"))]),
    "told already": lambda: DiskFull("full"),
}
OTHERS: dict[str, Callable[[], BaseException]] = {
    "no permission": lambda: PermissionError(errno.EACCES, "Permission denied"),
    "no such file": lambda: FileNotFoundError(errno.ENOENT, "No such file"),
    "too many files": lambda: OSError(errno.EMFILE, "Too many open files"),
    "a bug whose text says so": lambda: KeyError("No space left on device"),
    "PostgreSQL's words about a row": lambda: postgres("22001", "value too long: No space left on device"),
    "a bug of PostgreSQL": lambda: postgres("XX000", "cache lookup failed"),
    "hidden on purpose": lambda: wrapped_and_hidden(),
    "an error in a ring": lambda: ring(),
}


def wrapped_and_hidden() -> BaseException:
    """Return an error that was raised from None."""
    error = ValueError("x")
    error.__context__, error.__suppress_context__ = NO_SPACE, True
    return error


def ring() -> BaseException:
    """Return an error that is the cause of its cause."""
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


@pytest.mark.parametrize("what", FULL)
def test_a_full_disk_is_recognised(what: str) -> None:
    error = as_disk_full(FULL[what]())
    assert error is not None
    assert error.exit_code == 4
    assert isinstance(error, (ConsolidatorError, DatabaseError))
    with pytest.raises(DiskFull):
        raise_if_disk_full(FULL[what]())


@pytest.mark.parametrize("what", OTHERS)
def test_another_error_is_not(what: str) -> None:
    assert as_disk_full(OTHERS[what]()) is None
    raise_if_disk_full(OTHERS[what]())


def test_the_message_says_what_where_and_what_next() -> None:
    assert str(as_disk_full(NO_SPACE)) == (
        "the disk is full: /backup/x; what was finished is kept; make room, then the same command goes on"
    )
    assert os.strerror(errno.ENOSPC) in str(as_disk_full(FULL["PostgreSQL's disk_full"]()))
