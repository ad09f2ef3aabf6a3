"""What import remembers, so that nothing is imported twice, and nothing erased or pruned comes back."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import BigInteger, Index, Text
from sqlmodel import Field, SQLModel

from consolidator.models.columns import bigint_column, text_column, timestamp_column


class ImportedFileTable(SQLModel, table=True):
    """A file that was read to its end; the same size and time mean that nothing in it is new."""

    __tablename__ = "imported_file"

    format: str = text_column(primary_key=True)
    path: str = text_column(primary_key=True)
    size: int = bigint_column()
    mtime_ns: int = bigint_column()
    imported_at: datetime = timestamp_column()


class ImportedKeyTable(SQLModel, table=True):
    """The hashed identity of an item of a foreign log, and the event that it became; it outlives the event."""

    __tablename__ = "imported_key"

    key: uuid.UUID = Field(primary_key=True)
    session_id: str | None = Field(default=None, sa_type=Text)  # null for items of an earlier version, and of exports
    seq: int | None = Field(default=None, sa_type=BigInteger)


@dataclass(frozen=True, slots=True)
class ErasureRow:
    """An erasure: what was erased, when and why; never what it said."""

    id: str
    session_id: str  # a hash of the foreign name; import will not bring it back
    events: int
    derived: int  # rows that were derived from the session
    reason: str
    erased_at: datetime


class ErasureTable(SQLModel, table=True):
    """One row an erased session."""

    __tablename__ = "erasure"
    __table_args__ = (Index("erasure_session", "session_id"),)

    id: str = text_column(primary_key=True)
    session_id: str = text_column()
    events: int = bigint_column()
    derived: int = bigint_column()
    reason: str = text_column()
    erased_at: datetime = timestamp_column()
