"""Erases sessions with all that was derived from them, and logs that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ulid import ULID

from consolidator.database.partitions import Connection
from consolidator.models.provenance import ErasureRow
from consolidator.store.memory import rederive
from consolidator.store.queries import Column, Rows, Statement, Value, execute, fetch_value, load

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


list_family = Rows[FamilyMember, Sequence[str]](FamilyMember, _SQL["family"])
list_sessions_of_peer = Column[str, str](_SQL["sessions_of_peer"])
erase_corrections = Statement[str](_SQL["erase_corrections"])
erase_retired_procedures = Statement[str](_SQL["erase_retired_procedures"])
count_erasures = Value[int](_SQL["count"])
list_erasures = Rows[ErasureRow](ErasureRow, _SQL["listing"], limit=50)
