"""The log: one way to append events, COPY for bulk loads, and reads in order of seq."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, LiteralString

import psycopg
from psycopg.rows import tuple_row

from consolidator.database import partitions
from consolidator.database.jsonb import dumps, dumps_canonical, escape, text_array, unescape
from consolidator.database.partitions import Connection
from consolidator.errors import HeadConflict, NotFound, StaleEpoch
from consolidator.models.event import Event, EventRow, NewEvent, concern_task, number_tasks, parse_timestamp
from consolidator.models.payload import EventType, check_payload
from consolidator.models.principal import check_may_append
from consolidator.store import queries
from consolidator.store.log import blobs
from consolidator.store.log.blobs import Blob
from consolidator.store.log.seals import canonical_json, hash_canonical, hash_content, hash_event
from consolidator.store.queries import Rows, Value, execute, execute_each, fetch_all, fetch_each, fetch_one, load

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
END = datetime(9999, 1, 1, tzinfo=UTC)
_SQL = load("log/events")
_TYPES = {kind.value: kind for kind in EventType}  # a call of an enumeration is slow
_MAX_PIPELINED = 32_768  # characters: a pipeline that is larger than a socket's buffer may wait for ever
_MAX_TASK_CHANGES = 20  # that an append waits for: each is a start or an end of a task that came in between
_COPY = "copy event (session_id, seq, event_type, data, created_at, task_id, tool_name, hash, principal) from stdin"


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The seqs of an append; `repeated` if its idempotency key had been answered before."""

    first_seq: int
    last_seq: int
    repeated: bool = False
    open_task: str | None = field(default=None, compare=False)  # id of the task that is open after it
    details: Sequence[Any] = field(default=(), compare=False)  # what else its statement returns
    rows: Sequence[list[Any]] = field(default=(), compare=False)  # of its statement's reads


@dataclass(frozen=True, slots=True)
class PreparedEvent:
    """An event as the table takes it, with the blobs it refers to."""

    type: str
    data: str  # JSON
    task_id: str | None
    tool_name: str | None
    occurred: datetime | None
    content_hash: bytes
    blobs: tuple[Blob, ...] = ()
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """Events of a session with after < seq <= upto; `bounds` are the earliest and latest ingest time of the session."""

    session: str
    after: int
    upto: int
    bounds: tuple[datetime, datetime] = (BEGINNING, END)

    def values(self) -> dict[str, Any]:
        """Return the span as query parameters."""
        low, high = self.bounds
        return {"session": self.session, "after": self.after, "upto": self.upto, "low": low, "high": high}


@dataclass(frozen=True, slots=True)
class LearnedSpan:
    """A span that was learned from: by every extractor up to `stamped_to`, by rules alone after it."""

    span: Span
    stamped_to: int
    dead: list[int]  # seqs of events that could not be read


@dataclass(frozen=True, slots=True)
class _LoadBase:
    """What a load needs of a session: the head before it, its ingest time, and the hash of the event before it."""

    session_id: str
    base: int
    now: datetime
    chain_hash: bytes


@dataclass(frozen=True, slots=True)
class _AppendRefusal:
    """A session as a refused append finds it; the seqs are those that its idempotency key was answered with."""

    head: int
    lease_epoch: int
    open_task: str | None
    first_seq: int | None
    last_seq: int | None


@dataclass(frozen=True, slots=True)
class AppendStatement:
    """A statement that appends and does something else, all or none: see `store/turns/turns.py`."""

    query: LiteralString
    values: Mapping[str, Any]
    has_conditions: bool = False  # other ones than an append: if they do not hold, AppendRefused is raised
    reads: Sequence[queries.Bound] = ()  # what is read after it in the same round trip, if its events are small


class AppendRefused(Exception):
    """A statement's own condition did not hold; the session is there, and held by the same epoch."""


class _TaskChanged(Exception):
    """Another task is open than the events were numbered for."""

    def __init__(self, open_task: str | None) -> None:
        super().__init__(open_task)
        self.open_task = open_task


def prepare(event: NewEvent) -> PreparedEvent:
    """Check a payload and move what is too large for an event into blobs.

    Raises InvalidEvent if the payload does not fit, or its principal may not say it.
    """
    data = check_payload(event.type, event.data)
    if event.principal is not None:
        check_may_append(event.principal, event.type, data)
    canonical = dumps_canonical(data)
    text = dumps(data) if canonical is None else canonical
    moved: list[Blob] = []
    if blobs.is_too_large(data, text):
        data, moved = blobs.move_to_blobs(data)
        canonical = dumps_canonical(data)
        text = dumps(data) if canonical is None else canonical
    hash_data = hash_content if canonical is None else hash_canonical
    tool = event.tool_name or (data.get("tool") if isinstance(data.get("tool"), str) else None)
    task_id = None if event.task_id is None else escape(event.task_id)
    tool_name = None if tool is None else escape(tool)
    return PreparedEvent(
        event.type.value,
        text,
        task_id,
        tool_name,
        parse_timestamp(data.get("occurred_at")),
        hash_data(event.type.value, task_id, tool_name, text, event.principal),
        tuple(moved),
        event.principal,
    )


