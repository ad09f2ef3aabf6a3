"""Sums over digests, kept from night to night by scope, with the texts of the keys that they count.

Packed arrays are read in the binary format, which is much cheaper than bytes as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, TypeVar

from psycopg.rows import class_row

from consolidator.database.partitions import Connection
from consolidator.models.sums import AgentSumsRow, ScopeSumRow, SumTextRow
from consolidator.store.queries import execute, fetch_one, load, row_values

_SQL = load("memory/sums")
T = TypeVar("T")


async def _fetch_binary(
    conn: Connection, row_type: type[T], query: LiteralString, values: Mapping[str, Any]
) -> list[T]:
    async with conn.cursor(binary=True, row_factory=class_row(row_type)) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchall()


@dataclass(frozen=True, slots=True)
class UnsummedDigest:
    """A digest that the sums of its agent do not include as it is now; arrays are int64."""

    session_id: str
    root_id: str
    project: str  # "" if there is none
    sequence: bytes
    seqs: bytes
    keys: bytes
    counts: bytes
    last_at: float  # seconds since 1970
    summed_keys: bytes | None  # as the sums include it, if they do
    summed_counts: bytes | None
    goal: bytes  # hashes of the words of what the session was asked to do
    peer: str  # of its lineage root: whose session it is; "" for the owner of the machine


async def lock_unsummed(conn: Connection, agent: str, *, everything: bool = False) -> list[UnsummedDigest]:
    """Return and lock the digests that an agent's sums do not include as they are now, or `everything` it has."""
    return await _fetch_binary(conn, UnsummedDigest, _SQL["unsummed"], {"agent": agent, "all": everything})


@dataclass(frozen=True, slots=True)
class SummedCounts:
    """What the sums of an agent include of a digest; arrays are int64."""

    session_id: str
    keys: bytes
    counts: bytes


async def get_summed_counts(conn: Connection, sessions: Sequence[str]) -> list[SummedCounts]:
    """Return what sums include of some digests, which they include."""
    if not sessions:
        return []
    return await _fetch_binary(conn, SummedCounts, _SQL["summed_counts"], {"sessions": list(sessions)})


@dataclass(frozen=True, slots=True)
class DigestSequence:
    """What patterns are found in, and where a digest stands in its agent's sums; arrays are int64."""

    session_id: str
    root_id: str
    project: str  # "" if there is none
    sequence: bytes
    seqs: bytes
    last_at: float  # seconds since 1970
    outcome: int  # of its tasks, when it was summed: 1, -1, or 0 if nobody said
    size: int | None  # bytes of its keys as the sums include them; None if they do not
    goal: bytes  # hashes of the words of what the session was asked to do
    peer: str  # of its lineage root: whose session it is; "" for the owner of the machine


async def list_sequences(conn: Connection, agent: str) -> list[DigestSequence]:
    """Return the sequences of all digests of an agent, in order of session."""
    return await _fetch_binary(conn, DigestSequence, _SQL["sequences"], {"agent": agent})


async def mark_summed(conn: Connection, outcomes: Mapping[str, int]) -> None:
    """Mark digests as included in the sums as they are now; `outcomes` are by session."""
    values = {"sessions": list(outcomes), "outcomes": list(outcomes.values())}
    await execute(conn, _SQL["mark_summed"], values)


async def get_agent_sums(conn: Connection, agent: str) -> AgentSumsRow | None:
    """Return which digests an agent's sums include, as one number, and the version of their form."""
    return await fetch_one(conn, AgentSumsRow, _SQL["get_agent_sums"], {"agent": agent})


async def save_agent_sums(conn: Connection, row: AgentSumsRow) -> None:
    """Store which digests an agent's sums include."""
    await execute(conn, _SQL["save_agent_sums"], row_values(row))


async def delete(conn: Connection, agent: str) -> None:
    """Delete an agent's sums and texts."""
    await execute(conn, _SQL["delete"], {"agent": agent})


async def get_scope_sum(conn: Connection, agent: str, project: str, audience: str) -> ScopeSumRow | None:
    """Return the packed sums of a scope for an audience; "" is all projects."""
    values = {"agent": agent, "project": project, "audience": audience}
    rows = await _fetch_binary(conn, ScopeSumRow, _SQL["get_scope_sum"], values)
    return rows[0] if rows else None


async def save_scope_sum(conn: Connection, row: ScopeSumRow) -> None:
    """Store the packed sums of a scope."""
    await execute(conn, _SQL["save_scope_sum"], row_values(row))


async def list_texts(conn: Connection, agent: str) -> list[SumTextRow]:
    """Return the packed texts of what an agent's sums count, in the parts in which they came."""
    return await _fetch_binary(conn, SumTextRow, _SQL["texts"], {"agent": agent})


async def save_texts(conn: Connection, row: SumTextRow) -> None:
    """Add a part to an agent's texts; part 0 replaces all parts."""
    if row.part == 0:
        await execute(conn, _SQL["delete_texts"], {"agent": row.agent})
    await execute(conn, _SQL["save_texts"], row_values(row))
