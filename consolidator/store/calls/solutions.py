"""Published solutions, as the nights write them."""

from __future__ import annotations

from collections.abc import Sequence

from consolidator.database.jsonb import as_jsonb, escape
from consolidator.database.partitions import Connection
from consolidator.models.solution import SolutionRow
from consolidator.store.queries import Column, Outcome, load, row_values, upsert_each

_SQL = load("calls/solutions")


async def save_each(conn: Connection, rows: Sequence[SolutionRow]) -> list[Outcome | None]:
    """Publish solutions in one round trip; return what was done to each, None if it was published like this before."""
    values = [
        row_values(row)
        | {name: escape(getattr(row, name)) for name in ("fingerprint", "tool", "headline", "search")}
        | {"body": as_jsonb({**row.body, "withheld": row.withheld})}
        for row in rows
    ]
    return await upsert_each(conn, _SQL["save"], values)


delete_others = Column[str, str, Sequence[str], Sequence[str]](str, _SQL["delete_others"], "agent fingerprints kept")
