"""A failed call of a session, and what resolved it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Index, text
from sqlmodel import SQLModel

from consolidator.models.columns import (
    bigint_column,
    boolean_column,
    json_object_column,
    nullable_text_column,
    text_column,
)


@dataclass(frozen=True, slots=True)
class ErrorRecordRow:
    """A failed call as it is stored; `fix_shape` and `merged` are set by the merge that publishes its solution."""

    session_id: str
    seq: int  # of the call
    agent: str
    project: str | None
    fingerprint: str
    status: str  # open | resolved | unresolved | noise
    record: dict[str, Any]  # the ErrorRecord as JSON
    family: str | None = None  # its fingerprint without the names that decide the fix; none for one without names


_LATEST_FIRST = (
    text("(record ->> 'occurred_at') desc"),
    text("session_id desc"),
    text("seq desc"),
)


class ErrorRecordTable(SQLModel, table=True):
    """One row a failed call."""

    __tablename__ = "error_record"
    __table_args__ = (
        Index("error_record_group", "agent", "fingerprint", *_LATEST_FIRST),
        Index("error_record_family", "agent", "family", *_LATEST_FIRST, postgresql_where=text("family is not null")),
        Index("error_record_version", text("split_part(fingerprint, ':', 1)"), "agent"),
        Index("error_record_new", "agent", "fingerprint", postgresql_where=text("not merged")),
    )

    session_id: str = text_column(primary_key=True)
    seq: int = bigint_column(primary_key=True)
    agent: str = text_column()
    project: str | None = nullable_text_column()
    fingerprint: str = text_column()
    status: str = text_column()
    record: dict[str, Any] = json_object_column()
    fix_shape: str | None = (
        nullable_text_column()
    )  # JSON: a `FixOutcome`, what kinds of fixes worked and failed; null until a merge has read the record
    family: str | None = nullable_text_column()  # the fingerprint without the names that decide the fix
    merged: bool = boolean_column()  # whether its solution counts it as it is now
