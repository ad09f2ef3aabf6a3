"""A session's log in the vocabulary of harness logs: with the pieces of answers, and what of them was sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from consolidator.database import Database
from consolidator.formats import harness
from consolidator.formats.bundle import ChunkOrder
from consolidator.formats.harness import SENT
from consolidator.models.event import ChunkRow, Event
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.store.log import bundles, events
from consolidator.store.log.bundles import DeliveryRow
from consolidator.store.log.events import Span
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import load_lineage

_PAGE = 500  # events read at once


async def read_lecture(
    database: Database, name: str, *, after: int | None = None, last: int | None = None
) -> AsyncIterator[str]:
    """Yield a session's log as lines of the nine states, after a seq or only of the `last` events. Raises NotFound."""
    async with database.connection() as conn:
        session = await sessions.get(conn, await sessions.find_session_id(conn, name))
    async for event in read_narrated(database, session, after=after, last=last):
        for line in harness.write({}, [event]):
            yield line


async def read_narrated(
    database: Database, session: SessionRow, *, after: int | None = None, last: int | None = None
) -> AsyncIterator[Event]:
    """Yield a session's events in order, with what stands beside them: pieces in answers, and deliveries after these.

    A generation that came to no answer becomes an incomplete one.
    """
    async with database.connection() as conn:
        lineage = await load_lineage(conn, session.id, session)
    first = max(lineage.readable_after, after or 0, 0 if last is None else session.head - last)
    for part in lineage.slice(first, session.head):
        narration, seq = _Narration(), part.after
        while seq < part.upto:
            page = part.clip(seq, min(seq + _PAGE, part.upto))
            async with database.connection() as conn:
                span = Span(part.session_id, page.after_seq, page.upto_seq, part.bounds)
                log = await events.read(
                    conn, part.session_id, after=page.after_seq, upto=page.upto_seq, bounds=part.bounds
                )
                narration.chunks.add(await bundles.list_chunks(conn, span))
                for row in await bundles.list_deliveries(conn, span):  # the farthest of each channel comes last
                    narration.sent.setdefault(row.message_id, {})[row.channel] = row
            for event in log:
                for line in narration.feed(event):
                    yield replace(line, seq=line.seq + part.shift)
            seq = page.upto
        for line in _incomplete(log[-1], list(narration.chunks.rest())) if log else ():  # what has not ended
            yield replace(line, seq=line.seq + part.shift)


@dataclass(slots=True)
class _Narration:
    """Puts pieces and deliveries in their place among a log's events; bounded by what is unfinished."""

    chunks: ChunkOrder = field(default_factory=ChunkOrder)
    sent: dict[str, dict[str, DeliveryRow]] = field(default_factory=dict)  # by message_id and channel

    def feed(self, event: Event) -> Iterator[Event]:
        """Yield an event, with the pieces of the message that it ends, and what was sent of that."""
        pieces = [] if event.type is EventType.USER_MESSAGE else list(self.chunks.before(event))
        if event.type is EventType.ASSISTANT_RESPONSE:
            deltas = [piece.delta for piece in pieces]
            yield replace(event, data={**event.data, "chunks": deltas}) if deltas else event
            sent = self.sent.pop(str(event.data.get("message_id")), {})
            for row in sent.values():
                if row.upto_seq >= max((piece.seq for piece in pieces), default=0) and not event.data.get("incomplete"):
                    data: dict[str, Any] = {"decision": SENT, "message_id": row.message_id, "channel": row.channel}
                    data["occurred_at"] = row.sent_at.isoformat()
                    yield replace(event, type=EventType.POLICY_DECISION, data=data)
            return
        yield from _incomplete(event, pieces)
        yield event


def _incomplete(event: Event, pieces: list[ChunkRow]) -> Iterator[Event]:
    """Yield what was written of messages that have no answer."""
    for message_id, group in groupby(pieces, key=lambda piece: piece.message_id):
        written = list(group)
        data = {"message_id": message_id, "incomplete": True, "text": "", "chunks": [each.delta for each in written]}
        data["occurred_at"] = written[0].created_at.isoformat()
        yield replace(event, seq=written[0].started_seq, type=EventType.ASSISTANT_RESPONSE, data=data)