async def append(
    conn: Connection,
    session_id: str,
    events: Sequence[NewEvent],
    *,
    now: datetime,
    expected_head: int | None = None,
    epoch: int | None = None,
    key: str | None = None,
    open_task: str | None = None,
    statement: AppendStatement | None = None,
) -> AppendResult:
    """Append events to a session's log, all or none, and return their sequence numbers.

    Events that name no task get the id of the one that is open; `open_task` is the one that the caller knows of, and
    costs no round trip where it still is. `expected_head` refuses (HeadConflict) if the session has moved on, `epoch`
    (StaleEpoch) if another harness holds it. A repeated idempotency `key` writes nothing and returns the first answer.
    A `statement` takes the place of the plain append, with none of these but the epoch; it may raise AppendRefused.
    Raises NotFound for an unknown session and InvalidEvent for a payload that does not fit.
    """
    for _ in range(_MAX_TASK_CHANGES):
        numbered, task_after = number_tasks(events, open_task)
        task_values = {
            "counts_task": concern_task(events),
            "open_task": None if open_task is None else escape(open_task),
            "task_after": None if task_after is None else escape(task_after),
        }
        try:
            prepared = list(map(prepare, numbered))
            values = _append_values(session_id, prepared, now, expected_head, epoch, key) | task_values
            appended = await _append_prepared(conn, prepared, values, statement)
            return replace(appended, open_task=task_after)
        except _TaskChanged as changed:
            open_task = changed.open_task
    raise HeadConflict(f"session {session_id}: tasks were started and ended faster than events could be appended")


async def are_stored(conn: Connection, session_id: str, result: AppendResult, events: Sequence[NewEvent]) -> bool:
    """Tell whether the seqs of an earlier append hold these events; those that retention removed count as the same."""
    if result.last_seq - result.first_seq + 1 != len(events):
        return False
    rows = await read_rows(conn, Span(session_id, result.first_seq - 1, result.last_seq, (BEGINNING, END)))
    for row in rows:
        event = prepare(events[row.seq - result.first_seq])
        stored, new = (canonical_json(json.loads(text)) for text in (dumps(row.data), event.data))
        if row.event_type != event.type or stored != new:
            return False
    return True


async def _append_prepared(
    conn: Connection, prepared: Sequence[PreparedEvent], values: dict[str, Any], statement: AppendStatement | None
) -> AppendResult:
    """Append prepared events with their blobs. Raises _TaskChanged if they were numbered for another task."""
    values = {
        **values,
        "types": text_array(event.type for event in prepared),
        "datas": [event.data for event in prepared],
        "tasks": text_array(event.task_id for event in prepared),
        "tools": text_array(event.tool_name for event in prepared),
        "principals": text_array(event.principal for event in prepared),
        "contents": b"".join(event.content_hash for event in prepared),
    }
    query, has_conditions = _SQL["append"], statement is not None and statement.has_conditions
    if statement is not None:
        query, values = statement.query, {**values, **statement.values}
    elif len(prepared) == 1 and values["key"] is None:
        only = prepared[0]
        values |= {"type": only.type, "data": only.data, "task": only.task_id, "tool": only.tool_name}
        values |= {"content": only.content_hash, "principal": only.principal}
        query = _SQL["append_one"]
    if any(event.blobs for event in prepared):
        async with conn.transaction():
            await store_blobs(conn, prepared, values["now"])
            appended = await _run_append(conn, query, values, (), has_conditions=has_conditions)
            if not appended.repeated:
                await _add_blob_references(conn, values["session"], appended.first_seq, prepared)
            return appended
    is_large = sum(len(event.data) for event in prepared) > _MAX_PIPELINED
    reads = () if statement is None or is_large else statement.reads
    return await _run_append(conn, query, values, reads, has_conditions=has_conditions)


