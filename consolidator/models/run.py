"""The ledger: runs of jobs, claims on their units, and dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import CheckConstraint, ForeignKey, Index, Text, UniqueConstraint, text
from sqlmodel import Column, Field, SQLModel

from consolidator.models.columns import (
    bigint_column,
    integer_column,
    json_object_column,
    nullable_text_column,
    nullable_timestamp_column,
    text_column,
    timestamp_column,
)

UnitKind = Literal["session", "late_extraction", "merge", "draft", "fact_index", "turn_index", "shared_question"]


@dataclass(frozen=True, slots=True)
class RunRow:
    """One execution of a job, and what came of it."""

    id: str
    job: str  # import | consolidation | retention | backfill | retry | reindex
    scheduled_at: datetime  # when it was due; unique for its job
    trigger: str  # schedule | manual | batch
    status: str  # running | done | failed | interrupted
    started_at: datetime
    finished_at: datetime | None
    heartbeat_at: datetime  # renewed while a process works on it
    owner: str  # the process that started it, or resumed it last
    arguments: dict[str, Any]
    report: dict[str, Any]  # its result, with the sums over its units
    error: str | None
    deaths: int  # times in a row that it died of a bug; a scheduled run is tried again until `max_attempts`


class RunTable(SQLModel, table=True):
    """One row for each job and scheduled time."""

    __tablename__ = "run"
    __table_args__ = (UniqueConstraint("job", "scheduled_at", name="run_job_scheduled_at"),)

    id: str = text_column(primary_key=True)
    job: str = text_column()
    scheduled_at: datetime = timestamp_column()
    trigger: str = text_column(default="schedule")
    status: str = text_column(default="running")
    started_at: datetime = timestamp_column()
    finished_at: datetime | None = nullable_timestamp_column()
    heartbeat_at: datetime = timestamp_column()
    owner: str = text_column()
    arguments: dict[str, Any] = json_object_column()
    report: dict[str, Any] = json_object_column()
    error: str | None = nullable_text_column()
    deaths: int = integer_column()


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A unit of a run: who works on it until when, how often it was tried, and what came of it, in events."""

    run_id: str
    kind: UnitKind
    unit: str  # the id of a session, or the name of an agent for `merge` and `fact_index`
    phase: int  # a phase's units begin when those of the phase before have ended
    status: str  # open | leased | done | dead
    owner: str | None  # the replica that holds its lease
    lease_until: datetime | None  # after this, another replica may claim it
    attempts: int
    seen: int  # learned + nothing + deferred + dead
    learned: int
    nothing: int  # events that held nothing to learn
    deferred: int  # events left for another night
    dead: int  # events that could not be learned from
    error: str | None  # of the last attempt that failed
    note: str | None  # what a merge changed


class ClaimTable(SQLModel, table=True):
    """One row for each unit of a run."""

    __tablename__ = "claim"
    __table_args__ = (
        CheckConstraint("seen = learned + nothing + deferred + dead", name="the_ledger_balances"),
        Index("claim_open", "run_id", "unit", postgresql_where=text("status in ('open', 'leased')")),
    )

    run_id: str = Field(sa_column=Column(Text, ForeignKey("run.id", ondelete="CASCADE"), primary_key=True))
    kind: str = text_column(primary_key=True)
    unit: str = text_column(primary_key=True)
    phase: int = integer_column()
    status: str = text_column(default="open")
    owner: str | None = nullable_text_column()
    lease_until: datetime | None = nullable_timestamp_column()
    attempts: int = integer_column()
    seen: int = bigint_column()
    learned: int = bigint_column()
    nothing: int = bigint_column()
    deferred: int = bigint_column()
    dead: int = bigint_column()
    error: str | None = nullable_text_column()
    note: str | None = nullable_text_column()


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """An event that could not be learned from; it stays unstamped, and so unpruned, until it is settled."""

    id: str
    run_id: str
    session_id: str
    seq: int
    extractor: str  # what failed on it
    error: str
    created_at: datetime
    settled_at: datetime | None
    settlement: str | None  # retried | discarded


class DeadLetterTable(SQLModel, table=True):
    """At most one open row for each event."""

    __tablename__ = "dead_letter"
    __table_args__ = (
        Index("dead_letter_session", "session_id"),
        Index("dead_letter_open", "session_id", "seq", unique=True, postgresql_where=text("settled_at is null")),
    )

    id: str = text_column(primary_key=True)
    run_id: str = text_column()
    session_id: str = text_column()
    seq: int = bigint_column()
    extractor: str = text_column()
    error: str = text_column()
    created_at: datetime = timestamp_column()
    settled_at: datetime | None = nullable_timestamp_column()
    settlement: str | None = nullable_text_column()
