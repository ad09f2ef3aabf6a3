"""Reads the events of a context from the end of a session's log: the last ones, or as many as fill a budget."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from consolidator.context.conversation import MAX_RESULT_BYTES, build_conversation
from consolidator.context.window import count_turn_tokens
from consolidator.database import Connection
from consolidator.llm.tokens import count_tokens_cached
from consolidator.models.event import Event
from consolidator.models.lineage import Lineage
from consolidator.models.payload import EventType
from consolidator.store.log import context as store

MAX_INLINE_EVENTS = 60  # more events than these are processed in a thread, not on the event loop
_MESSAGE_LOOKBACK = 2000  # how many earlier events are searched for a person's last message


@dataclass(slots=True)
class ContextReader:
    """Reads a session's past up to `head`, its ancestors' part included, without the `withheld` events."""

    conn: Connection
    lineage: Lineage
    head: int
    limits: Mapping[str, int]  # tool -> maximum bytes of its results
    withheld: frozenset[int]  # seqs

    async def read_last(self, count: int, after: int) -> list[Event]:
        """Return the last `count` events after a seq."""
        return await self._read(max(after, self.head - count), self.head)

    async def read_to_budget(self, budget: int, after: int) -> list[Event]:
        """Return the latest events after a seq: at least enough to fill a budget of tokens."""
        events: list[Event] = []
        first, page = self.head, max(MAX_INLINE_EVENTS, min(budget // 200, 500))
        while first > after:
            upto, first = first, max(after, first - page)
            events = [*await self._read(first, upto), *events]
            if await asyncio.to_thread(self._exceeds_budget, events, budget):
                break
            page *= 2
        return events

    async def include_last_user_message(self, events: list[Event]) -> list[Event]:
        """Return events, preceded by the person's last message before them if they hold none."""
        if not events or any(_is_from_person(event) for event in events):
            return events
        upto = events[0].seq - 1
        after = max(self.lineage.readable_after, upto - _MESSAGE_LOOKBACK)
        message = await store.read_last_user_message(self.conn, self.lineage, after=after, upto=upto)
        return events if message is None or message.seq in self.withheld else [message, *events]

    async def _read(self, after: int, upto: int) -> list[Event]:
        if after >= upto:
            return []
        max_bytes = max([MAX_RESULT_BYTES, *self.limits.values()])
        events = await store.read_window(self.conn, self.lineage, after=after, upto=upto, longest=max_bytes)
        return [event for event in events if event.seq not in self.withheld] if self.withheld else events

    def _exceeds_budget(self, events: Sequence[Event], budget: int) -> bool:
        turns = build_conversation(events, self.limits).turns
        return sum(count_turn_tokens(turn, count_tokens_cached) for turn in turns) > budget


def _is_from_person(event: Event) -> bool:
    return event.type is EventType.USER_MESSAGE and event.data.get("origin", "user") == "user"
