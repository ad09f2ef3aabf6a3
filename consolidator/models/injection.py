"""An injection: what a hook put into an agent's context, and whether it was of use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Index
from sqlmodel import SQLModel

from consolidator.models.columns import (
    integer_column,
    json_object_column,
    nullable_text_column,
    text_array_column,
    text_column,
    timestamp_column,
)

Moment = Literal["session_start", "prompt", "failure"]
FixOutcome = Literal["worked", "failed", "not_tried"]


@dataclass(frozen=True, slots=True)
class InjectionRow:
    """A row of `injection`; it holds citations, and of a fix the call that was suggested."""

    id: str
    session_id: str  # the session as it is called once it is imported
    agent: str
    project: str | None
    moment: str  # session_start | prompt | failure
    cited: list[str]  # citations, such as "fact:f_1"
    tokens: int
    call_id: str | None  # of a failure: the call that failed
    fix: dict[str, Any]  # of a failure: the Suggestion as JSON, redacted
    outcome: str | None  # worked | failed | not_tried; None where the session's log does not tell yet
    created_at: datetime


class InjectionTable(SQLModel, table=True):
    """One row for each answer that a hook printed."""

    __tablename__ = "injection"
    __table_args__ = (Index("injection_session", "session_id"), Index("injection_created", "created_at"))

    id: str = text_column(primary_key=True)
    session_id: str = text_column()
    agent: str = text_column()
    project: str | None = nullable_text_column()
    moment: str = text_column()
    cited: list[str] = text_array_column()
    tokens: int = integer_column()
    call_id: str | None = nullable_text_column()
    fix: dict[str, Any] = json_object_column()
    outcome: str | None = nullable_text_column()
    created_at: datetime = timestamp_column()
