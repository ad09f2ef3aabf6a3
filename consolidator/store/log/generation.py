"""What models say, piece by piece, and how far it reached each channel: the log's two append-only companions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString

import psycopg

from consolidator.database import partitions
from consolidator.database.jsonb import escape, unescape
from consolidator.database.partitions import Connection
from consolidator.errors import StaleEpoch
from consolidator.models.chunk import Chunk
from consolidator.store.log.events import BEGINNING
from consolidator.store.queries import Row, execute, load, row, rows

_SQL = load("log/generation")


async def add_chunks(
    conn: Connection,
    session: str,
    message: str,
    deltas: Sequence[str],
    *,
    after: int,
    started: int,
    epoch: int,
    now: datetime,
) -> int:
    """Append pieces to a message whose last is `after`, and return the seq of its last; raise StaleEpoch at the fence.

    `started` is the event that began the message.
    """
    values = {
        "session": session, "message": message, "after": after, "started": started, "epoch": epoch, "now": now,
        "deltas": [escape(delta) for delta in deltas],
    }  # fmt: skip
    try:
        written = await _written(conn, _SQL["add_chunks"], values)
    except psycopg.errors.CheckViolation as error:
        if "no partition" not in str(error):
            raise
        await partitions.ensure(conn, now)
        written = await _written(conn, _SQL["add_chunks"], values)
    if not written:
        raise StaleEpoch(f"session {session}: epoch {epoch} is over")
    return after + len(deltas)


async def _written(conn: Connection, query: LiteralString, values: dict[str, Any]) -> int:
    """Run an insert; in a savepoint where there is a transaction, so that a missing partition does not spoil it."""
    if conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        return await execute(conn, query, values)
    async with conn.transaction():
        return await execute(conn, query, values)


async def chunks(
    conn: Connection, session: str, message: str, *, after: int = 0, low: datetime = BEGINNING
) -> list[Chunk]:
    """Return the pieces of a message after a seq; none were made before `low`."""
    values = {"session": session, "message": message, "after": after, "low": low}
    found = await rows(conn, _SQL["chunks"], values)
    return [Chunk(one["message_id"], one["seq"], unescape(one["delta"]), one["started_seq"]) for one in found]


async def deliver(
    conn: Connection, session: str, message: str, channel: str, *, upto: int, started: int, now: datetime
) -> None:
    """Record that a channel acknowledged a message up to a piece."""
    values = {"session": session, "message": message, "channel": channel, "upto": upto, "started": started, "now": now}
    await execute(conn, _SQL["deliver"], values)


async def delivered(conn: Connection, session: str, message: str, channel: str) -> int:
    """Return how far a message reached a channel; 0 where it did not."""
    found = await row(conn, _SQL["delivered"], {"session": session, "message": message, "channel": channel})
    return int(found["upto"]) if found else 0


async def messages(
    conn: Connection, session: str, channel: str, *, after: int, bounds: tuple[datetime, datetime], limit: int = 100
) -> list[Row]:
    """Return answers after a seq with their seq, message_id, created_at, and `upto`: how far each reached a channel.

    `void_id`, where it is not None, is a message that does not count: what was shown of it is to be taken back before.
    """
    low, high = bounds
    values = {"session": session, "channel": channel, "after": after, "low": low, "high": high, "limit": limit}
    return await rows(conn, _SQL["messages"], values)


async def last_said(conn: Connection, session: str, *, after: int = 0, bounds: tuple[datetime, datetime]) -> str | None:
    """Return what a person said last, after a seq."""
    low, high = bounds
    found = await row(conn, _SQL["last_said"], {"session": session, "after": after, "low": low, "high": high})
    return None if found is None or found["text"] is None else unescape(found["text"])
