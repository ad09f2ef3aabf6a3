"""Payloads too large for an event: their largest values move into content-addressed blobs, and come back on reading.

An event keeps, under `data_ref`, a reference to each value that moved: where it is, how large, and of what media type.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.database.jsonb import dumps, loads
from consolidator.database.partitions import Connection
from consolidator.models.event import EventRow
from consolidator.models.payload import PAYLOADS, EventType
from consolidator.store.queries import Pairs, RowsByKey, StatementEach, execute, load

INLINE_BYTES = 16 * 1024  # a payload beyond this goes to the blob store
REFS = "data_ref"  # the key under which an event keeps its references
_SQL = load("log/blobs")
_PREFIX = "blob://sha256/"
_REST = "*"  # the reference to the many small values that moved together
_MIN_OWN_BLOB = 1024  # bytes of a value that gets a blob of its own
_MAX_OWN_BLOBS = 16


@dataclass(frozen=True, slots=True)
class Blob:
    """Some bytes under their SHA-256."""

    sha256: bytes
    media_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class BlobEnds:
    """The beginning and the end of a large body."""

    sha256: bytes
    head: bytes
    tail: bytes


def is_too_large(data: Mapping[str, Any], text: str) -> bool:
    """Tell whether a payload, with `text` its JSON, must move values into blobs."""
    return REFS in data or (len(text) > INLINE_BYTES // 4 and len(text.encode()) > INLINE_BYTES)


def move_to_blobs(data: dict[str, Any]) -> tuple[dict[str, Any], list[Blob]]:
    """Move the largest values of a payload into blobs until the rest is small; return the rest, with references.

    Small values and those with long names move together: a payload of a thousand keys is not a thousand blobs.
    A `data_ref` that a foreign log brings is a value like any other and always moves: ours are the only references.
    """
    sizes = {key: len(dumps({key: value}).encode()) for key, value in data.items()}
    inline = dict(data)
    moved: dict[str, tuple[Any, dict[str, Any]]] = {}
    rest: dict[str, Any] = {}
    total = sum(sizes.values())
    for key in sorted(data, key=lambda key: (key != REFS, -sizes[key], key)):
        if total <= INLINE_BYTES // 2 and key != REFS:
            break
        total -= sizes[key]
        own = len(key) < _MIN_OWN_BLOB <= sizes[key] and len(moved) < _MAX_OWN_BLOBS and key != _REST
        if key == REFS or own:
            moved[key] = inline.pop(key), {}
        else:
            rest[key] = inline.pop(key)
    if rest:
        moved[_REST] = rest, {"many": True}
    blobs, refs = [], {}
    for key, (value, more) in moved.items():
        plain = isinstance(value, str)
        body = value.encode("utf-8", "surrogatepass") if plain else dumps(value).encode()
        blob = Blob(hashlib.sha256(body).digest(), "text/plain; charset=utf-8" if plain else "application/json", body)
        blobs.append(blob)
        refs[key] = {"ref": _PREFIX + blob.sha256.hex(), "size": len(body), "media_type": blob.media_type, **more}
    return ({**inline, REFS: refs} if refs else inline), blobs


def restore(row: EventRow, bodies: Mapping[bytes, bytes]) -> tuple[dict[str, Any], str | None]:
    """Return an event's whole payload, given the blobs that it refers to, and what is lost of it: None if nothing is.

    A note takes the place of a lost text, and of any lost field that the event's type names; other values are left out.
    """
    refs = row.data.get(REFS)
    if not refs:
        return row.data, None
    data = {key: value for key, value in row.data.items() if key != REFS}
    lost: list[str] = []
    for key, ref in refs.items():
        body, plain = bodies.get(sha256_of(ref)), ref["media_type"].startswith("text/plain")
        if body is None:
            lost.append(f"session {row.session_id}, event {row.seq}: the blob of its {key!r} is lost ({ref['ref']})")
            fields = PAYLOADS[EventType(row.event_type)].model_fields
            if ref.get("many"):
                needed = [name for name, value in fields.items() if value.is_required() and name not in refs]
                data = {**dict.fromkeys(needed, f"[{lost[-1]}]"), **data}
            elif plain or key in fields:
                data[key] = f"[{lost[-1]}]"
        elif ref.get("many"):
            data |= loads(body)
        else:
            data[key] = body.decode("utf-8", "surrogatepass") if plain else loads(body)
    return data, "; ".join(lost) or None


def refs_of(row: EventRow) -> dict[str, Any]:
    """Return an event's references by the name of the value that moved."""
    return row.data.get(REFS) or {}


def sha256_of(ref: Mapping[str, Any]) -> bytes:
    """Return the hash of the blob that a reference names."""
    return bytes.fromhex(ref["ref"].removeprefix(_PREFIX))


async def store(conn: Connection, blobs: Iterable[Blob], now: datetime) -> None:
    """Store blobs, in order of their hashes so that two writers never wait for each other in a circle."""
    by_hash = {blob.sha256: blob for blob in blobs}
    for sha256 in sorted(by_hash):
        blob = by_hash[sha256]
        values = {"sha": sha256, "media": blob.media_type, "size": len(blob.body), "body": blob.body, "now": now}
        await execute(conn, _SQL["store"], values)


async def read_bodies(conn: Connection, rows: Iterable[EventRow]) -> dict[bytes, bytes]:
    """Return the blobs that events refer to, by their hashes, except damaged ones; no query where there are none."""
    hashes = {sha256_of(ref) for row in rows for ref in refs_of(row).values()}
    if not hashes:
        return {}
    bodies = await _read(conn, hashes)
    return {sha256: body for sha256, body in bodies.items() if hashlib.sha256(body).digest() == sha256}


_read = Pairs[bytes, bytes, Set[bytes]](_SQL["read"])
add_references = StatementEach(_SQL["add_reference"], "session seq sha")
read_ends = RowsByKey[bytes, BlobEnds, Set[bytes]](BlobEnds, _SQL["read_ends"], "shas")
