"""How far a model has read each session: a watermark of its own, beside that of consolidation."""

from __future__ import annotations

from collections.abc import Sequence

from consolidator.database.partitions import Connection
from consolidator.store.queries import execute_each, fetch_column, load

_SQL = load("nights/extraction")


async def list_unread_sessions(conn: Connection) -> list[str]:
    """Return the sessions that were consolidated before a model was configured and still have these events."""
    return await fetch_column(conn, _SQL["unread_sessions"])


async def advance_watermarks(conn: Connection, moves: Sequence[tuple[str, int, int]]) -> bool:
    """Move the watermarks of sessions, given as (id, from, to); return False where another process has moved one."""
    values = [{"id": session, "after": after, "upto": upto} for session, after, upto in sorted(moves)]
    return await execute_each(conn, _SQL["advance"], values) == len(values)
