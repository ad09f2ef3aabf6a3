"""The feed of one followed session: its latest items, read once for all its followers, in a buffer with a bound."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from consolidator.models.event import Event
from consolidator.runtime.live.fold import FollowFold, Position
from consolidator.runtime.live.items import FollowedItem, Piece
from consolidator.store.turns.following import SessionMarks

MAX_ITEMS = 1_000
ACTIVE_SECONDS = 180.0  # without a piece, until an answer under way is looked at only now and then
MAX_CHARACTERS = 4 * 1024 * 1024  # of texts in the buffer's items


@dataclass(slots=True)
class Feed:
    """A buffer of a session's latest items. Followers that it has left behind read the log themselves."""

    session_id: str
    created_at: datetime  # of the session: no event or chunk is older
    fold: FollowFold
    low: datetime  # no event to come is older
    marks: SessionMarks | None = None
    followers: int = 0
    active_at: float = field(default_factory=time.monotonic)  # when an item came last
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # set at the next change, and then replaced
    is_cut: bool = False  # the last read did not come to the log's end
    is_gone: bool = False  # the session was erased
    begin: Position = field(default_factory=Position)  # before the buffer's first item
    first: int = 0  # number of the buffer's first item
    items: deque[tuple[FollowedItem, Position, int]] = field(default_factory=deque)  # with where it led, and its size
    characters: int = 0

    @property
    def end(self) -> int:
        """The number that the next item gets."""
        return self.first + len(self.items)

    @property
    def awaits_pieces(self) -> bool:
        """Whether an answer is under way: pieces of it may come at any time."""
        position = self.fold.position
        return (
            position.message_id is not None
            and not position.is_notice
            and time.monotonic() - self.active_at < ACTIVE_SECONDS
        )

    def reaches(self, position: Position) -> bool:
        """Tell whether a follower can go on from a position with the buffer alone."""
        return self.begin.is_reached_by(position)

    def take(self, log: Sequence[Event], pieces: Mapping[str, Sequence[Piece]], cut: Collection[str] = ()) -> None:
        """Add what comes of the next events and pieces (see `FollowFold.take`), and drop the oldest items."""
        for item in self.fold.take(log, pieces, cut):
            size = _size(item)
            self.items.append((item, self.fold.position, size))
            self.active_at = time.monotonic()
            self.characters += size
            if item.event is not None:
                self.low = item.event.created_at
        while len(self.items) > MAX_ITEMS or (self.characters > MAX_CHARACTERS and len(self.items) > 1):
            _, self.begin, size = self.items.popleft()
            self.characters -= size
            self.first += 1

    def notify(self) -> None:
        """Wake the followers that wait."""
        self.changed.set()
        self.changed = asyncio.Event()


def _size(item: FollowedItem) -> int:
    if item.piece is not None:
        return len(item.piece.text)
    return 0 if item.event is None else _text_size(item.event.data)


def _text_size(value: Any) -> int:
    """Return about how many characters a JSON value has; its own stack, since values may be nested deep."""
    size, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            size += len(each)
        elif isinstance(each, dict):
            size += 8 * len(each)
            waiting += each.values()
        elif isinstance(each, list):
            size += 8 * len(each)
            waiting += each
    return size
