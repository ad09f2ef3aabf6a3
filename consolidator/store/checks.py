"""Checks the invariants on the rows themselves, for `db verify` and for tests."""

from __future__ import annotations

from dataclasses import dataclass

from consolidator.database.partitions import Connection
from consolidator.store.queries import OneRow, fetch_column, load

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
