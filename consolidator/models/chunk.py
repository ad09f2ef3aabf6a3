"""What a model said, in chunks, and how far each message reached a channel."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sqlalchemy import Index
from sqlmodel import SQLModel

from consolidator.models.columns import bigint_column, nullable_bigint_column, text_column, timestamp_column
from consolidator.models.event import Event


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a message's text, committed before anybody saw it."""

    message_id: str
    seq: int  # dense in its message, from 1
    delta: str
    started_seq: int  # the event that began the message


class PlacedChunk(Protocol):
    """What is needed of a chunk to place it among events."""

    @property
    def message_id(self) -> str: ...
    @property
    def started_seq(self) -> int: ...
    @property
    def after_seq(self) -> int | None: ...
    @property
    def created_at(self) -> datetime: ...


def comes_before(chunk: PlacedChunk, event: Event) -> bool:
    """Tell whether a chunk was committed before an event: by the clock alone where nothing else is stored."""
    if chunk.started_seq >= event.seq:
        return False
    return chunk.created_at <= event.created_at if chunk.after_seq is None else chunk.after_seq < event.seq


class ChunkTable(SQLModel, table=True):
    """Chunks of messages: partitioned by day of `created_at`, append-only; they live as long as their events."""

    __tablename__ = "generation_chunk"
    __table_args__ = (
        Index("generation_chunk_started", "session_id", "started_seq"),
        {"postgresql_partition_by": "RANGE (created_at)"},
    )

    session_id: str = text_column(primary_key=True)
    message_id: str = text_column(primary_key=True)
    seq: int = bigint_column(primary_key=True)
    started_seq: int = bigint_column()
    delta: str = text_column()
    created_at: datetime = timestamp_column(primary_key=True)
    after_seq: int | None = nullable_bigint_column()  # the last event before it; null in older logs


class DeliveryTable(SQLModel, table=True):
    """How far a message reached a channel: one row for each step that the channel acknowledged."""

    __tablename__ = "delivery"
    __table_args__ = (Index("delivery_started", "session_id", "started_seq"),)

    session_id: str = text_column(primary_key=True)
    message_id: str = text_column(primary_key=True)
    channel: str = text_column(primary_key=True)
    upto_seq: int = bigint_column(primary_key=True)
    started_seq: int = bigint_column()
    sent_at: datetime = timestamp_column()
