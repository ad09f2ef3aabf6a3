"""What a model said, in chunks, and how far each message reached a channel."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from consolidator.models.event import Event


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a message's text, committed before anybody saw it."""

    message_id: str
    seq: int  # dense in its message, from 1
    delta: str
    started_seq: int  # the event that began the message


class PlacedChunk(Protocol):
    """What is needed of a chunk to place it among events."""

    @property
    def message_id(self) -> str: ...
    @property
    def started_seq(self) -> int: ...
    @property
    def after_seq(self) -> int | None: ...
    @property
    def created_at(self) -> datetime: ...


def comes_before(chunk: PlacedChunk, event: Event) -> bool:
    """Tell whether a chunk was committed before an event: by the clock alone where nothing else is stored."""
    if chunk.started_seq >= event.seq:
        return False
    return chunk.created_at <= event.created_at if chunk.after_seq is None else chunk.after_seq < event.seq
