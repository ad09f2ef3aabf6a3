"""A checkpoint: a labelled point of a session's log, to restore from; it points, and copies nothing of the log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ForeignKey, Index, Text, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field, SQLModel

from consolidator.models.columns import (
    bigint_column,
    json_object_column,
    nullable_text_column,
    nullable_timestamp_column,
    text_column,
    timestamp_column,
)


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """A checkpoint as it is stored."""

    id: str
    session_id: str
    seq: int  # the last event before the point; always a safe point
    label: str | None
    metadata: dict[str, Any]  # the caller's
    delta: dict[str, Any]  # what happened since the checkpoint before: events, messages, tools, tokens, cost
    fold: dict[str, Any]  # what stood there of the past that a restore does not read: state, view, totals
    created_at: datetime
    expires_at: datetime | None  # when it stops to keep events from retention, and is deleted; None: never

    def has_expired(self, now: datetime) -> bool:
        """Whether nothing can be restored from it any more."""
        return self.expires_at is not None and self.expires_at <= now


class CheckpointTable(SQLModel, table=True):
    """See `CheckpointRow`."""

    __tablename__ = "checkpoint"
    __table_args__ = (
        Index("checkpoint_session", "session_id", "created_at"),
        Index("checkpoint_expires", "expires_at"),
    )

    id: str = text_column(primary_key=True)
    session_id: str = Field(sa_column=Column(Text, ForeignKey("session.id", ondelete="CASCADE"), nullable=False))
    seq: int = bigint_column()
    label: str | None = nullable_text_column()
    metadata_: dict[str, Any] = Field(  # SQLAlchemy has another use for the name `metadata`
        sa_column=Column("metadata", JSONB, nullable=False, server_default=text("'{}'::jsonb"))
    )
    delta: dict[str, Any] = json_object_column()
    fold: dict[str, Any] = json_object_column()
    created_at: datetime = timestamp_column()
    expires_at: datetime | None = nullable_timestamp_column()
