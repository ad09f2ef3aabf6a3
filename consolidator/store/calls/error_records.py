"""Failed calls of sessions, which of them solutions already count, and the solutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consolidator.database.partitions import Connection
from consolidator.models.solution import SolutionRow
from consolidator.store.queries import (
    Column,
    Outcome,
    Pairs,
    Rows,
    Statement,
    StatementEach,
    Tuples,
    UpsertEach,
    execute,
    load,
    row_values,
)

_SQL = load("calls/error_records")
RecordKey = tuple[str, int]  # session and seq
MAX_RECORDS = 1000  # the latest ones of a fingerprint, of which its solution is made


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


async def get_each(conn: Connection, keys: Sequence[RecordKey]) -> dict[RecordKey, dict[str, Any]]:
    """Return the records of some failed calls, by session and seq."""
    if not keys:
        return {}
    values = {"sessions": [session for session, _ in keys], "seqs": [seq for _, seq in keys]}
    return {(session, seq): record for session, seq, record in await _get_each(conn, **values)}


async def mark_merged(conn: Connection, keys: Sequence[RecordKey], fix_shapes: Mapping[RecordKey, str]) -> None:
    """Mark failed calls as counted by solutions; store the shape of the fix where it is given."""
    values = {"sessions": [session for session, _ in keys], "seqs": [seq for _, seq in keys]}
    await execute(conn, _SQL["mark_merged"], {**values, "fix_shapes": [fix_shapes.get(key) for key in keys]})


list_outdated_sessions = Column[str, str, str](_SQL["outdated_sessions"], "agent version")


async def save_each(conn: Connection, rows: Sequence[SolutionRow]) -> list[Outcome | None]:
    """Publish solutions in one round trip; return what was done to each, None if it was published like this before."""
    values = [row_values(row) | {"body": {**row.body, "withheld": row.withheld}} for row in rows]
    return await _save_each(conn, values)


delete_others = Column[str, str, Sequence[str], Sequence[str]](_SQL["delete_others"], "agent fingerprints kept")
list_of_fingerprints = Rows[RecordSummary, str, Sequence[str]](
    RecordSummary, _SQL["of_fingerprints"], "agent fingerprints", latest=MAX_RECORDS
)
lock_unmerged = Tuples[RecordKey, str](_SQL["lock_unmerged"])
count_with_news = Pairs[str, int, str](_SQL["count_with_news"], "agent", latest=MAX_RECORDS)
list_outdated = Column[dict[str, Any], str, str](_SQL["outdated_records"], "session version")
delete_outdated_solutions = Statement[str, str](_SQL["delete_outdated_solutions"], "agent version")
save = StatementEach(_SQL["save"], order="session_id seq")  # in the order in which a merge locks them
_get_each = Tuples[tuple[str, int, dict[str, Any]]](_SQL["get_each"])
_save_each = UpsertEach(_SQL["save_solution"])
