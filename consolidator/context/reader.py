"""Reads the events of a context from the end of a session's log: the last ones, or as many as fill a budget."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from consolidator.context.conversation import (
    CALL_TOKENS,
    MAX_RESULT_BYTES,
    MESSAGE_TOKENS,
    Conversation,
    ConversationFold,
    build_conversation,
    known_turn_tokens,
    normalize_arguments,
    result_text,
    truncate_bytes,
)
from consolidator.context.history import SessionHistory
from consolidator.context.messages import RenderedTurns
from consolidator.database import Connection
from consolidator.errors import UsageError
from consolidator.llm.tokens import count_tokens_cached
from consolidator.models.event import Event
from consolidator.models.lineage import Lineage
from consolidator.models.payload import EventType
from consolidator.store.turns import context as store

MAX_CACHE_BYTES = 64 * 1024 * 1024
_EVENT_BYTES = 1500  # of an event, its turn and its place in lists, without its texts


@dataclass(slots=True)
class SessionTail:
    """The events of a session with after < position <= upto, oldest first, and their turns."""

    lineage: Lineage
    limits: Mapping[str, int]  # tool -> maximum bytes of its results
    events: list[Event] = field(default_factory=list)
    size: int = 0  # bytes, an estimate
    fresh_to: int = 0  # position of the last event, if the log was seen to end there since it was read; else 0
    rendered: RenderedTurns = field(default_factory=RenderedTurns)  # as the last context showed them
    _tokens: list[int] = field(default_factory=list)  # of each event, about; not of those that are not counted yet
    _fold: ConversationFold | None = None
    _folded_from: int = 0  # position of the first event in the fold
    _folded_to: int = 0  # and of the last one

    @property
    def longest(self) -> int:
        """The bytes beyond which the middle of a result is left out."""
        return max([MAX_RESULT_BYTES, *self.limits.values()])

    def follow(self, newest: Sequence[Event]) -> None:
        """Take over the end of the log as it was just read, so that what meets it need not be read again."""
        last = self.events[-1] if self.events else None
        self.fresh_to = 0
        if not newest or (last is not None and last.seq < newest[0].seq):  # what lies between is not here
            return
        self.fresh_to = newest[-1].seq
        if last is None or last.seq > self.fresh_to:
            self._set(list(newest))
        else:
            index = last.seq - newest[0].seq  # a log has no gaps
            if _is_same(newest[index], last):
                self._extend(newest[index + 1 :])
            else:
                self._set(list(newest))

    async def refresh(self, conn: Connection, after: int, upto: int) -> None:
        """Read the events up to a position that are not kept yet, those after another one at least."""
        is_fresh, self.fresh_to = self.fresh_to == upto, 0
        if is_fresh:
            return
        if self.events and self.events[0].seq <= upto and self.events[-1].seq >= after:
            end = self.find(upto)  # what comes after it is forgotten
            self._fold = self._fold if self._folded_to <= upto else None
            self.size -= sum(map(_estimate_bytes, self.events[end:]))
            del self.events[end:], self._tokens[end:]
            last = self.events[-1]
            newer = await self._load(conn, last.seq - 1, upto)
            if newer and _is_same(newer[0], last):
                self._extend(newer[1:])
                return
        self._set(await self._load(conn, after, upto))

    async def read(self, conn: Connection, after: int, upto: int) -> list[Event]:
        """Return the events with after < position <= upto, once these are refreshed up to there."""
        first = self.events[0].seq - 1 if self.events else upto
        if after < first:
            self._set([*await self._load(conn, after, first), *self.events])
        return self.events[self.find(after) :]

    def _extend(self, newer: Sequence[Event]) -> None:
        self.events += newer
        self.size += sum(map(_estimate_bytes, newer))

    def find(self, position: int) -> int:
        """Return the index of the first event after a position."""
        return bisect_right(self.events, position, key=lambda event: event.seq)

    def trim(self, after: int) -> None:
        """Forget the events up to a position."""
        count = self.find(after)
        self.size -= sum(map(_estimate_bytes, self.events[:count]))
        del self.events[:count], self._tokens[:count]

    @property
    def counted(self) -> int:
        """How many of the events have tokens that are counted already."""
        return len(self._tokens)

    def count_unfolded(self, events: Sequence[Event]) -> int:
        """Return how many of some events that were read are not folded yet."""
        return events[-1].seq - self._folded_to if self._continues(events) else len(events)

    def count_tokens(self, events: Sequence[Event]) -> int:
        """Return about how many tokens some events have that were read last."""
        self._tokens += map(self._count, self.events[len(self._tokens) :])
        return sum(self._tokens[len(self.events) - len(events) :])

    def fold(self, events: Sequence[Event]) -> Conversation:
        """Return events that follow one another as turns; those that are folded already are not folded again."""
        if self._fold is None or not self._continues(events):
            self._fold, self._folded_from = ConversationFold(self.limits), events[0].seq
            self._folded_to = events[0].seq - 1
        for event in events[self._folded_to + 1 - events[0].seq :]:
            self._fold.feed(event)
        self._folded_to = events[-1].seq
        return self._fold.conversation()

    def _continues(self, events: Sequence[Event]) -> bool:
        return self._fold is not None and self._folded_from == events[0].seq and self._folded_to <= events[-1].seq

    async def _load(self, conn: Connection, after: int, upto: int) -> list[Event]:
        return await store.read_window(conn, self.lineage, after=after, upto=upto, longest=self.longest)

    def _set(self, events: list[Event]) -> None:
        self.events, self._tokens, self._fold = events, [], None
        self.size = sum(map(_estimate_bytes, events))

    def _count(self, event: Event) -> int:
        """Return about how many tokens an event adds to a context."""
        data = event.data
        if event.type in (EventType.USER_MESSAGE, EventType.ASSISTANT_RESPONSE):
            return MESSAGE_TOKENS + count_tokens_cached(str(data.get("text") or ""))
        if event.type is EventType.TOOL_CALL:
            tool, arguments = str(data.get("tool") or ""), normalize_arguments(data.get("arguments"))
            return CALL_TOKENS + MESSAGE_TOKENS + count_tokens_cached(tool) + count_tokens_cached(arguments)
        if event.type is EventType.TOOL_RESULT:
            limit = self.limits.get(str(event.tool_name), MAX_RESULT_BYTES)
            return count_tokens_cached(truncate_bytes(result_text(data.get("content")), limit))
        return 0


class TailCache:
    """The tails of the sessions that were read last, up to a number of bytes.

    A tail is taken out while it is used, so that two readers of a session never share one.
    """

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._tails: OrderedDict[str, SessionTail] = OrderedDict()
        self.size = 0  # bytes, an estimate
        self._max_bytes = max_bytes

    def take(self, lineage: Lineage, limits: Mapping[str, int]) -> SessionTail:
        """Take out a session's tail; an empty one if none is kept that can be used."""
        tail = self._tails.pop(lineage.session_id, None)
        if tail is None:
            return SessionTail(lineage, limits)
        self.size -= tail.size
        if tail.limits != limits:
            return SessionTail(lineage, limits)
        tail.lineage = lineage
        return tail

    def follow(self, lineage: Lineage, limits: Mapping[str, int], newest: Sequence[Event]) -> None:
        """Have a session's tail take over the end of its log as it was just read; nothing of it where that is empty."""
        tail = self.take(lineage, limits)
        tail.follow(newest)
        self.put(tail)

    def find_fresh(self, session_id: str, after: int, upto: int) -> list[Event] | None:
        """Return the events with after < position <= upto if the log was just seen to end as they do here.

        None, too, where a tool's results are kept at greater length than they are read without its limit.
        """
        tail = self._tails.get(session_id)
        if tail is None or tail.fresh_to < upto or not tail.events or tail.events[0].seq > after + 1:
            return None
        if tail.longest > MAX_RESULT_BYTES:
            return None
        return tail.events[tail.find(after) : tail.find(upto)]

    def put(self, tail: SessionTail) -> None:
        """Keep a tail, and forget those that were not used for the longest time where there are too many bytes."""
        session_id = tail.lineage.session_id
        if (other := self._tails.pop(session_id, None)) is not None:
            self.size -= other.size
        if tail.size > self._max_bytes:
            return
        self._tails[session_id] = tail
        self.size += tail.size
        while self.size > self._max_bytes:
            self.size -= self._tails.popitem(last=False)[1].size

    def clear(self) -> None:
        """Forget all tails."""
        self._tails.clear()
        self.size = 0


