"""Values too large for an event: content-addressed, and kept while an event refers to them."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Column, ForeignKey, Index, LargeBinary
from sqlmodel import Field, SQLModel

from consolidator.models.columns import bigint_column, bytes_column, text_column, timestamp_column


class BlobTable(SQLModel, table=True):
    """Some bytes under their SHA-256."""

    __tablename__ = "blob"
    __table_args__ = (Index("blob_touched", "touched_at"),)

    sha256: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    media_type: str = text_column()
    size: int = bigint_column()
    body: bytes = bytes_column()
    touched_at: datetime = (
        timestamp_column()
    )  # when a writer last named it; collection waits for a grace period after this


class BlobRefTable(SQLModel, table=True):
    """An event's reference to a blob; the foreign key rules out dangling references."""

    __tablename__ = "blob_ref"
    __table_args__ = (Index("blob_ref_blob", "sha256"),)

    session_id: str = text_column(primary_key=True)
    seq: int = bigint_column(primary_key=True)
    sha256: bytes = Field(sa_column=Column(LargeBinary, ForeignKey("blob.sha256"), primary_key=True))
