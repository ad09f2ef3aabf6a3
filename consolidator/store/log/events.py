"""The log: the one door that writes it, COPY for bulk, and reading it in order of seq."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg

from consolidator.database import partitions
from consolidator.database.jsonb import dumps, escape, loads, unescape
from consolidator.database.partitions import Connection
from consolidator.errors import DatabaseError, HeadConflict, NotFound, StaleEpoch
from consolidator.models.event import Event, NewEvent, moment_of
from consolidator.models.payload import EventType, check_payload
from consolidator.store.queries import Row, execute, execute_each, load, row, rows, rows_each

INLINE_BYTES = 16 * 1024  # a payload beyond this goes to the blob store
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
END = datetime(9999, 1, 1, tzinfo=UTC)
_SQL = load("log/events")
_REF = "blob://sha256/"
_REFS = "data_ref"  # the key under which an event keeps its references
_REST = "*"  # among them, the name of many small values that moved together
_ALONE = 1024  # bytes of a value that moves by itself
_MOST_ALONE = 16


@dataclass(frozen=True, slots=True)
class Appended:
    """Where an append landed; `repeated` where its idempotency key had been answered before."""

    first_seq: int
    last_seq: int
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """An event as the table takes it, with the blobs it refers to."""

    type: str
    data: str
    task_id: str | None
    tool_name: str | None
    occurred: datetime | None
    blobs: tuple[tuple[bytes, str, bytes], ...] = ()  # sha256, media type, body


def prepare(event: NewEvent, *, checked: bool = False) -> Prepared:
    """Check a payload and put what is too large for an event into blobs; raise InvalidEvent where it does not fit."""
    data = dict(event.data) if checked else check_payload(event.type, event.data)
    text = dumps(data)
    blobs: list[tuple[bytes, str, bytes]] = []
    if _REFS in data or (len(text) > INLINE_BYTES // 4 and len(text.encode()) > INLINE_BYTES):
        data, blobs = _outsourced(data)
        text = dumps(data)
    tool = event.tool_name or (data.get("tool") if isinstance(data.get("tool"), str) else None)
    return Prepared(
        event.type.value,
        text,
        None if event.task_id is None else escape(event.task_id),
        None if tool is None else escape(tool),
        moment_of(data.get("occurred_at")),
        tuple(blobs),
    )


def _outsourced(data: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[bytes, str, bytes]]]:
    """Move the largest values out until the rest is small: `data_ref` says where each is, how large, and what.

    What is small, or has a long name, moves together with others: a payload of a thousand keys is not a thousand blobs.
    A `data_ref` that a foreign log brings is a value like any other, and always moves: ours are the only references.
    """
    sizes = {key: len(dumps({key: value}).encode()) for key, value in data.items()}
    kept = dict(data)
    moved: dict[str, tuple[Any, dict[str, Any]]] = {}
    rest: dict[str, Any] = {}
    total = sum(sizes.values())
    for key in sorted(data, key=lambda key: (key != _REFS, -sizes[key], key)):
        if total <= INLINE_BYTES // 2 and key != _REFS:
            break
        total -= sizes[key]
        alone = len(key) < _ALONE <= sizes[key] and len(moved) < _MOST_ALONE and key != _REST
        if key == _REFS or alone:
            moved[key] = kept.pop(key), {}
        else:
            rest[key] = kept.pop(key)
    if rest:
        moved[_REST] = rest, {"many": True}
    blobs, refs = [], {}
    for key, (value, more) in moved.items():
        plain = isinstance(value, str)
        body = value.encode("utf-8", "surrogatepass") if plain else dumps(value).encode()
        sha = hashlib.sha256(body).digest()
        media = "text/plain; charset=utf-8" if plain else "application/json"
        blobs.append((sha, media, body))
        refs[key] = {"ref": _REF + sha.hex(), "size": len(body), "media_type": media, **more}
    return ({**kept, _REFS: refs} if refs else kept), blobs


async def append(
    conn: Connection,
    session: str,
    events: Sequence[NewEvent],
    *,
    now: datetime,
    expected_head: int | None = None,
    epoch: int | None = None,
    key: str | None = None,
) -> Appended:
    """Append events to a session's log, all or none, and return their sequence numbers.

    `expected_head` refuses (HeadConflict) where the session has moved on, `epoch` (StaleEpoch) where another harness
    holds it. A repeated idempotency `key` writes nothing and answers as the first time. Raises NotFound for an unknown
    session and InvalidEvent for a payload that does not fit.
    """
    prepared = [prepare(event) for event in events]
    values = {
        **_entering(session, prepared, now, expected_head, epoch, key),
        "types": [p.type for p in prepared],
        "datas": [p.data for p in prepared],
        "tasks": [p.task_id for p in prepared],
        "tools": [p.tool_name for p in prepared],
    }
    if len(prepared) == 1 and key is None:
        only = prepared[0]
        values |= {"type": only.type, "data": only.data, "task": only.task_id, "tool": only.tool_name}
    if any(p.blobs for p in prepared):
        async with conn.transaction():
            await keep_blobs(conn, prepared, now)
            done = await _through_the_door(conn, values)
            if not done.repeated:
                await _refer(conn, session, done.first_seq, prepared)
            return done
    return await _through_the_door(conn, values)


def _entering(
    session: str,
    prepared: Sequence[Prepared],
    now: datetime,
    expected_head: int | None = None,
    epoch: int | None = None,
    key: str | None = None,
) -> dict[str, Any]:
    """Return what the door asks of events before it lets them in."""
    return {
        "session": session,
        "count": len(prepared),
        "now": now,
        "occurred": max((p.occurred for p in prepared if p.occurred), default=None),
        "ends": any(p.type == EventType.SESSION_END for p in prepared),
        "expected": expected_head,
        "epoch": epoch,
        "key": key,
    }


async def _through_the_door(conn: Connection, values: dict[str, Any]) -> Appended:
    """Run the append; mend a missing partition once, and answer a race for the same key as its winner was."""
    query = _SQL["append_one" if "type" in values else "append"]
    for _ in range(2):
        try:
            if conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                cursor = await conn.execute(query, values)
            else:
                async with conn.transaction():
                    cursor = await conn.execute(query, values)
        except psycopg.errors.CheckViolation as error:
            if "no partition" not in str(error):
                raise
            await partitions.ensure(conn, values["now"])
            continue
        except psycopg.errors.UniqueViolation:
            break
        found = await cursor.fetchone()
        if found is not None and found[0] is not None:
            return Appended(found[0], found[1])
        break
    return await _refused(conn, values)


async def _refused(conn: Connection, values: dict[str, Any]) -> Appended:
    found = await row(conn, _SQL["refusal"], values)
    if found is None:
        raise NotFound(f"no session {values['session']!r}")
    if found["first_seq"] is not None:
        return Appended(found["first_seq"], found["last_seq"], repeated=True)
    if values["epoch"] is not None and values["epoch"] != found["lease_epoch"]:
        raise StaleEpoch(f"session {values['session']}: epoch {values['epoch']} is over, it is {found['lease_epoch']}")
    raise HeadConflict(f"session {values['session']}: expected head {values['expected']}, it is {found['head']}")


async def keep_blobs(conn: Connection, prepared: Iterable[Prepared], now: datetime) -> None:
    """Store the blobs, in order of their hashes so that two writers never wait for each other in a circle."""
    wanted = {blob[0]: blob for event in prepared for blob in event.blobs}
    for sha in sorted(wanted):
        _, media, body = wanted[sha]
        await execute(
            conn, _SQL["touch_blob"], {"sha": sha, "media": media, "size": len(body), "body": body, "now": now}
        )


async def _refer(conn: Connection, session: str, first_seq: int, prepared: Sequence[Prepared]) -> None:
    refs = [(session, first_seq + n, blob[0]) for n, event in enumerate(prepared) for blob in event.blobs]
    if refs:
        async with conn.cursor() as cursor:
            await cursor.executemany(
                "insert into blob_ref (session_id, seq, sha256) values (%s, %s, %s) on conflict do nothing", refs
            )


async def load_bulk(
    conn: Connection, session: str, prepared: Sequence[Prepared], *, now: datetime, blobs_kept: bool = False
) -> Appended:
    """Append prepared events by COPY; the caller's transaction must be open, and holds the session from here on.

    With `blobs_kept` the caller has stored their blobs already. Like `append`, it locks blobs before the session.
    """
    if not blobs_kept:
        await keep_blobs(conn, prepared, now)
    found = await row(conn, _SQL["door"], _entering(session, prepared, now))
    if found is None:
        raise NotFound(f"no session {session!r}")
    base, created = found["base"], found["now"]
    await partitions.ensure_day(conn, created)
    async with (
        conn.cursor() as cursor,
        cursor.copy(
            "copy event (session_id, seq, event_type, data, created_at, task_id, tool_name) from stdin"
        ) as copy,
    ):
        for seq, event in enumerate(prepared, base + 1):
            await copy.write_row((session, seq, event.type, event.data, created, event.task_id, event.tool_name))
    await _refer(conn, session, base + 1, prepared)
    return Appended(base + 1, base + len(prepared))


async def read(
    conn: Connection,
    session: str,
    *,
    after: int = 0,
    upto: int | None = None,
    limit: int | None = None,
    bounds: tuple[datetime, datetime] | None = None,
) -> list[Event]:
    """Return events of a session with after < seq <= upto, in order, complete.

    `bounds` (earliest and latest created_at of the session) spares the partitions outside them.
    """
    low, high = bounds or (BEGINNING, END)
    found = await rows(
        conn,
        _SQL["read"],
        {
            "session": session,
            "after": after,
            "upto": 2**62 if upto is None else upto,
            "low": low,
            "high": high,
            "limit": limit,
        },
    )
    return await complete(conn, found)


async def read_unconsolidated(conn: Connection, *, after: tuple[str, int] = ("", 0), limit: int = 1000) -> list[Event]:
    """Return the next events that were not learned from, over all sessions, in order of session and seq.

    That is what no night has read yet, and what was set aside as a dead letter; `after` is the last of the page before.
    """
    values = {"session": after[0], "after": after[1], "limit": limit}
    return await complete(conn, await rows(conn, _SQL["unconsolidated"], values))


@dataclass(frozen=True, slots=True)
class Span:
    """Events of a session with after < seq <= upto; `bounds` are between which times it was ingested."""

    session: str
    after: int
    upto: int
    bounds: tuple[datetime, datetime] = (BEGINNING, END)

    def values(self) -> dict[str, Any]:
        """Return it as parameters."""
        low, high = self.bounds
        return {"session": self.session, "after": self.after, "upto": self.upto, "low": low, "high": high}


async def read_rows(conn: Connection, span: Span) -> list[Row]:
    """Return the events of a span as they are kept, in order: `complete` follows what they refer to."""
    return await rows(conn, _SQL["read"], {**span.values(), "limit": None})


async def read_each(conn: Connection, spans: Sequence[Span], *, limit: int) -> list[list[Event]]:
    """Return the first `limit` events of each span, complete, in one round trip (two where there are blobs)."""
    found = await rows_each(conn, _SQL["read"], [{**span.values(), "limit": limit} for span in spans])
    bodies = await _bodies(conn, [event for one in found for event in one])
    return [[_event(event, bodies) for event in one] for one in found]


async def stamp(conn: Connection, spans: Sequence[Span], *, now: datetime, dead: Sequence[Sequence[int]] = ()) -> int:
    """Mark the events of spans as learned from, but for those in `dead` (by span); return how many were."""
    left_out = dead or [()] * len(spans)
    values = [{**s.values(), "now": now, "dead": list(d)} for s, d in zip(spans, left_out, strict=True)]
    return await execute_each(conn, _SQL["stamp"], values)


async def complete(conn: Connection, found: Sequence[Row]) -> list[Event]:
    """Return rows as events, following blob references in one more query where there are any."""
    bodies = await _bodies(conn, found)
    return [_event(event, bodies) for event in found]


async def _bodies(conn: Connection, found: Sequence[Row]) -> dict[bytes, bytes]:
    """Return the blobs that rows refer to, by their hashes."""
    wanted = {
        bytes.fromhex(ref["ref"].removeprefix(_REF))
        for event in found
        for ref in (event["data"].get("data_ref") or {}).values()
    }
    if not wanted:
        return {}
    blobs = await rows(conn, _SQL["blobs"], {"shas": list(wanted)})
    return {bytes(blob["sha256"]): bytes(blob["body"]) for blob in blobs}


def _event(found: Row, bodies: Mapping[bytes, bytes]) -> Event:
    data = found["data"]
    refs = data.get(_REFS)
    if refs:
        data = {key: value for key, value in data.items() if key != _REFS}
        for key, ref in refs.items():
            body = bodies.get(bytes.fromhex(ref["ref"].removeprefix(_REF)))
            if body is None:
                raise DatabaseError(
                    f"session {found['session_id']}, event {found['seq']}: the blob of its {key!r} is gone "
                    f"({ref['ref']}); restore it from a backup, `consolidator db verify` lists all such events"
                )
            plain = ref["media_type"].startswith("text/plain")
            if ref.get("many"):
                data |= loads(body)
                continue
            data[key] = body.decode("utf-8", "surrogatepass") if plain else loads(body)
    return Event(
        session_id=found["session_id"],
        seq=found["seq"],
        type=EventType(found["event_type"]),
        data=data,
        created_at=found["created_at"],
        consolidated_at=found["consolidated_at"],
        task_id=None if found["task_id"] is None else unescape(found["task_id"]),
        tool_name=None if found["tool_name"] is None else unescape(found["tool_name"]),
        id=found["id"],
    )
