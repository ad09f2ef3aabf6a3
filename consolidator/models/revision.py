"""A revision of memory: what one model and prompt read in the log, and how much of the log they have read again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Index, text
from sqlmodel import Field, SQLModel

from consolidator.models.columns import (
    bigint_column,
    json_object_column,
    nullable_timestamp_column,
    text_column,
    timestamp_column,
)


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """A row of `revision`: a draft is compared, then promoted or discarded; what it replaced can be restored."""

    id: int  # from 2; 1 is what the nights read before any draft was promoted
    model: str
    status: str  # draft | current | former | discarded
    choice: dict[str, Any]  # which sessions it reads
    created_at: datetime
    promoted_at: datetime | None


class RevisionTable(SQLModel, table=True):
    """Revisions of the facts."""

    __tablename__ = "revision"
    __table_args__ = (Index("revision_current", "status", unique=True, postgresql_where=text("status = 'current'")),)

    id: int = Field(primary_key=True, nullable=False)
    model: str = text_column()
    status: str = text_column(default="draft")
    choice: dict[str, Any] = json_object_column()
    created_at: datetime = timestamp_column()
    promoted_at: datetime | None = nullable_timestamp_column()


class RevisionReachTable(SQLModel, table=True):
    """Which events of a session a revision has read: after < seq <= upto."""

    __tablename__ = "revision_reach"
    __table_args__ = (Index("revision_reach_session", "session_id"),)

    revision: int = bigint_column(primary_key=True)
    session_id: str = text_column(primary_key=True)
    after: int = bigint_column()
    upto: int = bigint_column()
