"""Every error that this package raises on purpose, in one tree with its exit codes.

ConsolidatorError                exit code of the command line
├── UsageError                   2   a command's arguments or the settings are wrong
│   ├── Forbidden                2   the credential lacks the scope that this needs
│   ├── SessionClosed            2   the session has ended, or is driven elsewhere
│   ├── SessionDiffers           2   a session that exists began with other values than are asked for
│   ├── KeyReused                2   an idempotency key came with another request
│   └── InvalidCursor            2   a cursor is none that was given out
├── NotFound                     3   nothing has that name or id
├── DatabaseError                4   the database cannot do what was asked
│   └── DatabaseUnavailable      4   it cannot be reached or started
│       └── DiskFull             4   its disk, or that of a file to write, is full; tried again
├── AppendError                  5   an append was refused
│   ├── HeadConflict             5   the session has moved on since it was read
│   ├── StaleEpoch               5   another harness holds the session now
│   ├── InvalidEvent             5   an event's payload does not fit its type
│   ├── SessionBusy              5   another process drives the session now
│   └── RequestUnderWay          5   the same request is being done
├── ImportRefused                6   a strict import found a line that it cannot read
├── RunFailed                    7   a run ended with dead letters
│   └── RetentionHalted          7   retention would prune too much, or does not trust the clock
├── ModelError                   8   a language model gave no usable answer
│   ├── ModelRefused             8   it or its server refused the request
│   ├── ModelTruncated           8   the request or the answer was too long
│   ├── ModelMalformed           8   the answer does not fit the requested form
│   ├── ModelUnavailable         8   its server cannot be reached, is overloaded, or rejects the key
│   ├── OverBudget               8   the call would pass a cap on costs
│   └── BatchPending             8   the request is in a batch without results yet
└── Interrupted                  130 a person or the service manager stopped the process; finished work is kept
"""

from __future__ import annotations

import errno
import os

# What an operating system says where nothing more can be written, and what a person is told.
_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EFBIG: "a file may not grow any larger",
    errno.EROFS: "the file system is read-only",
}
_DISK_FULL_STATE = "53100"  # PostgreSQL's disk_full
_INTERNAL_STATES = ("58030", "XX000")  # PostgreSQL's words for what has no state of its own, such as a quota
KEEP_ON = "what was finished is kept; make room, then the same command goes on"


class ConsolidatorError(Exception):
    """An error that a person can act on; the message says what failed, where, and what to do next."""

    exit_code = 1


class UsageError(ConsolidatorError):
    """A command's arguments or the settings are wrong."""

    exit_code = 2


class Forbidden(UsageError):
    """The credential lacks the scope that this needs; nothing was done."""


class SessionClosed(UsageError):
    """The session has ended, or its log is the record of another harness: nothing more happens in it here."""


class SessionDiffers(UsageError):
    """A session that exists began with other values than are asked for; nothing was set."""


class KeyReused(UsageError):
    """An idempotency key came with another request before."""


class InvalidCursor(UsageError):
    """A cursor is none that a page of the same list ended with."""


class NotFound(ConsolidatorError):
    """Nothing has that name or id."""

    exit_code = 3


class DatabaseError(ConsolidatorError):
    """The database cannot do what was asked."""

    exit_code = 4


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached or started."""


class DiskFull(DatabaseUnavailable):
    """A disk is full, over its quota or read-only: no fault of what was being written, and tried again."""


class AppendError(ConsolidatorError):
    """An append was refused; nothing was written."""

    exit_code = 5


class HeadConflict(AppendError):
    """The session's head is not the one the writer expected."""


class StaleEpoch(AppendError):
    """The writer's lease epoch is not the session's: another harness holds it now."""


class InvalidEvent(AppendError):
    """An event's payload does not fit its type."""


class SessionBusy(AppendError):
    """Another process drives the session now: nothing was started, and messages to it are kept."""


class RequestUnderWay(AppendError):
    """The same request, by its key, is being done at this moment."""


class ImportRefused(ConsolidatorError):
    """A strict import found a line that it cannot read; nothing was written."""

    exit_code = 6


class RunFailed(ConsolidatorError):
    """A run ended with dead letters."""

    exit_code = 7


class RetentionHalted(RunFailed):
    """Retention would prune more than it should without a person's word, or does not trust the clock."""


class ModelError(ConsolidatorError):
    """A language model gave no usable answer."""

    exit_code = 8


class ModelRefused(ModelError):
    """The model or its server refused the request; a different request may succeed."""


class ModelTruncated(ModelError):
    """The request or the answer was too long; a smaller request may succeed."""


class ModelMalformed(ModelError):
    """The answer does not fit the requested form; `text` is what came instead."""

    def __init__(self, message: str, text: str = "") -> None:
        super().__init__(message)
        self.text = text


class ModelUnavailable(ModelError):
    """The model's server cannot be reached, is overloaded, or rejects the key; the request itself is not at fault."""

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        is_permanent: bool = False,
        may_be_charged: bool = False,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status  # of the server's HTTP answer
        self.may_be_charged = may_be_charged  # whether the server may have charged for what never came back
        self.retry_after = retry_after  # seconds that the server asks us to wait
        self.is_permanent = is_permanent  # whether asking again soon is in vain: a wrong key, an unknown model


class OverBudget(ModelError):
    """The call would pass its run's or session's cap, or has no known price, so that a cap in money cannot be kept."""


class AnswerPending(ModelError):
    """The request is in a batch that has no results yet."""


class Interrupted(ConsolidatorError):
    """The process was asked to stop; finished work is kept, and the rest can be resumed."""

    exit_code = 130


def as_disk_full(error: BaseException) -> DiskFull | None:
    """Return the error for a person if an error, or what caused it, says that a disk takes no more; else None.

    Knows the errors of the operating system, and of PostgreSQL by their `sqlstate`.
    """
    cause: BaseException | None = error
    for _ in range(20):  # a chain of causes may be a ring
        if cause is None:
            break
        if isinstance(cause, DiskFull):
            return cause
        if isinstance(cause, BaseExceptionGroup):
            return next(filter(None, map(as_disk_full, cause.exceptions)), None)
        if isinstance(cause, OSError) and cause.errno in _FULL:
            where = f": {cause.filename}" if cause.filename else ""
            return DiskFull(f"{_FULL[cause.errno]}{where}; {KEEP_ON}")
        state = getattr(cause, "sqlstate", None)
        words = [os.strerror(number) for number in _FULL]
        if state == _DISK_FULL_STATE or (state in _INTERNAL_STATES and any(word in str(cause) for word in words)):
            reason = str(cause).strip().partition("\n")[0]
            return DiskFull(f"the database has no room on its disk ({reason}); {KEEP_ON}")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return None


def raise_if_disk_full(error: BaseException) -> None:
    """Raise DiskFull from an error that says so."""
    full = as_disk_full(error)
    if full is not None:
        raise full from error
