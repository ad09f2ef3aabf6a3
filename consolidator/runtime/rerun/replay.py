"""Replays a session from its log: what people said and what they were shown, chunk by chunk, byte for byte."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from consolidator.database import Connection
from consolidator.formats.bundle import ChunkOrder
from consolidator.models.event import ChunkRow, Event
from consolidator.models.lineage import LineageRange
from consolidator.models.payload import EventType
from consolidator.store.log import events
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import load_lineage
from consolidator.store.turns import context as store

PAGE = 500  # events read at once
ALL_CHANNELS = ""  # no session has this channel: replays all that was committed, whether delivered or not


@dataclass(frozen=True, slots=True)
class ReplayedItem:
    """What came next: a person's message, a chunk of an answer, or the notice that an answer is void."""

    kind: Literal["user", "piece", "void"]
    seq: int  # of the event it belongs to: the message, or the one that began the answer
    text: str
    at: datetime
    message_id: str | None = None
    piece: int = 0  # the chunk's seq in its message, from 1
    speaker: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the item as JSON can hold it."""
        item = {"kind": self.kind, "seq": self.seq, "text": self.text, "at": self.at, "message_id": self.message_id}
        return item | {"piece": self.piece or None, "speaker": self.speaker}


async def replay(conn: Connection, session_id: str, *, channel: str | None = None) -> AsyncIterator[ReplayedItem]:
    """Yield what a session's people saw, in order. Raises NotFound.

    Of answers, it yields what `channel` acknowledged; by default the session's own channel. ALL_CHANNELS, or a session
    whose channel never acknowledged anything, replays all that was committed.
    """
    session = await sessions.get(conn, session_id)
    lineage = await load_lineage(conn, session_id, session)
    for part in lineage.slice(lineage.readable_after, session.head):
        async for item in _replay_part(conn, part, session.channel_name if channel is None else channel, channel):
            yield item


async def _replay_part(
    conn: Connection, part: LineageRange, name: str, channel: str | None
) -> AsyncIterator[ReplayedItem]:
    """Yield what people saw of a part of one log; a part ends where nothing is under way, or at the session's head."""
    if channel is None and not await store.has_deliveries(conn, part.session_id, name):
        name = ALL_CHANNELS
    order, begun = ChunkOrder(), set[str]()  # of the messages of which a chunk was replayed
    after, low = part.after, part.bounds[0]
    while after < part.upto:
        page = part.clip(after, min(after + PAGE, part.upto))
        span = {"after": page.after_seq, "upto": page.upto_seq}
        log = await events.read(conn, part.session_id, **span, bounds=part.bounds)
        chunks = await store.read_chunks(conn, part.session_id, **span, low=low, channel=name)
        order.add(chunk for chunk in chunks if name == ALL_CHANNELS or chunk.seq <= chunk.reached)
        for event in log:
            for item in _replay_event(event, order, begun):
                yield _at_position(item, part.shift)
        after = page.upto
    for chunk in order.rest():  # of messages that have not ended
        yield _at_position(_piece(chunk), part.shift)


def _at_position(item: ReplayedItem, shift: int) -> ReplayedItem:
    return replace(item, seq=item.seq + shift) if shift else item


def _piece(chunk: ChunkRow) -> ReplayedItem:
    return ReplayedItem("piece", chunk.started_seq, chunk.delta, chunk.created_at, chunk.message_id, chunk.seq)


def _replay_event(event: Event, order: ChunkOrder, begun: set[str]) -> Iterator[ReplayedItem]:
    """Yield what people saw before an event, and by it; other events than these show nothing."""
    data, decision = event.data, event.data.get("decision")
    message_id = str(data.get("message_id") or "")
    for chunk in order.before(event):
        begun.add(chunk.message_id)
        yield _piece(chunk)
    if event.is_user_message:
        text = str(data.get("text") or "")
        yield ReplayedItem("user", event.seq, text, event.created_at, speaker=data.get("speaker"))
    elif event.type is EventType.ASSISTANT_RESPONSE:
        text = str(data.get("text") or "")
        if text and not data.get("chunks") and message_id not in begun:  # it did not come in chunks
            yield ReplayedItem("piece", event.seq, text, event.created_at, message_id or None, 1)
    elif message_id in begun and (event.type is EventType.ERROR or decision == "generation_replaced"):
        yield ReplayedItem("void", event.seq, "", event.created_at, message_id)
    for chunk in order.after(event):
        begun.add(chunk.message_id)
        yield _piece(chunk)
