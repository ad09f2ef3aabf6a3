"""A digest: all that is kept of a session's calls once its events are pruned."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Index, text
from sqlmodel import SQLModel

from consolidator.models.columns import (
    bigint_column,
    bytes_column,
    json_object_column,
    nullable_text_column,
    text_column,
    timestamp_column,
)


@dataclass(frozen=True, slots=True)
class DigestRow:
    """One session's digest, a left fold over its calls, in a form that sums over sessions."""

    session_id: str
    agent: str
    project: str | None
    last_at: datetime  # when the last event that it holds happened
    calls: int
    sequence: bytes  # int64: hashes of the cleaned symbols, in order
    seqs: bytes  # int64: the event with which each of them began
    keys: bytes  # int64: hashes of what is counted
    counts: bytes  # int64: how often
    terms: bytes  # zlib JSON: hash -> text
    quotes: bytes  # zlib JSON: what the first call of each element of the sequence was given
    state: bytes  # zlib JSON: what the fold of calls needs to go on
    error_state: bytes  # zlib JSON: what the fold of errors needs to go on
    summary: dict[str, Any]  # the fold of the session's summary
    version: str  # of what is counted
    goal: bytes = b""  # int64: hashes of the words of what the session was asked to do


class DigestTable(SQLModel, table=True):
    """One row a session."""

    __tablename__ = "digest"
    __table_args__ = (
        Index("digest_latest", "agent", text("last_at desc"), text("session_id desc")),
        Index(
            "digest_latest_of_project",
            "agent",
            text("coalesce(project, '')"),
            text("last_at desc"),
            text("session_id desc"),
        ),
        Index("digest_latest_of_person", "agent", "peer", text("last_at desc"), text("session_id desc")),
    )

    session_id: str = text_column(primary_key=True)
    agent: str = text_column()
    project: str | None = nullable_text_column()
    last_at: datetime = timestamp_column()
    calls: int = bigint_column()
    sequence: bytes = bytes_column()
    seqs: bytes = bytes_column()
    keys: bytes = bytes_column()
    counts: bytes = bytes_column()
    terms: bytes = bytes_column()
    quotes: bytes = bytes_column()
    state: bytes = bytes_column()
    error_state: bytes = bytes_column()
    summary: dict[str, Any] = json_object_column()
    version: str = text_column()
    goal: bytes = bytes_column()
    peer: str = text_column(default="")  # of its lineage root: whose session it is; "" for the owner of the machine
