"""A scope: one agent in one project, and what a merge keeps of it for the next one."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Text
from sqlmodel import Field, SQLModel

from consolidator.models.columns import bigint_column, bytes_column, text_column


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """One person's part of a scope; its procedures are merged again when its `version` is above `merged`."""

    agent: str
    project: str  # "" if there is none
    peer: str  # whose sessions these are, by their lineage roots; "" for the owner of the machine
    version: int  # grows with each change of a digest of these sessions


class ScopeTable(SQLModel, table=True):
    """One row a scope and person."""

    __tablename__ = "scope"
    agent: str = text_column(primary_key=True)
    project: str = Field(default="", sa_type=Text, primary_key=True)
    peer: str = text_column(primary_key=True, default="")
    version: int = bigint_column()
    merged: int = bigint_column()  # the version whose digests are in the published procedures


class MergedAgentTable(SQLModel, table=True):
    """By which form an agent's procedures were published: if it changes, all of its scopes are published again."""

    __tablename__ = "merged_agent"
    agent: str = text_column(primary_key=True)
    form: str = text_column()


@dataclass(frozen=True, slots=True)
class ScopeStateRow:
    """What the last merge of a scope leaves for the next one: a cache, which can be made again from the digests."""

    agent: str
    project: str  # "" is all projects
    audience: str
    keys: bytes  # int64: hashes of what recurs
    groups: bytes  # int64: the group in which each key competes
    texts: bytes  # zlib JSON: a list
    selected: bytes  # int64: hashes of the steps of each procedure, also of those that are published for all projects


class ScopeStateTable(SQLModel, table=True):
    """One row a scope and audience."""

    __tablename__ = "scope_state"
    agent: str = text_column(primary_key=True)
    project: str = Field(default="", sa_type=Text, primary_key=True)
    audience: str = text_column(primary_key=True)
    keys: bytes = bytes_column()
    groups: bytes = bytes_column()
    texts: bytes = bytes_column()
    selected: bytes = bytes_column()
