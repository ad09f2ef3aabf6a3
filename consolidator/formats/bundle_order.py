"""The order of chunks among events in a bundle: where people saw them. Pure, and bounded by what is unfinished."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from consolidator.models.chunk import ChunkRow, comes_before
from consolidator.models.event import Event
from consolidator.models.payload import EventType


@dataclass(slots=True)
class ChunkOrder:
    """Yields the chunks that come before or after an event; a message's chunks stay in their order."""

    _waiting: dict[str, list[ChunkRow]] = field(default_factory=dict)  # by message_id

    def add(self, chunks: Iterable[ChunkRow]) -> None:
        """Take the chunks of messages that began before the next window of events ends."""
        for chunk in chunks:
            self._waiting.setdefault(chunk.message_id, []).append(chunk)

    def before(self, event: Event) -> Iterator[ChunkRow]:
        """Yield what came before an event: the rest of the message that it ends, and what was said before a person."""
        if event.type is EventType.USER_MESSAGE:
            for message_id, chunks in list(self._waiting.items()):
                earlier = [chunk for chunk in chunks if comes_before(chunk, event)]
                self._waiting[message_id] = chunks[len(earlier) :]
                yield from earlier
        elif event.type is not EventType.THINKING_START and event.data.get("decision") != "generation_resumed":
            yield from self._waiting.pop(str(event.data.get("message_id") or ""), [])

    def after(self, event: Event) -> Iterator[ChunkRow]:
        """Yield what came with an event: the notice that people were shown of it."""
        yield from self._waiting.pop(str(event.data.get("notice_id") or ""), [])

    def rest(self) -> Iterator[ChunkRow]:
        """Yield the chunks of messages that have not ended."""
        for chunks in self._waiting.values():
            yield from chunks
        self._waiting.clear()