def _append_values(
    session_id: str,
    prepared: Sequence[PreparedEvent],
    now: datetime,
    expected_head: int | None = None,
    epoch: int | None = None,
    key: str | None = None,
) -> dict[str, Any]:
    """Return the parameters of the query that moves a session's head."""
    return {
        "session": session_id,
        "count": len(prepared),
        "now": now,
        "occurred": max((event.occurred for event in prepared if event.occurred), default=None),
        "ends": any(event.type == EventType.SESSION_END for event in prepared),
        "expected": expected_head,
        "epoch": epoch,
        "key": key,
    }


async def _run_append(
    conn: Connection,
    query: LiteralString,
    values: dict[str, Any],
    reads: Sequence[queries.Bound],
    *,
    has_conditions: bool,
) -> AppendResult:
    """Run the append; create a missing partition once, and answer a race for the same key as its winner was."""
    for _ in range(2):
        try:
            is_idle = conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            async with nullcontext() if is_idle else conn.transaction():
                appended, *rows = await queries.fetch_together(conn, [(tuple_row, query, values), *reads])
        except psycopg.errors.CheckViolation as error:
            if "no partition" not in str(error):
                raise
            await partitions.ensure_ahead(conn, values["now"])
            continue
        except psycopg.errors.UniqueViolation:
            break
        if appended and appended[0][0] is not None:
            first_seq, last_seq, *details = appended[0]
            return AppendResult(first_seq, last_seq, details=details, rows=rows)
        break
    return await _explain_refusal(conn, values, has_conditions=has_conditions)


async def _explain_refusal(conn: Connection, values: dict[str, Any], *, has_conditions: bool) -> AppendResult:
    """Return the answer that the idempotency key got before, or raise the reason why nothing was appended."""
    refusal = await fetch_one(conn, _AppendRefusal, _SQL["refusal"], values)
    if refusal is None:
        raise NotFound(f"no session {values['session']!r}")
    if refusal.first_seq is not None and refusal.last_seq is not None:
        return AppendResult(refusal.first_seq, refusal.last_seq, repeated=True)
    if values["epoch"] is not None and values["epoch"] != refusal.lease_epoch:
        raise StaleEpoch(f"session {values['session']}: epoch {values['epoch']} is over, it is {refusal.lease_epoch}")
    if values["expected"] is not None and values["expected"] != refusal.head:
        raise HeadConflict(f"session {values['session']}: expected head {values['expected']}, it is {refusal.head}")
    if not has_conditions or (values["counts_task"] and refusal.open_task != values["open_task"]):
        raise _TaskChanged(None if refusal.open_task is None else unescape(refusal.open_task))
    raise AppendRefused


async def store_blobs(conn: Connection, prepared: Iterable[PreparedEvent], now: datetime) -> None:
    """Store the blobs of events, before the session is locked."""
    await blobs.store(conn, [blob for event in prepared for blob in event.blobs], now)


async def _add_blob_references(
    conn: Connection, session_id: str, first_seq: int, prepared: Sequence[PreparedEvent]
) -> None:
    refs = [(session_id, seq, blob.sha256) for seq, event in enumerate(prepared, first_seq) for blob in event.blobs]
    await blobs.add_references(conn, refs)


async def load_each(
    conn: Connection, loads: Mapping[str, Sequence[PreparedEvent]], *, now: datetime, blobs_kept: bool = False
) -> dict[str, AppendResult]:
    """Append prepared events to sessions by one COPY, in the caller's open transaction.

    The caller has locked the sessions in order of id if there are several; one is locked from here on. With
    `blobs_kept` the caller has stored their blobs already. Like `append`, it locks blobs before sessions.
    """
    if not blobs_kept:
        await store_blobs(conn, [event for prepared in loads.values() for event in prepared], now)
    bases = {base.session_id: base for base in await _move_heads(conn, loads, now)}
    if missing := loads.keys() - bases.keys():
        raise NotFound(f"no session {min(missing)!r}")
    for moment in {base.now.date(): base.now for base in bases.values()}.values():
        await partitions.ensure_day(conn, moment)
    results: dict[str, AppendResult] = {}
    hashes: dict[str, bytes] = {}
    async with conn.cursor() as cursor, cursor.copy(_COPY) as copy:
        for session_id, prepared in loads.items():
            before = bases[session_id]
            chain_hash = bytes(before.chain_hash)
            for seq, event in enumerate(prepared, before.base + 1):
                chain_hash = hash_event(chain_hash, event.content_hash, seq, before.now)
                columns = (event.type, event.data, before.now, event.task_id, event.tool_name, chain_hash)
                await copy.write_row((session_id, seq, *columns, event.principal))
            results[session_id] = AppendResult(before.base + 1, before.base + len(prepared))
            hashes[session_id] = chain_hash
    await execute(conn, _SQL["set_chain_hashes"], {"sessions": list(hashes), "hashes": list(hashes.values())})
    for session_id, result in results.items():
        await _add_blob_references(conn, session_id, result.first_seq, loads[session_id])
    return results


