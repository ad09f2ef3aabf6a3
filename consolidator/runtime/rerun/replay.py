"""Replays a session from its log: what people said and what they were shown, chunk by chunk, byte for byte."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from consolidator.database import Connection
from consolidator.models.chunk import comes_before
from consolidator.models.event import Event
from consolidator.models.lineage import LineageRange
from consolidator.models.payload import EventType
from consolidator.runtime.turn.harness import channel_name
from consolidator.store.log import events
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import load_lineage
from consolidator.store.turns import context as store
from consolidator.store.turns.context import DeliveredChunk

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
        async for item in _replay_part(conn, part, channel_name(session) if channel is None else channel, channel):
            yield item


async def _replay_part(
    conn: Connection, part: LineageRange, name: str, channel: str | None
) -> AsyncIterator[ReplayedItem]:
    """Yield what people saw of a part of one log; a part ends where nothing is under way, or at the session's head."""
    if channel is None and not await store.has_deliveries(conn, part.session_id, name):
        name = ALL_CHANNELS
    fold = _ReplayFold(all_channels=name == ALL_CHANNELS)
    after, low = part.after, part.bounds[0]
    while after < part.upto:
        page = part.clip(after, min(after + PAGE, part.upto))
        span = {"after": page.after_seq, "upto": page.upto_seq}
        log = await events.read(conn, part.session_id, **span, bounds=part.bounds)
        fold.add_chunks(await store.read_chunks(conn, part.session_id, **span, low=low, channel=name))
        for event in log:
            for item in fold.feed(event):
                yield _at_position(item, part.shift)
        after = page.upto
    for item in fold.finish():
        yield _at_position(item, part.shift)


def _at_position(item: ReplayedItem, shift: int) -> ReplayedItem:
    return replace(item, seq=item.seq + shift) if shift else item


@dataclass(slots=True)
class _ReplayFold:
    """Puts chunks in their place among the events."""

    all_channels: bool
    waiting: dict[str, list[DeliveredChunk]] = field(default_factory=dict)  # chunks not yet replayed, by message_id
    begun: set[str] = field(default_factory=set)  # ids of messages of which a chunk was replayed

    def add_chunks(self, chunks: Sequence[DeliveredChunk]) -> None:
        """Take the chunks of the messages that the next events began."""
        for chunk in chunks:
            if self.all_channels or chunk.seq <= chunk.reached:
                self.waiting.setdefault(chunk.message_id, []).append(chunk)

    def feed(self, event: Event) -> Iterator[ReplayedItem]:
        """Yield what people saw up to and by an event."""
        message_id = str(event.data.get("message_id") or "")
        match event.type:
            case EventType.USER_MESSAGE:
                yield from self._user_message(event)
            case EventType.ASSISTANT_RESPONSE:
                yield from self._answer(event, message_id)
            case EventType.ERROR:
                yield from self._void(event, message_id)
            case EventType.POLICY_DECISION:
                if event.data.get("decision") == "generation_replaced":
                    yield from self._void(event, message_id)
            case _:
                pass  # channels show nothing of other events
        if event.data.get("notice_id"):
            yield from self._rest(str(event.data["notice_id"]))

    def finish(self) -> Iterator[ReplayedItem]:
        """Yield what came of messages that have not ended."""
        for message_id in list(self.waiting):
            yield from self._rest(message_id)

    def _user_message(self, event: Event) -> Iterator[ReplayedItem]:
        """Yield a person's message, and before it the chunks of unfinished answers that came earlier."""
        if event.data.get("origin", "user") != "user":
            return
        for message_id, chunks in self.waiting.items():
            before = [chunk for chunk in chunks if comes_before(chunk, event)]
            self.waiting[message_id] = chunks[len(before) :]
            for chunk in before:
                yield self._chunk(chunk)
        text, speaker = str(event.data.get("text") or ""), event.data.get("speaker")
        yield ReplayedItem("user", event.seq, text, event.created_at, speaker=speaker)

    def _answer(self, event: Event, message_id: str) -> Iterator[ReplayedItem]:
        """Yield the rest of an answer; as one chunk if it did not come in chunks."""
        yield from self._rest(message_id)
        text = str(event.data.get("text") or "")
        if text and not event.data.get("chunks") and message_id not in self.begun:
            yield ReplayedItem("piece", event.seq, text, event.created_at, message_id or None, 1)

    def _void(self, event: Event, message_id: str) -> Iterator[ReplayedItem]:
        """Yield what was shown of an answer that failed or was replaced, and the notice that it is void."""
        yield from self._rest(message_id)
        if message_id in self.begun:
            yield ReplayedItem("void", event.seq, "", event.created_at, message_id)

    def _rest(self, message_id: str) -> Iterator[ReplayedItem]:
        for chunk in self.waiting.pop(message_id, []):
            yield self._chunk(chunk)

    def _chunk(self, chunk: DeliveredChunk) -> ReplayedItem:
        self.begun.add(chunk.message_id)
        return ReplayedItem("piece", chunk.started_seq, chunk.delta, chunk.created_at, chunk.message_id, chunk.seq)
