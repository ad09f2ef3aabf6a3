"""Seals: records how far sessions were learned from, and seals these chains with a root over all of them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from consolidator.database.partitions import Connection
from consolidator.models.run import SealedSessionRow, SealRow
from consolidator.store.queries import Column, FirstRow, Rows, fetch_column, load

_SQL = load("log/seals")
_BATCH = 500  # events fetched at once


@dataclass(frozen=True, slots=True)
class ChainedEvent:
    """An event with what its session says about its chain; the columns of the event are null in an empty session."""

    id: str  # of the session
    head: int
    unchained_to: int
    pruned_to: int
    chain_hash: bytes | None
    pruned_hash: bytes | None
    seq: int | None
    event_type: str | None
    data: str | None  # JSON
    created_at: datetime | None
    task_id: str | None
    tool_name: str | None
    hash: bytes | None
    principal: str | None


@dataclass(frozen=True, slots=True)
class GuardFunction:
    """A function that guards the log."""

    name: str
    source: str  # SHA-256 of its body, as hex digits


def hash_root(previous: bytes, sessions: Iterable[SealedSessionRow]) -> bytes:
    """Return the root over the root before it and chains, in order of session hash and seq."""
    root = hashlib.sha256(previous)
    for session in sessions:
        root.update(bytes(session.session_hash) + session.seq.to_bytes(8, "big") + bytes(session.hash))
    return root.digest()


async def stream_chains(conn: Connection) -> AsyncIterator[ChainedEvent]:
    """Yield every event in order of session and seq, through a server-side cursor in the caller's transaction."""
    async with conn.cursor("chains", row_factory=class_row(ChainedEvent)) as cursor:
        cursor.itersize = _BATCH
        await cursor.execute(_SQL["list_chains"])
        async for event in cursor:
            yield event


async def find_foreign_pasts(conn: Connection) -> list[str]:
    """Return the first sessions that read another past, or have another parent, than their parents and logs say."""
    return [
        *await fetch_column(conn, _SQL["find_foreign_pasts"]),
        *await fetch_column(conn, _SQL["find_foreign_parents"]),
    ]


seal = FirstRow[SealRow, str, datetime](SealRow, _SQL["seal"], "run_id now")
list_seals = Rows[SealRow](SealRow, _SQL["list"])
list_sealed_sessions = Rows[SealedSessionRow, int](SealedSessionRow, _SQL["list_sealed"])
find_broken_seals = Column[str](str, _SQL["find_broken_seals"])
find_broken_beginnings = Column[str](str, _SQL["find_broken_beginnings"])
find_rewritten_blobs = Column[str](str, _SQL["find_rewritten_blobs"])
list_guards = Rows[GuardFunction, Sequence[str]](GuardFunction, _SQL["list_guards"])
