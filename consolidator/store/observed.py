"""Reads what is watched from outside: the latest nights, the queue of sessions to drive, and what waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.database.partitions import Connection
from consolidator.store.queries import Rows, fetch_row, load

_SQL = load("observed")


@dataclass(frozen=True, slots=True)
class LastRun:
    """The latest run of a job."""

    job: str
    status: str  # running | done | failed | interrupted
    started_at: datetime
    finished_at: datetime | None
    report: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DrivingQueue:
    """The sessions that a driver has to look at."""

    due: int
    since: datetime | None  # the last event of the one that was quiet for longest
    failing: int  # whose last wakes did not come to an end
    driven: int  # that a harness holds


@dataclass(frozen=True, slots=True)
class WaitingWork:
    """What waits for a person or a night."""

    calls: int  # sessions with a call that waits for a person
    sessions: int  # with events that no night has read
    dead_letters: int
    open_calls: int  # of models, reserved and not settled


async def load_queue(conn: Connection, *, now: datetime, limit: int) -> DrivingQueue:
    """Return the queue of sessions to drive, counted up to a limit."""
    return await fetch_row(conn, DrivingQueue, _SQL["queue"], {"now": now, "limit": limit})


async def load_waiting(conn: Connection, *, limit: int) -> WaitingWork:
    """Return what waits, each counted up to a limit."""
    return await fetch_row(conn, WaitingWork, _SQL["waiting"], {"limit": limit})


load_last_runs = Rows[LastRun, Sequence[str]](LastRun, _SQL["last_runs"])
