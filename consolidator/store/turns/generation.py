"""Chunks of messages and their deliveries to channels: append-only tables beside the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, LiteralString

import psycopg

from consolidator.database import partitions
from consolidator.database.jsonb import escape, unescape
from consolidator.database.partitions import Connection
from consolidator.errors import StaleEpoch
from consolidator.models.event import Chunk, Event, EventRow
from consolidator.models.lineage import Lineage
from consolidator.models.payload import EventType
from consolidator.store.log.events import BEGINNING, complete
from consolidator.store.queries import Rows, Statement, Value, execute, fetch_all, fetch_value, load
from consolidator.store.sessions.lineage import span_of

_SQL = load("turns/generation")
MAX_TURN_EVENTS = 20_000  # of one turn that are counted


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """An event that tells people something, or that takes something back."""

    seq: int
    created_at: datetime
    message_id: str | None  # the message that it tells
    void_id: str | None  # a message that no longer counts: what was shown of it must be taken back first
    upto: int | None  # seq of the message's last chunk that the channel acknowledged


async def append_chunks(
    conn: Connection,
    session_id: str,
    message: str,
    deltas: Sequence[str],
    *,
    after: int,
    started: int,
    epoch: int,
    now: datetime,
) -> int:
    """Append chunks to a message after its chunk `after`; return the seq of the last. Raises StaleEpoch if fenced off.

    `started` is the event that began the message.
    """
    values = {
        "session": session_id,
        "message": message,
        "after": after,
        "started": started,
        "epoch": epoch,
        "now": now,
        "deltas": [escape(delta) for delta in deltas],
    }
    try:
        written = await _written(conn, _SQL["append_chunks"], values)
    except psycopg.errors.CheckViolation as error:
        if "no partition" not in str(error):
            raise
        await partitions.ensure_ahead(conn, now)
        written = await _written(conn, _SQL["append_chunks"], values)
    if not written:
        raise StaleEpoch(f"session {session_id}: epoch {epoch} is over")
    return after + len(deltas)


async def _written(conn: Connection, query: LiteralString, values: dict[str, Any]) -> int:
    """Run an insert, within a transaction in a savepoint, so that a missing partition does not abort it."""
    if conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        return await execute(conn, query, values)
    async with conn.transaction():
        return await execute(conn, query, values)


async def read_turn(conn: Connection, lineage: Lineage, *, upto: int) -> list[Event]:
    """Return the events that count for the limits of the turn that the last message up to a position began."""
    rows: list[EventRow] = []
    for part in reversed(lineage.slice(lineage.readable_after, upto)):
        values = {**span_of(part).values(), "limit": MAX_TURN_EVENTS - len(rows)}
        page = await fetch_all(conn, EventRow, _SQL["read_turn"], values)
        rows = [*(replace(row, seq=row.seq + part.shift) for row in page), *rows]
        if any(row.event_type == EventType.USER_MESSAGE for row in page) or len(rows) >= MAX_TURN_EVENTS:
            break
    return await complete(conn, rows)


async def get_last_user_text(conn: Connection, lineage: Lineage, *, upto: int) -> str | None:
    """Return the text of a person's last message up to a position."""
    for part in reversed(lineage.slice(lineage.readable_after, upto)):
        text = await fetch_value(conn, _SQL["get_last_user_text"], span_of(part).values())
        if text is not None:
            return unescape(text)
    return None


record_delivery = Statement[str, str, str](_SQL["record_delivery"], "session_id message channel")
get_delivered_seq = Value[int, str, str, str](_SQL["get_delivered_seq"], "session_id message channel")
is_shown_whole = Value[bool, str, str, str, bool](
    _SQL["is_shown_whole"], "session message channel nameless", low=BEGINNING
)
read_chunks = Rows[Chunk, str, str](Chunk, _SQL["read_chunks"], "session message", after=0, low=BEGINNING)
# The answers and notices after a seq, the oldest first, and how far each reached a channel.
list_answers = Rows[AnswerRow, str, str](AnswerRow, _SQL["list_answers"], "session channel", limit=100)
