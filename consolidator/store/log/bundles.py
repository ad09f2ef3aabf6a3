"""What a bundle holds beside events: chunks, deliveries and views of sessions, to export and to import them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from consolidator.database import Connection, partitions
from consolidator.models import ESCAPED
from consolidator.models.event import ChunkRow
from consolidator.models.lineage import CheckpointRow
from consolidator.store.log.events import Span
from consolidator.store.queries import FirstRow, Rows, Statement, execute, load

_SQL = load("log/bundles")


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """How far a message reached a channel, by one acknowledgement."""

    message_id: str = field(metadata=ESCAPED)
    channel: str = field(metadata=ESCAPED)
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
    scratchpad: str | None = field(metadata=ESCAPED)


@dataclass(frozen=True, slots=True)
class LockedImport:
    """An imported session that this transaction has locked."""

    head: int
    pruned_to: int
    last_event_at: datetime


async def add_chunks(
    conn: Connection, session_id: str, chunks: Sequence[Mapping[str, Any]], *, at: datetime, pruned_to: int
) -> None:
    """Add the chunks of an imported session that are not there, with one time of commit."""
    await partitions.ensure_day(conn, at)
    await _add_chunks(conn, session_id, chunks, at=at, pruned_to=pruned_to)
    await execute(conn, _SQL["move_last_event"], {"session": session_id, "at": at})


lock_import = FirstRow[LockedImport, str](LockedImport, _SQL["lock"])
list_chunks = Rows[ChunkRow, Span](ChunkRow, _SQL["list_chunks"], "*")
list_deliveries = Rows[DeliveryRow, Span](DeliveryRow, _SQL["list_deliveries"], "*")
get_view = FirstRow[ViewRow, str](ViewRow, _SQL["get_view"])
add_checkpoint = Statement[CheckpointRow](_SQL["add_checkpoint"], "*")
_add_chunks = Statement[str, Sequence[Mapping[str, Any]]](_SQL["add_chunks"], "session **")
add_deliveries = Statement[str, Sequence[Mapping[str, Any]]](_SQL["add_deliveries"], "session **")
# The columns of an imported session, as its bundle has them; `head` is the last event of the bundle.
restore = Statement[str, Mapping[str, Any]](_SQL["restore"], "session *")
