"""A solution: an error by its fingerprint, and the fixes that resolved it over all sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, Text, text
from sqlmodel import Column, Field, SQLModel

from consolidator.models.audience import ALL
from consolidator.models.columns import (
    PEOPLE_ONLY,
    bigint_column,
    boolean_column,
    json_object_column,
    nullable_text_column,
    nullable_timestamp_column,
    text_column,
    timestamp_column,
)


@dataclass(frozen=True, slots=True)
class SolutionRow:
    """A published solution."""

    id: str  # a hash of agent, project and fingerprint
    agent: str
    project: str | None  # none: several projects met the error
    fingerprint: str
    tool: str
    headline: str  # the telling line of the error
    confirmed: bool  # whether a fix worked in two sessions or more
    sessions: int  # distinct lineage roots
    occurrences: int
    search: str  # what full text search reads
    body: dict[str, Any]  # the Solution as JSON
    learned_at: datetime
    updated_at: datetime
    retired_at: datetime | None
    run_id: str | None  # the run that wrote it, if the cause is a run
    cause: str  # run | person | review | erasure
    audience: str = ALL  # to whom it may be shown
    withheld: list[str] = field(init=False, default_factory=list, metadata={PEOPLE_ONLY: True})  # fixes, in words

    def __post_init__(self) -> None:
        """Take what is told to no agent out of the body, which agents get."""
        body = dict(self.body)
        object.__setattr__(self, "withheld", body.pop("withheld", []))
        object.__setattr__(self, "body", body)

    @property
    def is_advice(self) -> bool:
        """Whether its best fix is confirmed, and says what to do in another case, too."""
        return self.confirmed and bool(self.body["fixes"][0].get("transfers", True))


class SolutionTable(SQLModel, table=True):
    """One row a solution."""

    __tablename__ = "solution"
    __table_args__ = (
        Index("solution_scope", "agent", "project"),
        Index("solution_fingerprint", "fingerprint"),
        Index("solution_signature", text("substr(fingerprint, strpos(fingerprint, '|') + 1)")),
        Index("solution_search", text("to_tsvector('simple', search)"), postgresql_using="gin"),
    )

    id: str = text_column(primary_key=True)
    agent: str = text_column()
    project: str | None = nullable_text_column()
    fingerprint: str = text_column()
    tool: str = text_column()
    headline: str = text_column()
    confirmed: bool = boolean_column()
    sessions: int = bigint_column()
    occurrences: int = bigint_column()
    search: str = text_column()
    body: dict[str, Any] = json_object_column()
    learned_at: datetime = timestamp_column()
    updated_at: datetime = timestamp_column()
    retired_at: datetime | None = nullable_timestamp_column()
    run_id: str | None = nullable_text_column()
    cause: str = text_column(default="run")
    audience: str = text_column(default=ALL)


class FailedAgainTable(SQLModel, table=True):
    """One row a solution whose error a run read of though the fix was known before the run began."""

    __tablename__ = "failed_again"

    run_id: str = Field(sa_column=Column(Text, ForeignKey("run.id", ondelete="CASCADE"), primary_key=True))
    agent: str = text_column(primary_key=True)
    solution_id: str = text_column(primary_key=True)
    times: int = bigint_column()
    in_sessions: int = bigint_column()
