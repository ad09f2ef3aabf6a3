"""Checks the invariants on the rows themselves, for `db verify` and for tests."""

from __future__ import annotations

from consolidator.database.partitions import Connection
from consolidator.store.queries import load, row, rows

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


async def verify(conn: Connection) -> dict[str, list[str]]:
    """Return, for each invariant, the first cases in which it does not hold."""
    return {name: [r["problem"] for r in await rows(conn, _SQL[query])] for name, query in INVARIANTS.items()}


async def sizes(conn: Connection) -> dict[str, str]:
    """Return how large everything is, as text for people."""
    found = await row(conn, _SQL["sizes"])
    assert found is not None
    return {key: str(value) for key, value in found.items()}
