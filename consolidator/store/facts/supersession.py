"""Facts that took each other's place, and what was believed of each before."""

from __future__ import annotations

from collections.abc import Sequence

from consolidator.database.partitions import Connection
from consolidator.models.supersession import ChainedFactRow, FactVersionRow
from consolidator.store.queries import Rows, fetch_all, load

_SQL = load("facts/supersession")


async def load_chain(conn: Connection, fact_id: str, *, limit: int) -> list[ChainedFactRow]:
    """Return a fact, at most `limit` - 1 that followed it, and as many whose place it took, in the order of time."""
    return await fetch_all(conn, ChainedFactRow, _SQL["chain"], {"id": fact_id, "limit": limit})


load_versions = Rows[FactVersionRow, Sequence[str]](FactVersionRow, _SQL["versions"])
