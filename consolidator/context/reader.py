"""Reads the events of a context from the end of a session's log: the last ones, or as many as fill a budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from consolidator.context.conversation import Conversation, build_conversation
from consolidator.context.tail import SessionTail
from consolidator.context.window import known_turn_tokens
from consolidator.database import Connection
from consolidator.llm.tokens import count_tokens_cached
from consolidator.models.event import Event
from consolidator.models.lineage import Lineage
from consolidator.models.payload import EventType
from consolidator.store.turns import context as store

T = TypeVar("T")
MAX_INLINE_EVENTS = 60  # more events than these are processed in a thread, not on the event loop
_MIN_PAGE, _MAX_PAGE = 64, 512  # events
_PAGE_TOKENS = 200  # of an event, about: a page holds a budget of such ones
_MESSAGE_LOOKBACK = 2000  # how many earlier events are searched for a person's last message


@dataclass(slots=True)
class ContextReader:
    """Reads a session's past up to `head`, its ancestors' part included, without the `withheld` events."""

    conn: Connection
    tail: SessionTail
    head: int
    withheld: frozenset[int]  # seqs
    _is_fresh: bool = field(default=False, init=False)  # whether the tail reaches `head`
    _folded: tuple[list[Event], Conversation] | None = field(default=None, init=False)

    @property
    def lineage(self) -> Lineage:
        """Where the session's past is."""
        return self.tail.lineage

    async def read_last(self, count: int, after: int) -> list[Event]:
        """Return the last `count` events after a seq."""
        return await self._read(max(after, self.head - count))

    async def read_to_budget(self, budget: int, after: int) -> list[Event]:
        """Return the latest events after a seq: at least enough to fill a budget of tokens.

        Where they begin follows from the log alone, at a multiple of a sixth of their number or more: so a fold of them
        can be continued while the log grows, and what is shown does not depend on what is kept here.
        """
        step = _MIN_PAGE // 4
        while step * 8 <= min(budget // _PAGE_TOKENS, _MAX_PAGE):
            step *= 2
        while True:
            for pages in (4, 6):
                first = max(after, (self.head - pages * step) // step * step)
                events = await self._read(first)
                if first <= after or await self._fills(events, budget):
                    return events
            step *= 2

    async def include_last_user_message(self, events: list[Event]) -> list[Event]:
        """Return events, preceded by the person's last message before them if they hold none."""
        if not events or any(_is_from_person(event) for event in events):
            return events
        upto = events[0].seq - 1
        after = max(self.lineage.readable_after, upto - _MESSAGE_LOOKBACK)
        message = await store.read_last_user_message(self.conn, self.lineage, after=after, upto=upto)
        return events if message is None or message.seq in self.withheld else [message, *events]

    async def fold(self, events: list[Event]) -> Conversation:
        """Return events as turns, with their sizes."""
        if self._folded is None or self._folded[0] is not events:
            self._folded = (events, await self._compute(events, self._fold))
        return self._folded[1]

    def _fold(self, events: list[Event]) -> Conversation:
        has_gaps = not events or events[-1].seq - events[0].seq + 1 != len(events)  # withheld ones, or a message before
        folded = build_conversation(events, self.tail.limits) if has_gaps else self.tail.fold(events)
        folded.sizes = [known_turn_tokens(turn, count_tokens_cached) for turn in folded.turns]
        return folded

    async def _read(self, after: int) -> list[Event]:
        if after >= self.head:
            return []
        if not self._is_fresh:
            await self.tail.refresh(self.conn, after, self.head)
            self._is_fresh = True
        events = await self.tail.read(self.conn, after, self.head)
        return [event for event in events if event.seq not in self.withheld] if self.withheld else events

    async def _fills(self, events: list[Event], budget: int) -> bool:
        """Tell whether events have more tokens than a budget."""
        if not self.withheld and await self._compute(events, self.tail.count_tokens) <= budget:
            return False
        return sum((await self.fold(events)).sizes) > budget

    async def _compute(self, events: list[Event], function: Callable[[list[Event]], T]) -> T:
        if not events or self.tail.count_unseen(events) <= MAX_INLINE_EVENTS:
            return function(events)
        return await asyncio.to_thread(function, events)


def _is_from_person(event: Event) -> bool:
    return event.type is EventType.USER_MESSAGE and event.data.get("origin", "user") == "user"
