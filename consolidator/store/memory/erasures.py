"""Erases sessions with all that was derived from them, and logs that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ulid import ULID

from consolidator.database.partitions import Connection
from consolidator.models.source import ErasureRow
from consolidator.store.memory import rederive
from consolidator.store.queries import execute, fetch_all, fetch_column, fetch_value, load

_SQL = load("memory/erasures")


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """A session that goes when one of its ancestors, or itself, is erased."""

    id: str
    agent: str
    memory: str
    project: str | None
    origin: str | None  # "format:name" if it was imported
    kind: str  # root | fork | resume | branch | sub-agent
    events: int  # that are not pruned


async def list_family(conn: Connection, sessions: Sequence[str]) -> list[FamilyMember]:
    """Return sessions and all their descendants."""
    return await fetch_all(conn, FamilyMember, _SQL["family"], {"ids": list(sessions)})


async def list_sessions_of_peer(conn: Connection, peer: str) -> list[str]:
    """Return the sessions with a peer."""
    return await fetch_column(conn, _SQL["sessions_of_peer"], {"peer": peer})


async def erase_session(conn: Connection, session: str, *, reason: str, now: datetime) -> int:
    """Erase a session and what was derived from it, and log that; return the number of erased events."""
    values = {"session": session}
    await execute(conn, _SQL["erase_model_facts"], values)
    derived = await rederive.delete_derived(
        conn, session, after=0, digest=True, errors=True, candidates=True, include_models=True
    )
    await execute(conn, _SQL["erase_model_calls"], values)
    await execute(conn, _SQL["detach_rest"], values)
    entry = {"id": str(ULID()), "session": session, "derived": derived, "reason": reason, "now": now}
    return int(await fetch_value(conn, _SQL["erase_session"], entry))


async def erase_corrections(conn: Connection, peer: str) -> None:
    """Erase what people told memory about a peer."""
    await execute(conn, _SQL["erase_corrections"], {"peer": peer})


async def erase_retired_procedures(conn: Connection, agent: str) -> int:
    """Delete an agent's retired procedures; return how many there were."""
    return await execute(conn, _SQL["erase_retired_procedures"], {"agent": agent})


async def count_erasures(conn: Connection) -> int:
    """Return how many sessions were ever erased; another number later means that one was erased in between."""
    return int(await fetch_value(conn, _SQL["count"]))


async def list_erasures(conn: Connection, *, limit: int = 50) -> list[ErasureRow]:
    """Return what was erased, when and why, the latest first."""
    return await fetch_all(conn, ErasureRow, _SQL["listing"], {"limit": limit})
