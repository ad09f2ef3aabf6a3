"""All that is kept of a session's calls once its events are gone: what procedures and solutions are summed from."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, Integer, Text, text
from sqlmodel import Field, SQLModel

from consolidator.models.columns import count, document, flag, maybe_packed, maybe_words, moment, packed, small, words


class DigestTable(SQLModel, table=True):
    """One session's digest: a left fold over its calls, in a form that sums over sessions."""

    __tablename__ = "digest"
    __table_args__ = (
        Index("digest_scope", "agent", "project"),
        Index("digest_new", "agent", postgresql_where=text("not summed")),
    )

    session_id: str = words(primary_key=True)
    agent: str = words()
    project: str | None = maybe_words()
    last_at: datetime = moment()
    calls: int = count()
    sequence: bytes = packed()  # int64: hashes of the cleaned symbols, in order
    seqs: bytes = packed()  # int64: the event each of them began with
    keys: bytes = packed()  # int64: hashes of what is counted
    counts: bytes = packed()  # int64: how often
    terms: bytes = packed()  # zlib JSON: hash -> text
    quotes: bytes = packed()  # zlib JSON: what each element of the sequence was given
    state: bytes = packed()  # zlib JSON: what the fold needs to go on
    folds: bytes = packed()  # zlib JSON: the same of the errors' fold
    summary: dict[str, Any] = document()  # the session summary's fold
    version: str = words()
    summed: bool = flag()  # whether the sums hold it as it is
    was_keys: bytes | None = maybe_packed()  # as the sums hold it, where it has changed since
    was_counts: bytes | None = maybe_packed()
    outcome: int = small()  # how its tasks went, when it was summed: 1, -1, or 0 where nobody said


class AgentSumsTable(SQLModel, table=True):
    """Of which digests the kept sums of an agent are."""

    __tablename__ = "summed"

    agent: str = words(primary_key=True)
    version: str = words()
    lineage: int = count()  # one number over sessions, their roots, projects and sizes


class ScopeSumTable(SQLModel, table=True):
    """Sums over the digests of an agent in one project, or in all."""

    __tablename__ = "scope_sum"

    agent: str = words(primary_key=True)
    project: str = Field(default="", sa_type=Text, primary_key=True)  # "" is everything
    keys: bytes = packed()  # int64: hashes of what is counted
    totals: bytes = packed()  # int32, or int64 where one is too large: how often
    roots: bytes = packed()  # the same: in how many lineage roots


class SumTextTable(SQLModel, table=True):
    """Texts of what an agent's sums count, in the parts in which they came."""

    __tablename__ = "summed_name"

    agent: str = words(primary_key=True)
    part: int = Field(default=0, sa_type=Integer, primary_key=True, nullable=False)
    keys: bytes = packed()  # int64: hashes
    groups: bytes = packed()  # int64: in which group each competes
    texts: bytes = packed()  # zlib JSON: a list


class ErrorRecordTable(SQLModel, table=True):
    """A failed call of a session, and what became of it."""

    __tablename__ = "error_record"
    __table_args__ = (
        Index("error_record_group", "agent", "fingerprint"),
        Index("error_record_new", "agent", "fingerprint", postgresql_where=text("not merged")),
    )

    session_id: str = words(primary_key=True)
    seq: int = count(primary_key=True)
    agent: str = words()
    project: str | None = maybe_words()
    fingerprint: str = words()
    status: str = words()  # open | resolved | unresolved | noise
    record: dict[str, Any] = document()
    shape: str | None = maybe_words()  # JSON: what resolved it, in short; none where the merger has not seen it yet
    merged: bool = flag()  # whether its solution knows of it


class ScopeTable(SQLModel, table=True):
    """An agent's memory in one project: `version` moves with its digests, `merged` follows when they are summed."""

    __tablename__ = "scope"
    agent: str = words(primary_key=True)
    project: str = Field(default="", sa_type=Text, primary_key=True)  # "" where there is none
    version: int = count()
    merged: int = count()
    sessions: int = small()


class SettingTable(SQLModel, table=True):
    """What belongs to this database alone, such as the salt of its hashes."""

    __tablename__ = "setting"
    name: str = words(primary_key=True)
    value: bytes = packed()
