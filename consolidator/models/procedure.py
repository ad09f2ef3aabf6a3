"""A procedure: a closed contiguous pattern of tool calls that distinct sessions share, with learned arguments."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, Text, text
from sqlmodel import Field, SQLModel

from consolidator.models.columns import count, document, flag, maybe_moment, maybe_words, moment, words


class ProcedureTable(SQLModel, table=True):
    """A published procedure; its id is made of scope and steps, so that tomorrow's night updates it."""

    __tablename__ = "procedure"
    __table_args__ = (
        Index("procedure_scope", "agent", "project"),
        Index("procedure_search", text("to_tsvector('simple', title)"), postgresql_using="gin"),
    )

    id: str = words(primary_key=True)
    agent: str = words()
    project: str | None = maybe_words()  # none: it holds for the agent in several projects
    title: str = words()
    support: int = count()  # distinct lineage roots
    rank: float = Field(default=0.0)
    body: dict[str, Any] = document()  # steps, success, follows, preconditions, evidence
    learned_at: datetime = moment()
    updated_at: datetime = moment()
    retired_at: datetime | None = maybe_moment()  # when better ones took its place
    run_id: str = words()


class ToolProfileTable(SQLModel, table=True):
    """How an agent uses one tool: usual arguments and where they come from, and what usually follows."""

    __tablename__ = "tool_profile"

    agent: str = words(primary_key=True)
    project: str = Field(default="", sa_type=Text, primary_key=True)
    tool: str = words(primary_key=True)
    body: dict[str, Any] = document()


class SolutionTable(SQLModel, table=True):
    """An error by its fingerprint, and what resolved it."""

    __tablename__ = "solution"
    __table_args__ = (
        Index("solution_scope", "agent", "project"),
        Index("solution_fingerprint", "fingerprint"),
        Index("solution_signature", text("substr(fingerprint, strpos(fingerprint, '|') + 1)")),
        Index("solution_search", text("to_tsvector('simple', search)"), postgresql_using="gin"),
    )

    id: str = words(primary_key=True)
    agent: str = words()
    project: str | None = maybe_words()
    fingerprint: str = words()
    tool: str = words()
    headline: str = words()
    confirmed: bool = flag()  # the fix was seen in two sessions or more
    sessions: int = count()
    occurrences: int = count()
    search: str = words()  # what full text search reads
    body: dict[str, Any] = document()
    learned_at: datetime = moment()
    updated_at: datetime = moment()
    retired_at: datetime | None = maybe_moment()
    run_id: str = words()
