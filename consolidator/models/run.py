"""The ledger: what each night saw, did, and left."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, Text, UniqueConstraint, text
from sqlmodel import Column, Field, SQLModel

from consolidator.models.columns import count, document, maybe_moment, maybe_words, moment, small, words


class RunTable(SQLModel, table=True):
    """One job at one slot. Its counts are the sums over its units."""

    __tablename__ = "run"
    __table_args__ = (UniqueConstraint("job", "slot", name="run_job_slot"),)

    id: str = words(primary_key=True)
    job: str = words()  # import | consolidation | retention | backfill | retry | reindex
    slot: datetime = moment()  # the moment it was owed
    trigger: str = words(default="schedule")  # schedule | manual
    status: str = words(default="running")  # running | done | failed | interrupted
    started_at: datetime = moment()
    finished_at: datetime | None = maybe_moment()
    heartbeat_at: datetime = moment()
    owner: str = words()
    arguments: dict[str, Any] = document()
    report: dict[str, Any] = document()
    error: str | None = maybe_words()
    deaths: int = small()  # how often it died of a bug; a slot's run is tried again so many times


class ClaimTable(SQLModel, table=True):
    """A unit of a run: who works on it until when, how often it was tried, and what came of it."""

    __tablename__ = "claim"
    __table_args__ = (
        CheckConstraint("seen = learned + nothing + deferred + dead", name="the_ledger_balances"),
        Index("claim_open", "run_id", "unit", postgresql_where=text("status in ('open', 'leased')")),
    )

    run_id: str = Field(sa_column=Column(Text, ForeignKey("run.id", ondelete="CASCADE"), primary_key=True))
    unit: str = words(primary_key=True)  # a session, or "merge:<agent>", "reconcile:<agent>"
    phase: int = small()  # units of a phase begin when those of the one before have ended
    status: str = words(default="open")  # open | leased | done | dead
    owner: str | None = maybe_words()
    lease_until: datetime | None = maybe_moment()
    attempts: int = small()
    seen: int = count()
    learned: int = count()
    nothing: int = count()
    deferred: int = count()
    dead: int = count()
    error: str | None = maybe_words()  # of the last try that failed
    note: str | None = maybe_words()  # what a merge changed


class DeadLetterTable(SQLModel, table=True):
    """An event that could not be learned from; it stays unstamped, and so unpruned, until somebody settles it."""

    __tablename__ = "dead_letter"
    __table_args__ = (
        Index("dead_letter_session", "session_id"),
        Index("dead_letter_open", "session_id", "seq", unique=True, postgresql_where=text("settled_at is null")),
    )

    id: str = words(primary_key=True)
    run_id: str = words()
    session_id: str = words()
    seq: int = count()
    extractor: str = words()
    error: str = words()
    created_at: datetime = moment()
    settled_at: datetime | None = maybe_moment()
    settlement: str | None = maybe_words()  # retried | discarded
