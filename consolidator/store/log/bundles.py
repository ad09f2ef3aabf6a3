"""What a bundle holds beside events: chunks, deliveries and views of sessions, to export and to import them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from consolidator.database import Connection, partitions
from consolidator.database.jsonb import dumps, escape, unescape
from consolidator.models.checkpoint import CheckpointRow
from consolidator.store.log.events import Span
from consolidator.store.queries import FirstRow, execute, execute_each, fetch_all, fetch_one, load
from consolidator.store.sessions.checkpoints import checkpoint_values

_SQL = load("log/bundles")


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A chunk of a message, and when it was committed."""

    message_id: str
    seq: int
    started_seq: int
    delta: str
    created_at: datetime
    after_seq: int | None  # the last event before it, where that is stored


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """How far a message reached a channel, by one acknowledgement."""

    message_id: str
    channel: str
    upto_seq: int
    started_seq: int
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class ViewRow:
    """The fold of a session's past for its contexts."""

    upto: int
    summary: dict[str, Any]
    compaction_seq: int
    compaction: dict[str, Any]
    scratchpad_seq: int
    scratchpad: str | None


@dataclass(frozen=True, slots=True)
class LockedImport:
    """An imported session that this transaction has locked."""

    head: int
    pruned_to: int
    last_event_at: datetime


async def list_chunks(conn: Connection, span: Span) -> list[ChunkRow]:
    """Return the chunks of the messages that began within a span, message after message."""
    rows = await fetch_all(conn, ChunkRow, _SQL["list_chunks"], span.values())
    return [replace(row, message_id=unescape(row.message_id), delta=unescape(row.delta)) for row in rows]


async def list_deliveries(conn: Connection, span: Span) -> list[DeliveryRow]:
    """Return how far the messages that began within a span reached their channels."""
    rows = await fetch_all(conn, DeliveryRow, _SQL["list_deliveries"], span.values())
    return [replace(row, message_id=unescape(row.message_id), channel=unescape(row.channel)) for row in rows]


async def get_view(conn: Connection, session_id: str) -> ViewRow | None:
    """Return the fold of a session's past; None where nothing was folded."""
    view = await fetch_one(conn, ViewRow, _SQL["get_view"], {"session": session_id})
    return view if view is None or view.scratchpad is None else replace(view, scratchpad=unescape(view.scratchpad))


async def add_chunks(
    conn: Connection, session_id: str, chunks: Sequence[Mapping[str, Any]], *, at: datetime, pruned_to: int
) -> None:
    """Add the chunks of an imported session that are not there, with one time of commit."""
    await partitions.ensure_day(conn, at)
    values = {
        "session": session_id,
        "at": at,
        "pruned": pruned_to,
        "messages": [escape(chunk["message_id"]) for chunk in chunks],
        "seqs": [chunk["seq"] for chunk in chunks],
        "starts": [chunk["started_seq"] for chunk in chunks],
        "deltas": [escape(chunk["delta"]) for chunk in chunks],
        "afters": [chunk["after_seq"] for chunk in chunks],
    }
    await execute(conn, _SQL["add_chunks"], values)
    await execute(conn, _SQL["move_last_event"], {"session": session_id, "at": at})


async def add_deliveries(
    conn: Connection, session_id: str, deliveries: Sequence[Mapping[str, Any]], *, pruned_to: int
) -> None:
    """Add the deliveries of an imported session that are not there."""
    values = {
        "session": session_id,
        "pruned": pruned_to,
        "messages": [escape(delivery["message_id"]) for delivery in deliveries],
        "channels": [escape(delivery["channel"]) for delivery in deliveries],
        "uptos": [delivery["upto_seq"] for delivery in deliveries],
        "starts": [delivery["started_seq"] for delivery in deliveries],
        "times": [delivery["sent_at"] for delivery in deliveries],
    }
    await execute(conn, _SQL["add_deliveries"], values)


async def add_seeds(conn: Connection, session_id: str, seeds: Sequence[Mapping[str, Any]]) -> None:
    """Add the seeds of an imported session that are not there."""
    rows = [
        {
            **seed,
            "session": session_id,
            "role": escape(seed["role"]),
            "content": escape(seed["content"]),
            "details": Jsonb(seed["details"], dumps=dumps),
        }
        for seed in seeds
    ]
    await execute_each(conn, _SQL["add_seed"], rows)


async def add_checkpoint(conn: Connection, checkpoint: CheckpointRow) -> None:
    """Add a checkpoint of an imported session, unless it is there."""
    await execute(conn, _SQL["add_checkpoint"], checkpoint_values(checkpoint))


async def restore(conn: Connection, session_id: str, columns: Mapping[str, Any], *, head: int) -> None:
    """Set the columns of an imported session to what its bundle says; `head` is the last event of the bundle."""
    documents = {name: Jsonb(columns[name], dumps=dumps) for name in ("state", "config", "details", "labels")}
    texts = {
        name: None if columns[name] is None else escape(columns[name])
        for name in ("error", "trigger_type", "trigger_id", "open_task")
    }
    values = {**columns, **documents, **texts}
    await execute(conn, _SQL["restore"], {**values, "session": session_id, "head": head})


lock_import = FirstRow[LockedImport, str](LockedImport, _SQL["lock"])
