"""A generation of memory: what one model and prompt read in the log, and how much of the log they have read again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, text
from sqlmodel import Field, SQLModel

from consolidator.models.columns import count, document, maybe_moment, moment, words


class RevisionTable(SQLModel, table=True):
    """A draft is compared and then promoted or discarded; what it took the place of can be restored."""

    __tablename__ = "memory_generation"
    __table_args__ = (
        Index("memory_generation_current", "status", unique=True, postgresql_where=text("status = 'current'")),
    )

    id: int = Field(primary_key=True, nullable=False)  # from 2: what nights read before any was made is 1
    model: str = words()
    status: str = words(default="draft")  # draft | current | former | discarded
    choice: dict[str, Any] = document()  # which sessions it reads
    created_at: datetime = moment()
    promoted_at: datetime | None = maybe_moment()


class RevisionReachTable(SQLModel, table=True):
    """What of a session a generation has read: after < seq <= upto."""

    __tablename__ = "generation_reach"
    __table_args__ = (Index("generation_reach_session", "session_id"),)

    generation: int = count(primary_key=True)
    session_id: str = words(primary_key=True)
    after: int = count()
    upto: int = count()
