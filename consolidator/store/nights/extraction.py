"""How far a model has read each session: a watermark of its own, beside that of consolidation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consolidator.database.partitions import Connection
from consolidator.store.queries import Column, Statement, execute_each, fetch_all, load

_SQL = load("nights/extraction")


@dataclass(frozen=True, slots=True)
class ShareableSessions:
    """Sessions of one scope, in order."""

    first: str
    ids: list[str]


async def list_shareable(conn: Connection, session_ids: Sequence[str], *, size: int) -> dict[str, list[str]]:
    """Return those sessions that a model may read together, up to `size` of one scope, by the first of them."""
    values = {"ids": list(session_ids), "size": size}
    return {part.first: part.ids for part in await fetch_all(conn, ShareableSessions, _SQL["shareable"], values)}


async def advance_watermarks(conn: Connection, moves: Sequence[tuple[str, int, int]]) -> bool:
    """Move the watermarks of sessions, given as (id, from, to); return False where another process has moved one."""
    values = [{"id": session, "after": after, "upto": upto} for session, after, upto in sorted(moves)]
    return await execute_each(conn, _SQL["advance"], values) == len(values)


list_unread_sessions = Column[str](str, _SQL["unread_sessions"])
finish_waiting = Statement[str](_SQL["finish_waiting"])
list_waiting = Column[str](str, _SQL["list_waiting"])
stop_waiting = Statement[str](_SQL["stop_waiting"])
