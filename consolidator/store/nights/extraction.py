"""How far a model has read each session: a watermark of its own, beside that of the stamps."""

from __future__ import annotations

from collections.abc import Sequence

from consolidator.database.partitions import Connection
from consolidator.store.queries import execute_each, load, rows

_SQL = load("nights/extraction")


async def late(conn: Connection) -> list[str]:
    """Return the sessions that were learned from before a model was configured, while their events are still there."""
    return [r["id"] for r in await rows(conn, _SQL["late"])]


async def advance(conn: Connection, moved: Sequence[tuple[str, int, int]]) -> bool:
    """Move the watermarks of sessions (id, from, to); False where somebody else has moved one."""
    values = [{"id": session, "after": after, "upto": upto} for session, after, upto in sorted(moved)]
    return await execute_each(conn, _SQL["extracted"], values) == len(values)
