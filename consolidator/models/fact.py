"""A fact, and the candidates it was made of: who said what, where, in which words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from consolidator.models.session import SteerOutcome

# The start of a fact that is over, where nobody said when it began. It is a valid date in every time zone.
UNKNOWN_START = datetime(1, 1, 2, tzinfo=UTC)
SupersededReason = Literal["replaced", "forgotten", "revision"]


@dataclass(frozen=True, slots=True)
class Assertion:
    """What a candidate and a fact both assert: a value of an attribute, and of whom it holds."""

    agent: str
    project: str | None
    peer: str | None
    level: str
    subject: str
    predicate: str
    value: str
    sentence: str
    kind: str
    confidence: str
    trust: str


@dataclass(frozen=True, slots=True)
class CandidateRow(Assertion):
    """A row of `candidate`: one statement of one event, with its verified quote; it outlives the event."""

    id: str
    session_id: str
    seq: int
    occurred_at: datetime
    quote: str
    extractor: str
    single_valued: bool
    evidence: list[tuple[int, str]]
    revision: int
    quarantined: str | None
    valid_from: datetime | None
    valid_to: datetime | None
    rejected: str | None
    active: bool
    retired_by: int | None
    operation: str | None
    target: str | None
    decided_by: str | None
    why: str | None
    flagged: str | None
    as_subject: str | None
    as_predicate: str | None
    as_value: str | None
    owner: str
    reconciled: bool
    run_id: str


@dataclass(frozen=True, slots=True)
class CitedCandidateRow(CandidateRow):
    """A candidate, and the foreign name of its session."""

    origin: str | None  # None also where the session was erased
    steer: SteerOutcome | None  # of the steer that it was read in; None where it was read elsewhere


@dataclass(frozen=True, slots=True)
class FactRow(Assertion):
    """A row of `fact`: what is believed, since when, and what it rests on."""

    id: str
    valid_from: datetime
    valid_to: datetime | None
    recorded_at: datetime
    superseded_at: datetime | None
    superseded_by: str | None
    superseded_reason: SupersededReason | None
    sessions: int
    evidence: list[str]
    flagged: str | None
    steers: int
    steers_succeeded: int
    steers_failed: int
    run_id: str | None
    cause: str
    recalled: int
    last_recalled_at: datetime | None


@dataclass(frozen=True, slots=True)
class CorrectionRow:
    """A value that a person told memory to forget or took that back, or a fact that a person stated."""

    agent: str
    level: str
    project: str | None
    peer: str | None
    subject: str
    predicate: str
    value: str
    fact_id: str  # the forgotten fact, or the one that a person stated
    is_stated: bool
    at: datetime  # when the person did
    is_undone: bool = False  # a person took back that it was forgotten


@dataclass(frozen=True, slots=True)
class ChainedFactRow:
    """A fact of a chain: what it says, when that was true, and when it was believed."""

    id: str
    sentence: str
    valid_from: datetime
    valid_to: datetime | None
    recorded_at: datetime
    superseded_at: datetime | None
    superseded_by: str | None
    superseded_reason: SupersededReason | None
    is_withdrawn: bool  # a person forgot or corrected it: by what is known now it was never true


@dataclass(frozen=True, slots=True)
class FactVersionRow:
    """A row of `fact_version`: what was believed of a fact until a moment."""

    fact_id: str
    until: datetime
    sentence: str
    valid_from: datetime
    valid_to: datetime | None
    superseded_at: datetime | None
    superseded_by: str | None = None
    superseded_reason: SupersededReason | None = None


@dataclass(frozen=True, slots=True)
class ExistingFact:
    """A fact that a candidate may be about: one that is believed, or that a person told memory to forget."""

    id: str
    subject: str
    predicate: str
    value: str
    sentence: str
    single_valued: bool
    trust: str
    forgotten: bool = False
    valid_from: datetime | None = None  # since when it is true, if that is known
    valid_to: datetime | None = None
    said_at: datetime | None = None  # when its latest evidence was said


@dataclass(frozen=True, slots=True)
class BelievedFact:
    """A fact as it is compared: whose it is, what it says, and the turns that prove it."""

    id: str
    agent: str
    level: str
    owner: str  # the project or peer; "" for the agent itself
    subject: str
    predicate: str
    sentence: str
    turns: Sequence[str]  # "session:seq" of each piece of evidence

    @property
    def line(self) -> str:
        """The fact for people."""
        return f"{self.agent}: {self.sentence}"
