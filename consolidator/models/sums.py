"""The sums that are kept of digests between two nights, and the texts of the keys that they count."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Integer, Text
from sqlmodel import Field, SQLModel

from consolidator.models.audience import ALL
from consolidator.models.columns import bigint_column, bytes_column, text_column


@dataclass(frozen=True, slots=True)
class AgentSumsRow:
    """Which digests the sums of an agent include."""

    agent: str
    version: str  # of the form in which sums and texts are kept
    lineage: int  # one number over the sessions, their roots, projects and sizes


class AgentSumsTable(SQLModel, table=True):
    """One row an agent, beside the sums of its scopes."""

    __tablename__ = "agent_sums"

    agent: str = text_column(primary_key=True)
    version: str = text_column()
    lineage: int = bigint_column()


@dataclass(frozen=True, slots=True)
class ScopeSumRow:
    """Sums over the digests of an agent in one project, or in all."""

    agent: str
    project: str  # "" is all projects
    audience: str  # whose sessions are summed, as `models.audience` explains: all, one person's; shared counts people
    keys: bytes  # int64: hashes of what is counted
    totals: bytes  # int32, or int64 if one is too large: how often
    roots: bytes  # the same: in how many lineage roots, or of how many people if shared


class ScopeSumTable(SQLModel, table=True):
    """One row a scope."""

    __tablename__ = "scope_sum"

    agent: str = text_column(primary_key=True)
    project: str = Field(default="", sa_type=Text, primary_key=True)
    audience: str = text_column(primary_key=True, default=ALL)
    keys: bytes = bytes_column()
    totals: bytes = bytes_column()
    roots: bytes = bytes_column()


@dataclass(frozen=True, slots=True)
class SumTextRow:
    """Texts of keys that an agent's sums count."""

    agent: str
    part: int  # texts come in parts: each night that meets new keys adds one
    keys: bytes  # int64: hashes
    groups: bytes  # int64: the group in which each key competes
    texts: bytes  # zlib JSON: a list


class SumTextTable(SQLModel, table=True):
    """One row a part."""

    __tablename__ = "sum_text"

    agent: str = text_column(primary_key=True)
    part: int = Field(default=0, sa_type=Integer, primary_key=True, nullable=False)
    keys: bytes = bytes_column()
    groups: bytes = bytes_column()
    texts: bytes = bytes_column()
