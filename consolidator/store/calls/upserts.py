"""Writes published rows, and tells which of them were added or changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, LiteralString

from consolidator.database.partitions import Connection
from consolidator.store.queries import fetch_each

Outcome = Literal["added", "changed"]


@dataclass(frozen=True, slots=True)
class _Upserted:
    added: bool


async def upsert_each(
    conn: Connection, query: LiteralString, values: Sequence[Mapping[str, Any]]
) -> list[Outcome | None]:
    """Run a query that returns `added` for each row it writes; return what it did to each, None for nothing."""
    results = await fetch_each(conn, _Upserted, query, values)
    return [None if not rows else _outcome(rows[0]) for rows in results]


def _outcome(row: _Upserted) -> Outcome:
    return "added" if row.added else "changed"
