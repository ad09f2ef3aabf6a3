"""Checkpoints: labelled points of sessions, in a table beside the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from psycopg.types.json import Jsonb

from consolidator.database import Connection
from consolidator.database.jsonb import dumps, escape, unescape
from consolidator.errors import NotFound
from consolidator.models.checkpoint import CheckpointRow
from consolidator.store.queries import Attempt, OneRow, Statement, execute, fetch_all, fetch_one, load, row_values

_SQL = load("sessions/checkpoints")


@dataclass(frozen=True, slots=True)
class SpendSum:
    """What a session's model calls took."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: Decimal  # USD


async def add(conn: Connection, checkpoint: CheckpointRow) -> None:
    """Store a checkpoint."""
    await execute(conn, _SQL["add"], checkpoint_values(checkpoint))


def checkpoint_values(checkpoint: CheckpointRow) -> dict[str, Any]:
    """Return a checkpoint as parameters of a query."""
    documents = {name: Jsonb(dict(getattr(checkpoint, name)), dumps=dumps) for name in ("metadata", "delta", "fold")}
    label = None if checkpoint.label is None else escape(checkpoint.label)
    return {**row_values(checkpoint), **documents, "label": label}


async def get(conn: Connection, checkpoint_id: str) -> CheckpointRow:
    """Return a checkpoint; raise NotFound if there is none, or none any more."""
    checkpoint = await fetch_one(conn, CheckpointRow, _SQL["get"], {"id": checkpoint_id})
    if checkpoint is None:
        raise not_found(checkpoint_id)
    return _unescaped(checkpoint)


def not_found(checkpoint_id: str) -> NotFound:
    """Return the error for a checkpoint that is not there."""
    return NotFound(
        f"no checkpoint {checkpoint_id!r}; they expire, and `consolidator session checkpoint SESSION --list` lists the "
        "ones left"
    )


async def get_latest(conn: Connection, session_id: str, *, seq: int) -> CheckpointRow | None:
    """Return the last checkpoint of a session up to a seq."""
    latest = await fetch_one(conn, CheckpointRow, _SQL["get_latest"], {"session": session_id, "seq": seq})
    return None if latest is None else _unescaped(latest)


async def get_last_unexpired(conn: Connection, session_id: str, *, now: datetime) -> CheckpointRow | None:
    """Return the checkpoint of a session's latest point, of those that have not expired."""
    last = await fetch_one(conn, CheckpointRow, _SQL["get_last_unexpired"], {"session": session_id, "now": now})
    return None if last is None else _unescaped(last)


async def list_of(conn: Connection, session_id: str, *, limit: int) -> list[CheckpointRow]:
    """Return a session's checkpoints, the latest point first."""
    rows = await fetch_all(conn, CheckpointRow, _SQL["list"], {"session": session_id, "limit": limit})
    return [_unescaped(row) for row in rows]


async def list_of_each(conn: Connection, session_ids: Sequence[str], *, limit: int) -> list[CheckpointRow]:
    """Return the checkpoints of several sessions, the latest points first."""
    rows = await fetch_all(conn, CheckpointRow, _SQL["list_each"], {"sessions": list(session_ids), "limit": limit})
    return [_unescaped(row) for row in rows]


def _unescaped(row: CheckpointRow) -> CheckpointRow:
    return row if row.label is None else replace(row, label=unescape(row.label))


delete_expired = Statement[datetime](_SQL["delete_expired"])


delete = Attempt[str](_SQL["delete"])
sum_spends = OneRow[SpendSum, str](SpendSum, _SQL["sum_spends"], "session_id")
