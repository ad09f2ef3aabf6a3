"""Reads a session's whole past: its own log and, before it, what it reads of its ancestors' logs, by one numbering.

Every reader that shows a session as it went (contexts, the open end, replay, history, export) reads through here. A
session without ancestors costs no query more than its own log does. Events come with their position as `seq`, and with
the id of the session whose log holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, get_args

from consolidator.database import Connection
from consolidator.models.event import Event, EventRow
from consolidator.models.lineage import MAX_RANGES, Lineage, LineageRange, own_range
from consolidator.models.payload import EventType
from consolidator.models.session import PastReader
from consolidator.store.log import events
from consolidator.store.log.events import Span
from consolidator.store.queries import (
    Column,
    ColumnSet,
    Rows,
    Statement,
    Tuples,
    Value,
    execute,
    fetch_all,
    fetch_column,
    load,
)

_SQL = load("sessions/lineage")
Mark = Literal["compaction", "scratchpad_set"]
MARKS: tuple[Mark, ...] = get_args(Mark)  # the decisions that a context needs of any past


@dataclass(frozen=True, slots=True)
class _RangeRow:
    session_id: str
    after_seq: int
    upto_seq: int
    shift: int
    pruned_to: int | None  # null where the ancestor is gone
    created_at: datetime | None
    last_event_at: datetime | None


@dataclass(frozen=True, slots=True)
class EventCount:
    """How many events of a type, or calls of a tool, a part of a log has."""

    event_type: str
    tool_name: str | None
    events: int


async def load_lineage(conn: Connection, session_id: str, session: PastReader) -> Lineage:
    """Return a session's lineage, given its row; no query for a session that has no parent."""
    own = own_range(session_id, base_seq=session.base_seq, pruned_to=session.pruned_to, bounds=session.ingest_bounds)
    if not session.may_read_ancestors:
        return Lineage(own)
    rows = await fetch_all(conn, _RangeRow, _SQL["list_ranges"], {"session": session_id})
    return Lineage(own, tuple(_to_range(row) for row in rows))


def _to_range(row: _RangeRow) -> LineageRange:
    part = LineageRange(row.session_id, row.after_seq, row.upto_seq, row.shift, pruned_to=row.pruned_to)
    if row.created_at is None or row.last_event_at is None:
        return part
    return replace(part, bounds=(row.created_at, row.last_event_at))


async def link_imported(conn: Connection, session_id: str, *, below: frozenset[str] = frozenset()) -> None:
    """Have an imported session, and imported children of it, read their parents' logs, where these are there by now.

    Parents come first, so that a child reads what its parent does; `below` are the sessions on the way up here, which a
    file may have put into a ring.
    """
    for child, parent in await _find_unlinked(conn, session_id):
        if parent in below or len(below) >= MAX_RANGES:
            continue
        if child == session_id:  # it is a child like any other there
            await link_imported(conn, parent, below=below | {session_id})
            continue
        await inherit_past(conn, child)
        if child not in below:
            await link_imported(conn, child, below=below | {session_id})


async def read_lineage(
    conn: Connection, lineage: Lineage, *, after: int | None = None, upto: int, limit: int | None = None
) -> list[Event]:
    """Return events with after < position <= upto, in order, complete; by default from the beginning.

    What is pruned, or belongs to an ancestor that is gone, is left out: `lineage.readable_after` says up to where.
    """
    return await events.complete(conn, await read_rows(conn, lineage, after=after, upto=upto, limit=limit))


async def read_rows(
    conn: Connection,
    lineage: Lineage,
    *,
    query: Rows[EventRow, Span] = events.read_rows,
    after: int | None = None,
    upto: int,
    latest_first: bool = False,
    **values: Any,
) -> list[EventRow]:
    """Return events of a query with after < position <= upto as they are stored: `events.complete` adds their blobs.

    The `query` has the parameters of a span and the `values`; with a `limit` among these, no more than so many.
    """
    first, limit = lineage.begins_after if after is None else after, values.get("limit")
    parts = lineage.slice(max(first, lineage.readable_after), upto)
    rows: list[EventRow] = []
    for part in reversed(parts) if latest_first else parts:
        if limit is not None:
            values["limit"] = limit - len(rows)
        rows += _shift(part, await query(conn, span_of(part), **values))
        if limit is not None and len(rows) >= limit:
            break
    return rows


async def read_skeletons(conn: Connection, lineage: Lineage, *, after: int, upto: int) -> list[Event]:
    """Return events without their texts, arguments and results: enough to tell what is open."""
    return await events.complete(conn, await read_rows(conn, lineage, query=_read_skeletons, after=after, upto=upto))


async def find_mark(conn: Connection, lineage: Lineage, mark: Mark, *, upto: int) -> Event | None:
    """Return the compaction, or the setting of the scratchpad, that is in effect at a position."""
    rows = await read_rows(conn, lineage, query=_find_mark, upto=upto, latest_first=True, decision=mark, limit=1)
    return next(iter(await events.complete(conn, rows)), None)


