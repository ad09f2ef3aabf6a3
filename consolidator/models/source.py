"""What import remembers, so that nothing is imported twice and nothing erased or pruned comes back."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import Index
from sqlmodel import Field, SQLModel

from consolidator.models.columns import count, moment, words


class ImportedFileTable(SQLModel, table=True):
    """A file that was read to its end; unchanged size and time mean there is nothing new in it."""

    __tablename__ = "imported_file"

    format: str = words(primary_key=True)
    path: str = words(primary_key=True)
    size: int = count()
    mtime_ns: int = count()
    imported_at: datetime = moment()


class ImportedKeyTable(SQLModel, table=True):
    """The hashed identity of an item of a foreign log; it outlives the event."""

    __tablename__ = "imported_key"

    key: uuid.UUID = Field(primary_key=True)


class ErasureTable(SQLModel, table=True):
    """A person's right to be forgotten, exercised: what went, when, why; never what it said."""

    __tablename__ = "erasure"
    __table_args__ = (Index("erasure_session", "session_id"),)

    id: str = words(primary_key=True)
    session_id: str = words()  # a hash of the foreign name; import will not bring it back
    events: int = count()
    derived: int = count()
    reason: str = words()
    erased_at: datetime = moment()
