"""Failed calls of sessions, which of them solutions already count, and the solutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consolidator.database.jsonb import as_jsonb, escape
from consolidator.database.partitions import Connection
from consolidator.models.digest import ErrorRecordRow
from consolidator.models.solution import SolutionRow
from consolidator.store.queries import (
    Column,
    Outcome,
    Pairs,
    Rows,
    Statement,
    Tuples,
    execute,
    execute_each,
    fetch_all,
    load,
    row_values,
    upsert_each,
)

_SQL = load("calls/error_records")
RecordKey = tuple[str, int]  # session and seq
MAX_RECORDS = 1000  # the latest ones of a fingerprint, of which its solution is made


async def save(conn: Connection, rows: Sequence[ErrorRecordRow]) -> None:
    """Store failed calls, each with its present status; in the order in which a merge locks them."""
    values = [
        row_values(row) | {"fingerprint": escape(row.fingerprint), "record": as_jsonb(row.record)}
        for row in sorted(rows, key=lambda row: (row.session_id, row.seq))
    ]
    await execute_each(conn, _SQL["save"], values)


@dataclass(frozen=True, slots=True)
class RecordSummary:
    """What solutions count of a record."""

    session_id: str
    seq: int
    root_id: str
    project: str | None
    fingerprint: str
    status: str  # open | resolved | unresolved | noise
    fix_shape: str | None  # JSON; null until a merge has read the record
    occurred_at: str  # ISO 8601
    tool: str
    symbol: str
    headline: str
    tried: str | None  # JSON: a list of texts; null for an empty one
    peer: str  # of its lineage root: whose session it is; "" for the owner of the machine


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record whole, as JSON."""

    session_id: str
    seq: int
    record: dict[str, Any]


async def get_each(conn: Connection, keys: Sequence[RecordKey]) -> dict[RecordKey, dict[str, Any]]:
    """Return the records of some failed calls, by session and seq."""
    if not keys:
        return {}
    values = {"sessions": [session for session, _ in keys], "seqs": [seq for _, seq in keys]}
    rows = await fetch_all(conn, StoredRecord, _SQL["get_each"], values)
    return {(row.session_id, row.seq): row.record for row in rows}


async def mark_merged(conn: Connection, keys: Sequence[RecordKey], fix_shapes: Mapping[RecordKey, str]) -> None:
    """Mark failed calls as counted by solutions; store the shape of the fix where it is given."""
    values = {"sessions": [session for session, _ in keys], "seqs": [seq for _, seq in keys]}
    await execute(conn, _SQL["mark_merged"], {**values, "fix_shapes": [fix_shapes.get(key) for key in keys]})


list_outdated_sessions = Column[str, str, str](_SQL["outdated_sessions"], "agent version")


async def save_each(conn: Connection, rows: Sequence[SolutionRow]) -> list[Outcome | None]:
    """Publish solutions in one round trip; return what was done to each, None if it was published like this before."""
    values = [
        row_values(row)
        | {name: escape(getattr(row, name)) for name in ("fingerprint", "tool", "headline", "search")}
        | {"body": as_jsonb({**row.body, "withheld": row.withheld})}
        for row in rows
    ]
    return await upsert_each(conn, _SQL["save_solution"], values)


delete_others = Column[str, str, Sequence[str], Sequence[str]](_SQL["delete_others"], "agent fingerprints kept")


list_of_fingerprints = Rows[RecordSummary, str, Sequence[str]](
    RecordSummary, _SQL["of_fingerprints"], "agent fingerprints", latest=MAX_RECORDS
)
lock_unmerged = Tuples[RecordKey, str](_SQL["lock_unmerged"])
count_with_news = Pairs[str, int, str](_SQL["count_with_news"], "agent", latest=MAX_RECORDS)
list_outdated = Column[dict[str, Any], str, str](_SQL["outdated_records"], "session version")
delete_outdated_solutions = Statement[str, str](_SQL["delete_outdated_solutions"], "agent version")
