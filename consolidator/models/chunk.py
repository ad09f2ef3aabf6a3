"""What a model said, in chunks, and how far each message reached a channel."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from consolidator.models import ESCAPED
from consolidator.models.event import Event


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a message's text, committed before anybody saw it."""

    message_id: str = field(metadata=ESCAPED)
    seq: int  # dense in its message, from 1
    delta: str = field(metadata=ESCAPED)
    started_seq: int  # the event that began the message


@dataclass(frozen=True, slots=True)
class PlacedChunk(Chunk):
    """A chunk, and where it stands among the events."""

    after_seq: int | None  # the last event before it, where that is stored


@dataclass(frozen=True, slots=True)
class ChunkRow(PlacedChunk):
    """A chunk, and when it was committed."""

    created_at: datetime


def comes_before(chunk: ChunkRow, event: Event) -> bool:
    """Tell whether a chunk was committed before an event: by the clock alone where nothing else is stored."""
    if chunk.started_seq >= event.seq:
        return False
    return chunk.created_at <= event.created_at if chunk.after_seq is None else chunk.after_seq < event.seq
