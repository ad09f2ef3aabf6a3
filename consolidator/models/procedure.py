"""A procedure: a closed contiguous pattern of tool calls that distinct sessions share, with learned arguments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Index, Text, text
from sqlmodel import Field, SQLModel

from consolidator.models.audience import ALL
from consolidator.models.columns import (
    bigint_column,
    float_column,
    json_object_column,
    nullable_text_column,
    nullable_timestamp_column,
    text_column,
    timestamp_column,
)

MIN_SUCCESS = 0.5  # expected share of a procedure's sessions or calls that work; what mostly fails is no advice


@dataclass(frozen=True, slots=True)
class ProcedureRow:
    """A published procedure."""

    id: str  # a hash of scope and steps, so that tomorrow's night updates it
    agent: str
    project: str | None  # none: it holds for the agent in several projects
    title: str
    support: int  # distinct lineage roots
    rank: float
    worth: float  # bits: what telling it is worth; 0 where it is listed only on request
    body: dict[str, Any]  # steps, success, follows, preconditions, purpose, evidence
    learned_at: datetime
    updated_at: datetime
    retired_at: datetime | None  # when better ones took its place
    run_id: str | None  # the run that wrote it, if the cause is a run
    cause: str  # run | person | review | erasure
    audience: str = ALL  # to whom it may be shown

    @property
    def mostly_fails(self) -> bool:
        """Whether more of its sessions or calls failed than worked."""
        return bool(self.body.get("success", {}).get("mean", 1.0) < MIN_SUCCESS)


class ProcedureTable(SQLModel, table=True):
    """One row a procedure."""

    __tablename__ = "procedure"
    __table_args__ = (
        Index("procedure_scope", "agent", "project"),
        Index("procedure_worth", text("worth desc"), "id", postgresql_where=text("retired_at is null and worth > 0")),
        Index("procedure_search", text("to_tsvector('simple', title)"), postgresql_using="gin"),
    )

    id: str = text_column(primary_key=True)
    agent: str = text_column()
    project: str | None = nullable_text_column()
    title: str = text_column()
    support: int = bigint_column()
    rank: float = Field(default=0.0)
    worth: float = float_column()
    body: dict[str, Any] = json_object_column()
    learned_at: datetime = timestamp_column()
    updated_at: datetime = timestamp_column()
    retired_at: datetime | None = nullable_timestamp_column()
    run_id: str | None = nullable_text_column()
    cause: str = text_column(default="run")
    audience: str = text_column(default=ALL)


class WithheldProcedureTable(SQLModel, table=True):
    """One row a procedure of a project that is not published there, as all projects share it.

    It is ready to be published when they do not share it any more, without learning the project again.
    """

    __tablename__ = "withheld_procedure"
    __table_args__ = (Index("withheld_procedure_scope", "agent", "project"),)

    id: str = text_column(primary_key=True)
    agent: str = text_column()
    project: str = text_column()
    audience: str = text_column()
    title: str = text_column()
    support: int = bigint_column()
    rank: float = float_column()
    worth: float = float_column()
    body: dict[str, Any] = json_object_column()


@dataclass(frozen=True, slots=True)
class ToolProfileRow:
    """How an agent uses one tool."""

    agent: str
    project: str  # "" is the agent as a whole
    tool: str
    body: dict[str, Any]  # usual arguments, their sources, usual successors
    audience: str = ALL  # to whom it may be shown


class ToolProfileTable(SQLModel, table=True):
    """One row a tool and scope."""

    __tablename__ = "tool_profile"

    agent: str = text_column(primary_key=True)
    project: str = Field(default="", sa_type=Text, primary_key=True)
    audience: str = text_column(primary_key=True, default=ALL)
    tool: str = text_column(primary_key=True)
    body: dict[str, Any] = json_object_column()
