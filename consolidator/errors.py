"""Every error that this package raises on purpose, in one tree with its exit codes.

ConsolidatorError                exit code of the command line
├── UsageError                   2   a command's arguments or the settings are wrong
├── NotFound                     3   nothing has that name or id
├── DatabaseError                4   the database cannot do what was asked
│   ├── DatabaseUnavailable      4   it cannot be reached or started
│   └── SchemaTooNew             4   a newer consolidator has upgraded it
├── AppendError                  5   an append was refused
│   ├── HeadConflict             5   the session has moved on since it was read
│   ├── StaleEpoch               5   another harness holds the session now
│   ├── InvalidEvent             5   an event's payload does not fit its type
│   └── SessionBusy              5   another process drives the session now
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


class ConsolidatorError(Exception):
    """An error that a person can act on; the message says what failed, where, and what to do next."""

    exit_code = 1


class UsageError(ConsolidatorError):
    """A command's arguments or the settings are wrong."""

    exit_code = 2


class NotFound(ConsolidatorError):
    """Nothing has that name or id."""

    exit_code = 3


class DatabaseError(ConsolidatorError):
    """The database cannot do what was asked."""

    exit_code = 4


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached or started."""


class SchemaTooNew(DatabaseError):
    """A newer consolidator has upgraded this database."""


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
