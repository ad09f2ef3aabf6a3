"""How far a model has read each session: a watermark of its own, beside that of consolidation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consolidator.database.partitions import Connection
from consolidator.store.queries import execute, execute_each, fetch_all, fetch_column, load

_SQL = load("nights/extraction")


@dataclass(frozen=True, slots=True)
class ShareableSessions:
    """Sessions of one scope, in order."""

    first: str
    ids: list[str]


async def list_unread_sessions(conn: Connection) -> list[str]:
    """Return the sessions that were consolidated before a model was configured and still have these events."""
    return await fetch_column(conn, _SQL["unread_sessions"])


async def list_shareable(conn: Connection, session_ids: Sequence[str], *, size: int) -> dict[str, list[str]]:
    """Return those sessions that a model may read together, up to `size` of one scope, by the first of them."""
    values = {"ids": list(session_ids), "size": size}
    return {part.first: part.ids for part in await fetch_all(conn, ShareableSessions, _SQL["shareable"], values)}


async def advance_watermarks(conn: Connection, moves: Sequence[tuple[str, int, int]]) -> bool:
    """Move the watermarks of sessions, given as (id, from, to); return False where another process has moved one."""
    values = [{"id": session, "after": after, "upto": upto} for session, after, upto in sorted(moves)]
    return await execute_each(conn, _SQL["advance"], values) == len(values)


async def finish_waiting(conn: Connection, session_id: str) -> None:
    """Unmark a session if the model has read all that rules have learned from."""
    await execute(conn, _SQL["finish_waiting"], {"id": session_id})


async def list_waiting(conn: Connection) -> list[str]:
    """Return the sessions with events that wait for the model."""
    return await fetch_column(conn, _SQL["list_waiting"])


async def stop_waiting(conn: Connection, session_id: str) -> None:
    """Unmark a session: no model is configured any more."""
    await execute(conn, _SQL["stop_waiting"], {"id": session_id})
