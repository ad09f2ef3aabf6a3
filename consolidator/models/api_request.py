"""Answers to requests of the HTTP API that came with a key, so that a repeated one is answered and not done again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Index, LargeBinary
from sqlmodel import Field, SQLModel

from consolidator.models.columns import (
    integer_column,
    nullable_text_column,
    text_column,
    timestamp_column,
)

UNDER_WAY = 102  # the status of a request whose work has begun; its answer is the name of the process, see `has_ended`


@dataclass(frozen=True, slots=True)
class ApiRequestRow:
    """A request that was done, and its answer; or one that is under way."""

    credential: str  # whose key it is
    key: str
    request_hash: bytes  # SHA-256 of its method, path and body
    status: int  # of the answer
    answer: str  # the JSON document
    location: str | None  # of what was created
    session_id: str | None  # the session that it is about: an erasure removes the answer, too
    created_at: datetime


class ApiRequestTable(SQLModel, table=True):
    """One row for each request with a key, written with its effect, or before it, and kept for a day."""

    __tablename__ = "api_request"
    __table_args__ = (Index("api_request_created", "created_at"), Index("api_request_session", "session_id"))

    credential: str = text_column(primary_key=True)
    key: str = text_column(primary_key=True)
    request_hash: bytes = Field(sa_type=LargeBinary, nullable=False)
    status: int = integer_column()
    answer: str = text_column()
    location: str | None = nullable_text_column()
    session_id: str | None = nullable_text_column()
    created_at: datetime = timestamp_column()
