"""How far a model has read each session: a watermark of its own, beside that of consolidation."""

from __future__ import annotations

from collections.abc import Sequence

from consolidator.database.partitions import Connection
from consolidator.store.queries import Column, Pairs, Statement, execute_each, load

_SQL = load("nights/extraction")


async def advance_watermarks(conn: Connection, moves: Sequence[tuple[str, int, int]]) -> bool:
    """Move the watermarks of sessions, given as (id, from, to); return False where another process has moved one."""
    values = [{"id": session, "after": after, "upto": upto} for session, after, upto in sorted(moves)]
    return await execute_each(conn, _SQL["advance"], values) == len(values)


list_unread_sessions = Column[str](_SQL["unread_sessions"])
finish_waiting = Statement[str](_SQL["finish_waiting"])
list_waiting = Column[str](_SQL["list_waiting"])
stop_waiting = Statement[str](_SQL["stop_waiting"])
list_shareable = Pairs[str, list[str], Sequence[str]](_SQL["shareable"], "ids")
