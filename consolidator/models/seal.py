"""Seals: what each night says about the chains of the sessions that it learned from, for whoever checks the log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import BigInteger, Index, LargeBinary
from sqlmodel import Field, SQLModel

from consolidator.models.columns import (
    bigint_column,
    bytes_column,
    nullable_text_column,
    timestamp_column,
)


@dataclass(frozen=True, slots=True)
class SealRow:
    """One seal; a copy of it that is kept elsewhere proves everything that it and the seals before it cover."""

    number: int  # 1, 2, 3 ... without gaps
    run_id: str | None  # the night that made it
    sealed_at: datetime
    sessions: int  # how many chains it covers
    root: bytes  # SHA-256 over the root before it and its chains


class SealTable(SQLModel, table=True):
    """One row for each night that learned from something."""

    __tablename__ = "seal"

    number: int = bigint_column(primary_key=True)
    run_id: str | None = nullable_text_column()
    sealed_at: datetime = timestamp_column()
    sessions: int = bigint_column()
    root: bytes = bytes_column()


@dataclass(frozen=True, slots=True)
class SealedSessionRow:
    """A session as far as it was learned from."""

    session_hash: bytes  # SHA-256 of the session's id: an erasure leaves no name behind
    seq: int  # of the last event that was learned from
    hash: bytes  # of that event
    seal: int | None  # the seal that covers it; null until the night ends


class SealedSessionTable(SQLModel, table=True):
    """One row for each time that a session was learned from."""

    __tablename__ = "sealed_session"
    __table_args__ = (Index("sealed_session_seal", "seal"),)

    session_hash: bytes = Field(sa_type=LargeBinary, primary_key=True)
    seq: int = bigint_column(primary_key=True)
    hash: bytes = bytes_column()
    seal: int | None = Field(default=None, sa_type=BigInteger, nullable=True)
