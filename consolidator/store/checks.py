"""Checks the invariants on the rows themselves, and reads what is watched from outside: nights, queues, what waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.database.partitions import Connection
from consolidator.store.queries import OneRow, Rows, fetch_column, load

_SQL = load("checks")
INVARIANTS = {
    "I1 every partition is guarded": "guarded",
    "I2 seq is dense": "dense",
    "I7 stamped is learned": "stamped",
    "I7 nothing is stamped ahead": "early",
    "I10 the ledger is whole": "ledger",
    "I11 facts have their evidence": "evidence",
    "every event has the blobs it refers to": "dangling",
    "no blob reference outlives its event": "blobs",
}


@dataclass(frozen=True, slots=True)
class DatabaseSizes:
    """How large the database is, as text for people."""

    size: str  # with its unit
    sessions: str
    events: str
    unconsolidated: str  # events that were not learned from
    server: str  # PostgreSQL's version


async def find_violations(conn: Connection) -> dict[str, list[str]]:
    """Return, for each invariant, the first twenty violations as texts."""
    return {name: await fetch_column(conn, _SQL[query]) for name, query in INVARIANTS.items()}


get_sizes = OneRow[DatabaseSizes](DatabaseSizes, _SQL["sizes"])


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


load_last_runs = Rows[LastRun, Sequence[str]](LastRun, _SQL["last_runs"])
load_queue = OneRow[DrivingQueue](DrivingQueue, _SQL["queue"])
load_waiting = OneRow[WaitingWork](WaitingWork, _SQL["waiting"])
