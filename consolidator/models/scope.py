"""A scope: one agent in one project."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Text
from sqlmodel import Field, SQLModel

from consolidator.models.columns import bigint_column, integer_column, text_column


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """A scope whose procedures are merged again when its `version` is above `merged`."""

    agent: str
    project: str  # "" if there is none
    version: int  # grows with each change of a digest of the scope


class ScopeTable(SQLModel, table=True):
    """One row a scope."""

    __tablename__ = "scope"
    agent: str = text_column(primary_key=True)
    project: str = Field(default="", sa_type=Text, primary_key=True)
    version: int = bigint_column()
    merged: int = bigint_column()  # the version whose digests are in the published procedures
    sessions: int = integer_column()  # how many digests it had then
