"""Reads what a context shows of a session: windows of its log, its messages, and the fold of what came before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from consolidator.database import Connection
from consolidator.models import ESCAPED
from consolidator.models.event import ChunkRow, Event, EventRow
from consolidator.models.lineage import Lineage
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.store.log import blobs, events
from consolidator.store.log.events import Span
from consolidator.store.queries import FirstRow, OneRow, Rows, Statement, Value, fetch_all, load
from consolidator.store.sessions.lineage import read_rows
from consolidator.store.sessions.sessions import MISSING

_SQL = load("turns/context")
_NOTE = 100  # bytes of the note about the bytes left out


@dataclass(frozen=True, slots=True)
class SessionView(SessionRow):
    """A session, and what is folded of its past."""

    upto: int | None  # every event up to here is in `summary`; None where no step has folded anything
    summary: dict[str, Any] | None  # the fold of tools, errors, approvals and sub-agents, by the session's steps
    compaction_seq: int  # the event of the latest compaction, 0 if there is none
    compaction: dict[str, Any] | None  # its payload
    scratchpad_seq: int  # the event that set the scratchpad, 0 if there is none
    scratchpad: str | None = field(metadata=ESCAPED)
    learned: dict[str, Any] | None  # the nights' fold up to `consolidated_to`, where it goes further than `summary`


@dataclass(frozen=True, slots=True)
class DeliveredChunk(ChunkRow):
    """A chunk of a message, and how far its message reached a channel."""

    reached: int  # seq of the message's last chunk that the channel acknowledged, 0 if none


@dataclass(frozen=True, slots=True)
class ScratchpadSetter:
    """Who set the scratchpad as it stands, and whether the model has been asked since."""

    principal: str | None
    created_at: datetime
    was_shown: bool


async def read_compactions(conn: Connection, session_id: str) -> list[Event]:
    """Return a session's compactions, the latest last."""
    rows = await fetch_all(conn, EventRow, _SQL["read_compactions"], {"session": session_id})
    return await events.complete(conn, rows)


async def read_window(conn: Connection, lineage: Lineage, *, after: int, upto: int, longest: int) -> list[Event]:
    """Return events with after < position <= upto; the middle of tool results beyond `longest` bytes is left out."""
    rows = await read_rows(conn, lineage, after=after, upto=upto)
    await _truncate_results(conn, rows, longest)
    return await events.complete(conn, rows)


async def read_last_user_message(conn: Connection, lineage: Lineage, *, after: int, upto: int) -> Event | None:
    """Return a person's last message with after < position <= upto."""
    query = _read_last_user_message
    rows = await read_rows(conn, lineage, query=query, after=after, upto=upto, latest_first=True, limit=1)
    return next(iter(await events.complete(conn, rows)), None)


async def _truncate_results(conn: Connection, rows: list[EventRow], max_bytes: int) -> None:
    """Replace the contents of large tool results by their ends, in place: what is not shown is not read."""
    results = [row for row in rows if row.event_type == EventType.TOOL_RESULT]
    sizes: dict[bytes, int] = {}
    for row in results:
        ref = blobs.refs_of(row).get("content")
        if ref is not None and ref["size"] > max_bytes:
            sizes[blobs.sha256_of(ref)] = ref["size"]
    if not sizes:
        return
    head = max_bytes * 2 // 3
    ends_by_hash = await blobs.read_ends(conn, sizes.keys(), head=head, tail=max_bytes - head - _NOTE)
    for row in results:
        refs = blobs.refs_of(row)
        ends = ends_by_hash.get(blobs.sha256_of(refs["content"])) if "content" in refs else None
        if ends is not None:
            gap = sizes[ends.sha256] - len(ends.head) - len(ends.tail)
            parts = (end.decode("utf-8", "ignore") for end in (ends.head, ends.tail))
            row.data["content"] = f"\n[… {gap} bytes left out; the log has them …]\n".join(parts)
            row.data[blobs.REFS] = {name: ref for name, ref in refs.items() if name != "content"}


load_view = OneRow[SessionView, str](SessionView, _SQL["load_view"], missing=MISSING)
find_scratchpad_setter = FirstRow[ScratchpadSetter, str, int](
    ScratchpadSetter, _SQL["find_scratchpad_setter"], "session seq"
)
count_compaction = Statement[str](_SQL["count_compaction"])
has_deliveries = Value[bool, str, str](_SQL["has_deliveries"], "session channel")
read_chunks = Rows[DeliveredChunk, str](DeliveredChunk, _SQL["read_chunks"], "session")
_read_last_user_message = Rows[EventRow, Span](EventRow, _SQL["read_last_user_message"], "*")
save_view = Statement[str, Mapping[str, Any]](_SQL["save_view"], "session *")  # unless the stored one goes further
