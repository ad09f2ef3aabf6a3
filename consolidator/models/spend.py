"""What a session's model calls cost: reserved before a call, settled after it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from sqlalchemy import Date, Index, Numeric, Text, text
from sqlmodel import Field, SQLModel

from consolidator.models.columns import (
    bigint_column,
    integer_column,
    nullable_text_column,
    nullable_timestamp_column,
    text_column,
    timestamp_column,
)


@dataclass(frozen=True, slots=True)
class SpendRow:
    """A call of a model: what it may cost and, once it is settled, did cost."""

    call_id: str
    session_id: str | None  # none: the session was erased
    message_id: str | None
    purpose: str  # step | compaction | tool
    model: str
    day: date  # in UTC
    reserved: Decimal  # USD; 0 if no price is known
    cost: Decimal | None  # USD; none before it is settled, and after it if no price is known
    input_tokens: int  # estimated until it is settled; the cached ones among them
    output_tokens: int  # the most that it may be, until it is settled
    cached_tokens: int
    tier: str | None  # own | cheap; none if no price is known
    strategy: str | None  # of the context
    turn: int  # of the session, from 0
    reserved_at: datetime
    settled_at: datetime | None


class SpendTable(SQLModel, table=True):
    """Model calls of sessions and their costs."""

    __tablename__ = "spend"
    __table_args__ = (
        Index("spend_day", "day"),
        Index("spend_session", "session_id"),
        Index("spend_open", "session_id", postgresql_where=text("settled_at is null")),
    )

    call_id: str = text_column(primary_key=True)
    session_id: str | None = Field(default=None, sa_type=Text, nullable=True)
    message_id: str | None = nullable_text_column()
    purpose: str = text_column()
    model: str = text_column()
    day: date = Field(sa_type=Date, nullable=False)
    reserved: Decimal = Field(
        default=Decimal(0), sa_type=Numeric, nullable=False, sa_column_kwargs={"server_default": text("0")}
    )
    cost: Decimal | None = Field(default=None, sa_type=Numeric, nullable=True)
    input_tokens: int = bigint_column()
    output_tokens: int = bigint_column()
    cached_tokens: int = bigint_column()
    tier: str | None = nullable_text_column()
    strategy: str | None = nullable_text_column()
    turn: int = integer_column()
    reserved_at: datetime = timestamp_column()
    settled_at: datetime | None = nullable_timestamp_column()