async def read_latest(
    conn: Connection, lineage: Lineage, types: Sequence[EventType], *, upto: int, limit: int
) -> list[Event]:
    """Return the latest events of some types with position <= upto, in order, complete."""
    names = [kind.value for kind in types]
    rows = await read_rows(conn, lineage, query=_read_latest, upto=upto, latest_first=True, types=names, limit=limit)
    return (await events.complete(conn, rows))[::-1]


async def find_event(conn: Connection, lineage: Lineage, position: int) -> Event | None:
    """Return the event at a position; None if it is pruned or there is none."""
    rows = await read_lineage(conn, lineage, after=position - 1, upto=position)
    return rows[0] if rows else None


async def read_state_patches(
    conn: Connection, lineage: Lineage, *, after: int, upto: int, limit: int | None = None
) -> list[Event]:
    """Return the events with after < position <= upto that change the session's state, the latest first."""
    rows = await read_rows(
        conn, lineage, query=_read_state_patches, after=after, upto=upto, latest_first=True, limit=limit
    )
    return [event for event in await events.complete(conn, rows) if event.data.get("state_patch")]


async def count_events(conn: Connection, lineage: Lineage, *, after: int, upto: int) -> list[EventCount]:
    """Return how many events of each type, and calls of each tool, have after < position <= upto."""
    counts: list[EventCount] = []
    for part in lineage.slice(max(after, lineage.readable_after), upto):
        counts += await _count_events(conn, span_of(part))
    return counts


async def find_hash(conn: Connection, part: LineageRange, seq: int) -> bytes | None:
    """Return the hash of an event of a range's session; None where it has none or is gone."""
    low, high = part.bounds
    return await _find_hash(conn, session=part.session_id, seq=seq, low=low, high=high)


@dataclass(frozen=True, slots=True)
class UnfinishedChild:
    """A sub-agent at work, and the call that it came of."""

    id: str
    trigger_type: str
    trigger_id: str


@dataclass(frozen=True, slots=True)
class AbandonedChild:
    """A sub-agent whose end its parent's log does not have, though it is done, or it or its parent has ended."""

    id: str
    parent_ended: bool
    ended: bool


async def find_named_branch(conn: Connection, parent_id: str, name: str) -> str | None:
    """Return the id of the branch that has a name; None if there is none, and nobody makes one meanwhile."""
    values = {"parent": parent_id, "name": name}
    await execute(conn, _SQL["lock_branch_name"], values)
    rows = await fetch_column(conn, _SQL["find_named_branch"], values)
    return rows[0] if rows else None


def span_of(part: LineageRange) -> Span:
    """Return a part of a log as a span to read."""
    return Span(part.session_id, part.after_seq, part.upto_seq, part.bounds)


def _shift(part: LineageRange, rows: list[EventRow]) -> list[EventRow]:
    """Return rows at their positions; what a compaction left in contexts is said in its own log's numbering, too."""
    if not part.shift:
        return rows
    return [replace(row, seq=row.seq + part.shift, data=_shift_data(row, part.shift)) for row in rows]


def _shift_data(row: EventRow, shift: int) -> dict[str, Any]:
    kept_from = row.data.get("kept_from") if row.event_type == EventType.POLICY_DECISION else None
    return {**row.data, "kept_from": kept_from + shift} if isinstance(kept_from, int) else row.data


inherit_past = Statement[str](_SQL["inherit_past"])
list_unfinished_steers = Column[str, str](_SQL["list_unfinished_steers"])
mark_committed = Statement[str, int](_SQL["mark_committed"], "session seq")
list_unfinished = Rows[UnfinishedChild, str](UnfinishedChild, _SQL["list_unfinished"])
list_unfinished_among = Column[str, Sequence[str]](_SQL["list_unfinished_among"])
finish = Statement[str](_SQL["finish"])
set_past = Statement[str, str, int](_SQL["set_past"], "session source seq")
list_abandoned = Rows[AbandonedChild, str, int](AbandonedChild, _SQL["list_abandoned"], "after limit")
lock_ancestors = ColumnSet[str, Sequence[str]](_SQL["lock_ancestors"])
set_marks = Statement[str](_SQL["set_marks"], "session_id", wake_after=None)
create_child = Statement[dict[str, Any]](_SQL["create_child"], "*")
find_called = Value[str | None, str, str](_SQL["find_called"], "parent call")
_find_unlinked = Tuples[tuple[str, str], str](_SQL["find_unlinked"])
_find_hash = Value[bytes | None](_SQL["find_hash"])
_count_events = Rows[EventCount, Span](EventCount, _SQL["count_events"], "*")
_read_skeletons = Rows[EventRow, Span](EventRow, _SQL["read_skeletons"], "*")
_read_latest = Rows[EventRow, Span](EventRow, _SQL["read_latest"], "*")
_find_mark = Rows[EventRow, Span](EventRow, _SQL["find_mark"], "*")
_read_state_patches = Rows[EventRow, Span](EventRow, _SQL["read_state_patches"], "*")
