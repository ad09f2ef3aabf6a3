"""What a model said, piece by piece, how far it reached a channel, and what its calls cost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from sqlalchemy import Date, Index, Numeric, Text, text
from sqlmodel import Field, SQLModel

from consolidator.models.columns import count, maybe_moment, maybe_words, moment, small, words


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a message's text, as it was committed before anybody saw it."""

    message_id: str
    seq: int  # dense in its message, from 1
    delta: str
    started_seq: int  # the event that began the message


class ChunkTable(SQLModel, table=True):
    """Pieces of messages: partitioned by day of `created_at`, append-only; they live as long as their events."""

    __tablename__ = "generation_chunk"
    __table_args__ = (
        Index("generation_chunk_started", "session_id", "started_seq"),
        {"postgresql_partition_by": "RANGE (created_at)"},
    )

    session_id: str = words(primary_key=True)
    message_id: str = words(primary_key=True)
    seq: int = count(primary_key=True)
    started_seq: int = count()
    delta: str = words()
    created_at: datetime = moment(primary_key=True)


class DeliveryTable(SQLModel, table=True):
    """How far a message reached a channel: one row for each step that the channel acknowledged."""

    __tablename__ = "delivery"
    __table_args__ = (Index("delivery_started", "session_id", "started_seq"),)

    session_id: str = words(primary_key=True)
    message_id: str = words(primary_key=True)
    channel: str = words(primary_key=True)
    upto_seq: int = count(primary_key=True)
    started_seq: int = count()
    sent_at: datetime = moment()


class SpendTable(SQLModel, table=True):
    """What one call of a model may cost (`reserved`) and, once it is settled, did cost."""

    __tablename__ = "spend"
    __table_args__ = (
        Index("spend_day", "day"),
        Index("spend_session", "session_id"),
        Index("spend_open", "session_id", postgresql_where=text("settled_at is null")),
    )

    call_id: str = words(primary_key=True)
    session_id: str | None = Field(default=None, sa_type=Text, nullable=True)  # none: the session was erased
    message_id: str | None = maybe_words()
    purpose: str = words()  # step | compaction | tool
    model: str = words()
    day: date = Field(sa_type=Date, nullable=False)
    reserved: Decimal = Field(
        default=Decimal(0), sa_type=Numeric, nullable=False, sa_column_kwargs={"server_default": text("0")}
    )
    cost: Decimal | None = Field(default=None, sa_type=Numeric, nullable=True)  # none once settled: no known price
    input_tokens: int = count()
    output_tokens: int = count()
    cached_tokens: int = count()
    tier: str | None = maybe_words()
    strategy: str | None = maybe_words()
    turn: int = small()
    reserved_at: datetime = moment()
    settled_at: datetime | None = maybe_moment()