def _is_same(event: Event, other: Event) -> bool:
    return (event.id, event.seq, event.created_at) == (other.id, other.seq, other.created_at)


def _estimate_bytes(event: Event) -> int:
    return _EVENT_BYTES + 2 * sum(len(str(value)) for value in event.data.values())


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
    new_events: int = field(default=0, init=False)  # how many were folded for the first time

    @property
    def lineage(self) -> Lineage:
        """Where the session's past is."""
        return self.tail.lineage

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
                events = await self.read(first)
                if first <= after or await self._fills(events, budget):
                    return events
            step *= 2

    async def include_last_user_message(self, events: list[Event]) -> list[Event]:
        """Return events, preceded by the person's last message before them if they hold none."""
        if not events or any(event.is_user_message for event in events):
            return events
        upto = events[0].seq - 1
        after = max(self.lineage.readable_after, upto - _MESSAGE_LOOKBACK)
        message = await store.read_last_user_message(self.conn, self.lineage, after=after, upto=upto)
        return events if message is None or message.seq in self.withheld else [message, *events]

    async def fold(self, events: list[Event]) -> Conversation:
        """Return events as turns, with their sizes."""
        if self._folded is None or self._folded[0] is not events:
            unfolded = len(events) if _has_gaps(events) else self.tail.count_unfolded(events)
            self.new_events = max(self.new_events, unfolded)
            self._folded = (events, await self._compute(events, self._fold, unfolded))
        return self._folded[1]

    def _fold(self, events: list[Event]) -> Conversation:
        folded = build_conversation(events, self.tail.limits) if _has_gaps(events) else self.tail.fold(events)
        folded.sizes = [turn.tokens or known_turn_tokens(turn, count_tokens_cached) for turn in folded.turns]
        return folded

    async def read(self, after: int) -> list[Event]:
        """Return the events after a seq."""
        if after >= self.head:
            return []
        if not self._is_fresh:
            await self.tail.refresh(self.conn, after, self.head)
            self._is_fresh = True
        events = await self.tail.read(self.conn, after, self.head)
        return [event for event in events if event.seq not in self.withheld] if self.withheld else events

    async def _fills(self, events: list[Event], budget: int) -> bool:
        """Tell whether events have more tokens than a budget."""
        uncounted = len(self.tail.events) - self.tail.counted
        if not self.withheld and await self._compute(events, self.tail.count_tokens, uncounted) <= budget:
            return False
        return sum((await self.fold(events)).sizes) > budget

    async def _compute(self, events: list[Event], function: Callable[[list[Event]], T], unseen: int) -> T:
        return function(events) if unseen <= MAX_INLINE_EVENTS else await asyncio.to_thread(function, events)


