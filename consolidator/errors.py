"""Every error this package raises on purpose, in one tree; a driver's error becomes one of these in one place.

ConsolidatorError                exit code of the command line
├── UsageError                   2   the words of a command do not fit
├── NotFound                     3   nothing has that name
├── DatabaseError                4   the database cannot do what was asked
│   ├── DatabaseUnavailable      4   it cannot be reached or started
│   └── SchemaTooNew             4   a newer consolidator has been here
├── AppendError                  5   the write door refused
│   ├── HeadConflict             5   the session has moved on since it was read
│   ├── StaleEpoch               5   another harness holds the session now
│   ├── InvalidEvent             5   an event's payload does not fit its type
│   └── SessionBusy              5   another process drives the session now
├── ImportRefused                6   strict import met a line it cannot explain
├── RunFailed                    7   a run ended with dead letters
├── ModelError                   8   a language model did not do what was asked
│   ├── ModelRefused             8   it would not answer, or its server would not pass the question on
│   ├── ModelTruncated           8   question or answer was too long
│   ├── ModelMalformed           8   the answer is not what was asked for
│   ├── ModelUnavailable         8   its server cannot be reached, is overloaded, or does not know us
│   ├── OverBudget               8   the night's cap would be passed
│   └── Awaited                  8   the question is in a batch that has not come back
└── Interrupted                  130 the person or the service manager asked us to stop; work done is kept
"""

from __future__ import annotations


class ConsolidatorError(Exception):
    """Something went wrong that a person can act on; the message says what, where, and what to do next."""

    exit_code = 1


class UsageError(ConsolidatorError):
    """The words of a command do not fit."""

    exit_code = 2


class NotFound(ConsolidatorError):
    """Nothing has that name."""

    exit_code = 3


class DatabaseError(ConsolidatorError):
    """The database cannot do what was asked."""

    exit_code = 4


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached or started."""


class SchemaTooNew(DatabaseError):
    """A newer consolidator has upgraded this database."""


class AppendError(ConsolidatorError):
    """The write door refused an append; nothing was written."""

    exit_code = 5


class HeadConflict(AppendError):
    """The session's head is not the one the writer expected."""


class StaleEpoch(AppendError):
    """The writer's lease epoch is not the session's: another harness holds it now."""


class InvalidEvent(AppendError):
    """An event's payload does not fit its type."""


class SessionBusy(AppendError):
    """Another process drives the session now, and nothing was begun; what was said to it is kept and will be heard."""


class ImportRefused(ConsolidatorError):
    """A strict import met a line it cannot explain; nothing was written."""

    exit_code = 6


class RunFailed(ConsolidatorError):
    """A run ended with dead letters."""

    exit_code = 7


class ModelError(ConsolidatorError):
    """A language model did not do what was asked."""

    exit_code = 8


class ModelRefused(ModelError):
    """The model would not answer, or its server would not pass the question on: another question may fare better."""


class ModelTruncated(ModelError):
    """The question or the answer was too long: a smaller question may fare better."""


class ModelMalformed(ModelError):
    """The answer is not what was asked for; `text` is what came instead."""

    def __init__(self, message: str, text: str = "") -> None:
        super().__init__(message)
        self.text = text


class ModelUnavailable(ModelError):
    """The model's server cannot be reached, is overloaded, or does not know us: no fault of the question."""

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        is_permanent: bool = False,
        may_be_charged: bool = False,
    ) -> None:
        super().__init__(message)
        self.may_be_charged = may_be_charged  # whether the server may have charged for what never came back
        self.retry_after = retry_after  # seconds that the server asks us to wait
        self.is_permanent = is_permanent  # whether asking again soon is in vain: a wrong key, an unknown model


class OverBudget(ModelError):
    """The call would pass its night's or its session's cap, or one in money cannot be held: the price is not known."""


class AnswerPending(ModelError):
    """The question was put into a batch, and the batch has not come back yet."""


class Interrupted(ConsolidatorError):
    """Somebody asked us to stop; what was finished is kept, and the rest can be resumed."""

    exit_code = 130
