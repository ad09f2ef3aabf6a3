"""The hash chain over a session's events: each event's hash covers its content, its place and the hash before it.

    content = SHA-256 of the canonical JSON of [event_type, task_id, tool_name, data], and `principal` after it if known
    hash    = SHA-256 of (previous hash | content | seq | created_at); before the first event it is SHA-256 of the id,
              in a child SHA-256 of (the hash of the parent's event at the point | the child's id)

`data` is hashed as the table holds it, references to blobs (their SHA-256) included. The server computes `hash` when it
knows seq and time; `verify` computes it again here, so that no function in the database has to be trusted.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

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