def _has_gaps(events: Sequence[Event]) -> bool:
    """Tell whether some events are withheld, or a message stands before them."""
    return not events or events[-1].seq - events[0].seq + 1 != len(events)


DEFAULT_BUDGET = 32_000  # tokens of a context


@dataclass(frozen=True, slots=True)
class ContextStrategy:
    """Decides which events of a session a context holds: the latest ones that fit into a budget of tokens."""

    name: str  # as it is configured, logged and booked
    compacts: bool = False  # a summary replaces the older part, and a session is compacted when its budget runs out
    stride: int = (
        32  # a truncated context begins at a multiple of so many events, so that providers can cache the prefix
    )
    counts_events: bool = False  # a fixed number of the last events, within the budget
    fills_window: bool = False  # the budget is the model's whole window, if that is known

    def default_budget(self, max_budget: int | None) -> int:
        """Return the budget in tokens if none is configured; `max_budget` is the model's limit, if known."""
        return (max_budget if self.fills_window else None) or DEFAULT_BUDGET

    def kept_from(self, history: SessionHistory) -> int:
        """Return the seq of the first event that may be shown as it is; 0 if any may."""
        return history.kept_from if self.compacts else 0

    async def read_events(self, reader: ContextReader, after: int, *, budget: int, last: int) -> list[Event]:
        """Return the latest events after a seq: enough for `budget` tokens, or the last `last` ones."""
        if self.counts_events:
            return await reader.read(max(after, reader.head - last))
        return await reader.read_to_budget(budget, after)


COMPACTED = ContextStrategy("compacted", compacts=True)
_ALL = (
    ContextStrategy("window", stride=1, counts_events=True),
    ContextStrategy("budget"),
    COMPACTED,
    ContextStrategy("full", fills_window=True),
)
STRATEGIES: Mapping[str, ContextStrategy] = {strategy.name: strategy for strategy in _ALL}
DEFAULT_STRATEGY = "budget"


def find_strategy(name: str) -> ContextStrategy:
    """Return a strategy by its name. Raises UsageError for an unknown name."""
    strategy = STRATEGIES.get(name)
    if strategy is None:
        raise UsageError(f"unknown context strategy {name!r}; choose one of: {', '.join(STRATEGIES)}")
    return strategy
