"""Error records: a failed call of a session, and what resolved it."""

from __future__ import annotations

from dataclasses import dataclass, field

from consolidator.memory.plain import Plain
from consolidator.memory.solutions.call_edit import CallEdit


@dataclass(frozen=True, slots=True)
class FixStep(Plain):
    """A successful call between an error and its resolver."""

    symbol: str
    argument: str  # what the call was given, redacted
    detail: str = ""  # of an edit: what it replaced by what


@dataclass(frozen=True, slots=True)
class ErrorVariable:
    """A value in an error's headline that differs between two cases of the error, and that a template may bind."""

    kind: str  # what masks it in the fingerprint: quoted | path | id | n | url | date
    text: str  # as the headline has it, without quotes


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A later run of the failed operation that failed, too: what was tried, and what it led to."""

    index: int  # of the call in its session
    seq: int
    symbol: str
    arguments: dict[str, str]  # as in `ErrorRecord.arguments`
    directory: str | None
    headline: str
    same_error: bool  # else it met another error: the first one was gone, or not reached any more
    steps: tuple[FixStep, ...] = ()  # successes since the failed call or the attempt before: in vain, too
    place: str | None = None  # as in `ErrorRecord.place`
    edits: tuple[CallEdit, ...] = ()  # of the failed call


@dataclass(frozen=True, slots=True)
class ErrorRecord(Plain):
    """A failed call and its outcome. All texts are redacted.

    A case worked where `outcome` is "worked". "another error" means that the operation was run again, failed
    otherwise, and was never seen to succeed: as a fix that is a failure.
    """

    seq: int  # of the ToolCall event
    index: int  # of the call in its session, 0-based
    result_seq: int  # of the ToolResult event
    occurred_at: str  # of the call, ISO 8601
    tool: str
    symbol: str  # "sh:git push"; else the tool's name
    operation: str  # the key of its `Operation`
    fingerprint: str
    headline: str  # the line that says what went wrong
    quote: str  # an excerpt of the result, verbatim but redacted
    failing: str  # summary of what the call was given
    status: str = "open"  # open | resolved | unresolved | noise
    noise_reason: str | None = None  # rejected | aborted | cascade | report | gone | found nothing
    resolver_index: int | None = None  # of the resolving call in its session
    resolver_seq: int | None = None
    resolver_symbol: str | None = None
    rule: str | None = None  # same-operation | substitution | check | superseded
    resolving: str | None = None  # summary of what the resolver was given
    change: str | None = None  # of the resolving call, against the failed one: none | spacing | other
    between: tuple[FixStep, ...] = ()  # successes in between, since the last attempt that failed alike
    tried: tuple[str, ...] = ()  # attempts in between that failed with the same error
    arguments: dict[str, str] = field(default_factory=dict)  # of the failed call, by key; a shell has "command" alone
    directory: str | None = None  # where the failed call says that it runs: a leading `cd`, or an argument; else None
    variables: tuple[ErrorVariable, ...] = ()  # of the headline, in its order
    resolver_arguments: dict[str, str] = field(default_factory=dict)  # as `arguments`; {} where nothing resolved it
    resolver_directory: str | None = None  # the failed call's where the resolving one says no other
    outcome: str | None = None  # worked | another error | rejected by the person; None where nothing resolved it
    attempts: tuple[FailedAttempt, ...] = ()  # failed runs of the operation before the resolver, the last ones
    place: str | None = None  # where the failed call ran, below the folder in which its session began (`find_place`)
    resolver_place: str | None = None  # likewise of the resolving call
    edits: tuple[CallEdit, ...] = ()  # that made the resolving call of the failed one
    person_spoke: bool = False  # after it failed, and before it was resolved: they may have mended the cause

    @property
    def last_try(self) -> int:
        """The index of the last call that met its error."""
        return max([self.index, *(attempt.index for attempt in self.attempts if attempt.same_error)])

    @property
    def moved_to(self) -> str | None:
        """Where the resolving call ran, if that is certainly not where the failed one ran; else None."""
        places = self.place, self.resolver_place
        return None if None in places or places[0] == places[1] else self.resolver_place
