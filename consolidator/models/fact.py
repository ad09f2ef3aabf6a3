"""A fact, and the candidates it was made of: who said what, where, in which words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ForeignKey, Index, Text, text
from sqlmodel import Column, Field, SQLModel

from consolidator.models.columns import (
    bigint_column,
    boolean_column,
    integer_column,
    json_list_column,
    nullable_integer_column,
    nullable_text_column,
    nullable_timestamp_column,
    text_array_column,
    text_column,
    timestamp_column,
)
from consolidator.models.steer import SteerOutcome

SupersededReason = Literal["replaced", "forgotten", "revision"]


@dataclass(frozen=True, slots=True)
class Assertion:
    """What a candidate and a fact both assert: a value of an attribute, and of whom it holds."""

    agent: str
    project: str | None
    peer: str | None
    level: str  # peer | project | agent: whom it belongs to
    subject: str
    predicate: str
    value: str
    sentence: str
    kind: str  # preference | profile | environment | project | decision | constraint | relation
    confidence: str  # explicit | inferred
    trust: str  # person | user | agent | tool


@dataclass(frozen=True, slots=True)
class CandidateRow(Assertion):
    """A row of `candidate`: one statement of one event, with its verified quote; it outlives the event."""

    id: str
    session_id: str
    seq: int
    occurred_at: datetime
    quote: str
    extractor: str
    single_valued: bool  # whether a later value takes the place of an earlier one
    evidence: list[tuple[int, str]]  # [seq, quote] of each further event that proves it
    revision: int  # the revision that read it; 0: it belongs to all of them, as what rules find does
    quarantined: str | None  # why a person has to review it first
    valid_from: datetime | None  # since when it is true, where its words say so
    valid_to: datetime | None
    rejected: str | None  # why it may not become a fact
    active: bool  # false: its revision is a draft, or another revision replaced it
    retired_by: int | None  # the revision that replaced it
    operation: str | None  # add | reinforce | refine | supersede | noop: the decision about it
    target: str | None  # the fact that the decision is about
    decided_by: str | None  # "code", or the model
    why: str | None
    flagged: str | None  # why it was kept beside a fact that it resembles
    as_subject: str | None  # what it counts for, where that differs from what it says
    as_predicate: str | None
    as_value: str | None
    owner: str  # the project or peer that its level names; "" for the agent's own
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
    valid_from: datetime  # when it became true
    valid_to: datetime | None
    recorded_at: datetime  # when memory began to believe it
    superseded_at: datetime | None  # when memory stopped believing it
    superseded_by: str | None  # the fact that replaced it, or the candidate that ended a standing preference
    superseded_reason: SupersededReason | None  # forgotten: by a person; revision: another revision reads it otherwise
    sessions: int  # distinct lineage roots that support it
    evidence: list[str]  # ids of candidates
    flagged: str | None  # why a person may want to review it
    steers: int  # of its evidence; the outcome of the others' tasks is not known
    steers_succeeded: int  # steers after which the task succeeded
    steers_failed: int
    run_id: str | None
    cause: str  # run | person | review | erasure: what wrote it last
    recalled: int  # how often recall showed it
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


class AssertionColumns(SQLModel):
    """The columns of an Assertion."""

    agent: str = text_column()
    project: str | None = nullable_text_column()
    peer: str | None = nullable_text_column()
    level: str = text_column()
    subject: str = text_column()
    predicate: str = text_column()
    value: str = text_column()
    sentence: str = text_column()
    kind: str = text_column()
    confidence: str = text_column()
    trust: str = text_column()


class CandidateTable(AssertionColumns, table=True):
    """Candidates."""

    __tablename__ = "candidate"
    __table_args__ = (
        Index(
            "candidate_group",
            "agent",
            text("coalesce(as_subject, subject)"),
            text("coalesce(as_predicate, predicate)"),
            "owner",
        ),
        Index("candidate_new", "agent", postgresql_where=text("not reconciled")),
        Index(
            "candidate_undecided",
            "agent",
            postgresql_where=text("revision > 0 and operation is null and rejected is null and quarantined is null"),
        ),
        Index("candidate_revision", "revision", postgresql_where=text("revision > 1")),
        Index("candidate_retired", "retired_by", postgresql_where=text("retired_by is not null")),
        Index("candidate_target", "target", postgresql_where=text("target is not null")),
        Index("candidate_session", "session_id"),
        Index(
            "candidate_instruction",
            "agent",
            "level",
            "owner",
            "subject",
            "value",
            postgresql_where=text("predicate = 'instruction' and rejected is null"),
        ),
        Index("candidate_accepted", "agent", "level", "owner", postgresql_where=text("extractor = 'accepted:1'")),
        Index("candidate_quarantined", "agent", postgresql_where=text("quarantined is not null")),
        Index(
            "candidate_waiting",
            text("occurred_at desc"),
            "id",
            postgresql_where=text("quarantined is not null and rejected is null"),
        ),
    )

    id: str = text_column(primary_key=True)
    session_id: str = text_column()
    seq: int = bigint_column()
    occurred_at: datetime = timestamp_column()
    quote: str = text_column()
    extractor: str = text_column()
    single_valued: bool = boolean_column()
    evidence: list[Any] = json_list_column()
    revision: int = integer_column()
    quarantined: str | None = nullable_text_column()
    valid_from: datetime | None = nullable_timestamp_column()
    valid_to: datetime | None = nullable_timestamp_column()
    rejected: str | None = nullable_text_column()
    active: bool = boolean_column(default=True)
    retired_by: int | None = nullable_integer_column()
    operation: str | None = nullable_text_column()
    target: str | None = nullable_text_column()
    decided_by: str | None = nullable_text_column()
    why: str | None = nullable_text_column()
    flagged: str | None = nullable_text_column()
    as_subject: str | None = nullable_text_column()
    as_predicate: str | None = nullable_text_column()
    as_value: str | None = nullable_text_column()
    owner: str = text_column(default="")
    reconciled: bool = boolean_column()
    run_id: str = text_column()


class TombstoneTable(SQLModel, table=True):
    """Values that a person told memory to forget, normalized for comparison; a tombstone stays when its fact goes."""

    __tablename__ = "tombstone"
    __table_args__ = (Index("tombstone_agent", "agent"),)

    fact_id: str = text_column(primary_key=True)
    agent: str = text_column()
    level: str = text_column()
    project: str | None = nullable_text_column()
    peer: str | None = nullable_text_column()
    subject: str = text_column()
    predicate: str = text_column()
    value: str = text_column()
    created_at: datetime = timestamp_column()


class FactTable(AssertionColumns, table=True):
    """Facts."""

    __tablename__ = "fact"
    __table_args__ = (
        Index("fact_group", "agent", "subject", "predicate", text("coalesce(project, peer, '')")),
        Index("fact_stated", "agent", postgresql_where=text("trust = 'person'")),
        Index("fact_superseded", "superseded_by", postgresql_where=text("superseded_by is not null")),
        Index("fact_superseded_at", "superseded_at", postgresql_where=text("superseded_by is not null")),
        Index("fact_project", "project", postgresql_where=text("project is not null")),
        Index("fact_peer", "peer", postgresql_where=text("peer is not null")),
        Index(
            "fact_rule",
            text("sessions desc"),
            text("valid_from desc"),
            postgresql_where=text(
                "superseded_at is null and trust in ('person', 'user') and kind = 'constraint' "
                "and predicate <> 'instruction'"
            ),
        ),
        Index(
            "fact_list",
            text("sessions desc"),
            text("(steers_succeeded - steers_failed) desc"),
            text("valid_from desc"),
            "id",
        ),
        Index("fact_recorded", "recorded_at"),
        Index("fact_flagged", "id", postgresql_where=text("flagged is not null and superseded_at is null")),
        Index("fact_search", text("to_tsvector('simple', sentence)"), postgresql_using="gin"),
        Index(
            "fact_standing",
            "agent",
            text("coalesce(project, '')"),
            text("sessions desc"),
            postgresql_where=text("superseded_at is null and trust in ('person', 'user')"),
        ),
    )

    id: str = text_column(primary_key=True)
    valid_from: datetime = timestamp_column()
    valid_to: datetime | None = nullable_timestamp_column()
    recorded_at: datetime = timestamp_column()
    superseded_at: datetime | None = nullable_timestamp_column()
    superseded_by: str | None = nullable_text_column()
    superseded_reason: str | None = nullable_text_column()
    sessions: int = bigint_column()
    evidence: list[str] = text_array_column()
    flagged: str | None = nullable_text_column()
    steers: int = integer_column()
    steers_succeeded: int = integer_column()
    steers_failed: int = integer_column()
    run_id: str | None = nullable_text_column()
    cause: str = text_column(default="run")
    recalled: int = bigint_column()
    last_recalled_at: datetime | None = nullable_timestamp_column()


class FactVersionTable(SQLModel, table=True):
    """What was believed of a fact until a moment, where the fact says something else now."""

    __tablename__ = "fact_version"

    fact_id: str = Field(sa_column=Column(Text, ForeignKey("fact.id", ondelete="CASCADE"), primary_key=True))
    until: datetime = timestamp_column(primary_key=True)
    value: str = text_column()
    sentence: str = text_column()
    valid_from: datetime = timestamp_column()
    valid_to: datetime | None = nullable_timestamp_column()
    superseded_at: datetime | None = nullable_timestamp_column()
    superseded_by: str | None = nullable_text_column()
    superseded_reason: str | None = nullable_text_column()
