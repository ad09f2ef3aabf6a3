"""The hash chain over each session's events, how far sessions were learned from, and the seals over all chains."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from psycopg.rows import class_row

from consolidator.database.partitions import Connection
from consolidator.models.run import SealedMessageRow, SealedSessionRow, SealRow
from consolidator.store.queries import Column, FirstRow, Pairs, Rows, fetch_column, load

_SQL = load("log/seals")
_BATCH = 500  # events fetched at once


@dataclass(frozen=True, slots=True)
class ChainedEvent:
    """An event with what its session says about its chain; the columns of the event are null in an empty session."""

    id: str  # of the session
    head: int
    unchained_to: int
    pruned_to: int
    chain_hash: bytes | None
    pruned_hash: bytes | None
    seq: int | None
    event_type: str | None
    data: str | None  # JSON
    created_at: datetime | None
    task_id: str | None
    tool_name: str | None
    hash: bytes | None
    principal: str | None


def hash_root(
    previous: bytes, sessions: Iterable[SealedSessionRow], output_to: int, messages: Iterable[SealedMessageRow]
) -> bytes:
    """Return the root over the root before it, chains and messages, each in order of their hashes and seq."""
    root = hashlib.sha256(previous)
    for session in sessions:
        root.update(bytes(session.session_hash) + session.seq.to_bytes(8, "big") + bytes(session.hash))
    root.update(output_to.to_bytes(8, "big"))
    for message in messages:
        place = bytes(message.session_hash) + bytes(message.message_hash)
        root.update(place + message.started_seq.to_bytes(8, "big") + bytes(message.hash))
    return root.digest()


async def stream_chains(conn: Connection) -> AsyncIterator[ChainedEvent]:
    """Yield every event in order of session and seq, through a server-side cursor in the caller's transaction."""
    async with conn.cursor("chains", row_factory=class_row(ChainedEvent)) as cursor:
        cursor.itersize = _BATCH
        await cursor.execute(_SQL["list_chains"])
        async for event in cursor:
            yield event


async def find_foreign_pasts(conn: Connection) -> list[str]:
    """Return the first sessions that read another past, or have another parent, than their parents and logs say."""
    return [
        *await fetch_column(conn, _SQL["find_foreign_pasts"]),
        *await fetch_column(conn, _SQL["find_foreign_parents"]),
    ]


seal = FirstRow[SealRow, str, datetime](SealRow, _SQL["seal"], "run_id now")
list_seals = Rows[SealRow](SealRow, _SQL["list"])
list_sealed_sessions = Rows[SealedSessionRow, int](SealedSessionRow, _SQL["list_sealed"])
list_sealed_messages = Rows[SealedMessageRow, int](SealedMessageRow, _SQL["list_sealed_messages"])
find_broken_output = Column[str](_SQL["find_broken_output"])
find_broken_messages = Column[str](_SQL["find_broken_messages"])
find_broken_seals = Column[str](_SQL["find_broken_seals"])
find_broken_beginnings = Column[str](_SQL["find_broken_beginnings"])
find_rewritten_blobs = Column[str](_SQL["find_rewritten_blobs"])
list_guards = Pairs[str, str, Sequence[str]](_SQL["list_guards"])
HASH_BYTES = 32
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # PostgreSQL's: timestamptz_send counts microseconds from it
_MICROSECOND = timedelta(microseconds=1)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_PLACE = struct.Struct(">qq")
# Numbers that jsonb writes in another way than Python: with an exponent, or a negative zero.
_REWRITTEN_NUMBER = re.compile(r"\d[eE][+-]?\d|-0\.0")


def hash_session_id(session_id: str) -> bytes:
    """Return the hash that a session's chain begins with."""
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).digest()


def hash_child_id(parent_hash: bytes | None, child_id: str) -> bytes:
    """Return the hash that a child's chain begins with, given its parent's at the point: null before hash chains."""
    return hashlib.sha256((parent_hash or b"") + child_id.encode()).digest()


def hash_content(
    event_type: str, task_id: str | None, tool_name: str | None, data: str, principal: str | None = None
) -> bytes:
    """Return the hash of an event's content, given the columns of its row, `data` as any JSON text of its value."""
    return hash_canonical(event_type, task_id, tool_name, canonical_json(json.loads(data)), principal)


def hash_canonical(
    event_type: str, task_id: str | None, tool_name: str | None, data: str, principal: str | None = None
) -> bytes:
    """Return the hash of an event's content as `hash_content` does, given the canonical JSON of its `data`."""
    head, tail = _encode_columns(event_type, task_id, tool_name, principal)
    return hashlib.sha256(f"{head},{data}{tail}]".encode()).digest()


@lru_cache(maxsize=1024)
def _encode_columns(
    event_type: str, task_id: str | None, tool_name: str | None, principal: str | None
) -> tuple[str, str]:
    """Return the text before an event's `data` and after it; many events have the same."""
    head = _ENCODER.encode([event_type, task_id, tool_name])[:-1]
    tail = "" if principal is None else f",{_ENCODER.encode(principal)}"  # events from before them keep their hashes
    return head, tail


def hash_event(previous: bytes, content: bytes, seq: int, created_at: datetime) -> bytes:
    """Return an event's hash, as the append computes it on the server."""
    place = _PLACE.pack(seq, (created_at - _EPOCH) // _MICROSECOND)
    return hashlib.sha256(previous + content + place).digest()


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, and numbers as they come back from jsonb."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)
    if _REWRITTEN_NUMBER.search(text) is None:
        return text
    rewritten = _rewrite_numbers(value)
    return json.dumps(rewritten, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


def _rewrite_numbers(value: Any) -> Any:
    if isinstance(value, float):
        # jsonb keeps decimal digits: 1e22 comes back as an integer, 1e15 (Python writes 1000000000000000.0) as a float.
        return int(Decimal(repr(value))) if "e+" in repr(value) else value + 0.0
    if isinstance(value, dict):
        return {key: _rewrite_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rewrite_numbers(item) for item in value]
    return value
