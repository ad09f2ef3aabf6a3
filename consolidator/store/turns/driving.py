"""Which sessions a driver takes next, by the partial index of pending ones, and how often waking them failed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from consolidator.database.partitions import Connection
from consolidator.store.queries import Column, Rows, Statement, fetch_all, load

PENDING_CHANNEL = "consolidator_pending"  # of PostgreSQL's notifications; the payload is a session's id
_SQL = load("turns/driving")


@dataclass(frozen=True, slots=True)
class DueSession:
    """A session that a driver can take, and how many wakes in a row failed."""

    id: str
    owner: str | None  # of a lease that is not released
    failures: int


@dataclass(frozen=True, slots=True)
class SessionWithoutTools:
    """A session that waits for a driver with more tools."""

    id: str
    key: str | None
    error: str | None  # that stands in its row
    missing: list[str]


@dataclass(frozen=True, slots=True)
class FailingSession:
    """A session whose last wakes failed, and when it is tried again; None: now."""

    id: str
    key: str | None
    failures: int
    next_at: datetime | None


async def list_due(
    conn: Connection,
    *,
    now: datetime,
    machine: str,
    tools: Collection[str],
    has_model: bool,
    excluded: Collection[str],
    limit: int,
) -> list[DueSession]:
    """Return sessions that may be driven now, the longest quiet first.

    Without a model of the process (`has_model`) only those with a model of their own. Owners of leases on `machine` are
    returned, too: the caller can tell whether they have ended.
    """
    values: dict[str, Any] = {"now": now, "machine": machine, "tools": Jsonb(list(tools)), "has_model": has_model}
    return await fetch_all(conn, DueSession, _SQL["list_due"], {**values, "excluded": list(excluded), "limit": limit})


async def list_without_tools(
    conn: Connection, *, tools: Collection[str], noted: str, limit: int
) -> list[SessionWithoutTools]:
    """Return pending sessions that use other tools than these; first those whose error does not begin with `noted`."""
    values = {"tools": Jsonb(list(tools)), "noted": noted, "limit": limit}
    return await fetch_all(conn, SessionWithoutTools, _SQL["list_without_tools"], values)


note_missing_tools = Statement[str, str, datetime](_SQL["note_missing_tools"], "id error now")
note_missing_model = Column[str, str, datetime, int](str, _SQL["note_missing_model"], "error now limit")
list_failing = Rows[FailingSession, int](FailingSession, _SQL["list_failing"])
begin_wake = Statement[str, datetime](_SQL["begin_wake"], "id after")
fail_wake = Statement[str, datetime](_SQL["fail_wake"], "id after")
clear_missing = Statement[str, str](_SQL["clear_missing"], "id error")
end_wake = Statement[str](_SQL["end_wake"])
undo_wake = Statement[str](_SQL["undo_wake"])
announce = Statement[str](_SQL["announce"])