async def _move_heads(conn: Connection, loads: Mapping[str, Sequence[PreparedEvent]], now: datetime) -> list[_LoadBase]:
    """Move the heads of sessions past the events that are to be loaded; missing sessions are left out."""
    values = {
        "sessions": list(loads),
        "counts": [len(prepared) for prepared in loads.values()],
        "occurred": [
            max((event.occurred for event in prepared if event.occurred), default=None) for prepared in loads.values()
        ],
        "ends": [any(event.type == EventType.SESSION_END for event in prepared) for prepared in loads.values()],
        "now": now,
    }
    return await fetch_all(conn, _LoadBase, _SQL["move_heads"], values)


async def read(
    conn: Connection,
    session_id: str,
    *,
    after: int = 0,
    upto: int | None = None,
    limit: int | None = None,
    bounds: tuple[datetime, datetime] | None = None,
) -> list[Event]:
    """Return events of a session with after < seq <= upto, in order, complete.

    `bounds` (earliest and latest created_at of the session) let the query skip the partitions outside them.
    """
    span = Span(session_id, after, 2**62 if upto is None else upto, bounds or (BEGINNING, END))
    return await complete(conn, await read_rows(conn, span, limit=limit))


async def read_each(conn: Connection, spans: Sequence[Span], *, limit: int) -> list[list[Event]]:
    """Return the first `limit` events of each span, complete, in one round trip (two where there are blobs)."""
    spans_rows = await fetch_each(conn, EventRow, _SQL["read"], [{**span.values(), "limit": limit} for span in spans])
    bodies = await blobs.read_bodies(conn, [row for rows in spans_rows for row in rows])
    return [[_to_event(row, bodies) for row in rows] for rows in spans_rows]


@dataclass(frozen=True, slots=True)
class OutlineRow:
    """What a session did at one event, in a few words."""

    seq: int
    event_type: str
    tool: str | None
    call_id: str | None
    status: str | None  # of a result
    at: datetime
    words: str
    occurred: str | None = None  # when it happened, as a foreign log says it: any text


async def read_outline(conn: Connection, span: Span, *, limit: int) -> list[OutlineRow]:
    """Return what a session did in a span of its events."""
    rows = await _read_outline(conn, span, limit=limit)
    return [replace(row, at=min(parse_timestamp(row.occurred) or row.at, row.at)) for row in rows]


async def stamp(conn: Connection, spans: Sequence[LearnedSpan], *, run_id: str, now: datetime) -> None:
    """Move watermarks over spans, mark their events as learned from, except dead letters, and record how far.

    What was learned from each session, and its counts in the run, must have been stored in the caller's transaction;
    the database raises IntegrityConstraintViolation otherwise.
    """
    values = [
        {**learned.span.values(), "stamped_to": learned.stamped_to, "dead": learned.dead, "run": run_id, "now": now}
        for learned in spans
    ]
    await execute_each(conn, _SQL["stamp"], values)


async def complete(conn: Connection, rows: Sequence[EventRow]) -> list[Event]:
    """Return rows as events, following blob references in one more query where there are any."""
    bodies = await blobs.read_bodies(conn, rows)
    return [_to_event(row, bodies) for row in rows]


def _to_event(row: EventRow, bodies: dict[bytes, bytes]) -> Event:
    data, unreadable = blobs.restore(row, bodies)
    return Event(
        session_id=row.session_id,
        seq=row.seq,
        type=_TYPES.get(row.event_type) or EventType(row.event_type),
        data=data,
        created_at=row.created_at,
        consolidated_at=row.consolidated_at,
        task_id=None if row.task_id is None else unescape(row.task_id),
        tool_name=None if row.tool_name is None else unescape(row.tool_name),
        id=row.id,
        principal=row.principal,
        unreadable=unreadable,
    )


# The rows of a session's own log from its settled mark on.
read_open_end = Rows[EventRow, str](EventRow, _SQL["read_open_end"])
read_rows = Rows[EventRow, Span](EventRow, _SQL["read"], "*", limit=None)
_read_outline = Rows[OutlineRow, Span](OutlineRow, _SQL["outline"], "*")
# Marks the events of a span that waited for a model as learned from, except dead letters; returns how many.
# The caller's transaction must have noted that the model has read them, or that none will, else the database raises.
stamp_awaited = Value[int, Span](_SQL["stamp_awaited"], "*")
