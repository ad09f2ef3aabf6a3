"""Keeps the last events of sessions in this process, so that a step reads and folds only what is new.

What is kept is never trusted by itself: events do not change, but they can be pruned or erased, and a session can be
restored from a backup. So each reading asks for the last kept event again, in the same query as the new ones, and the
caller reads only what its session's row says is there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from consolidator.context.conversation import (
    MAX_RESULT_BYTES,
    Conversation,
    ConversationFold,
    normalize_arguments,
    result_text,
    truncate_bytes,
)
from consolidator.context.window import CALL_TOKENS, MESSAGE_TOKENS
from consolidator.database import Connection
from consolidator.database.jsonb import dumps
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
    _tokens: list[int] = field(default_factory=list)  # of each event, about; not of those that are not counted yet
    _fold: ConversationFold | None = None
    _folded_from: int = 0  # position of the first event in the fold
    _folded_to: int = 0  # and of the last one

    async def refresh(self, conn: Connection, after: int, upto: int) -> None:
        """Read the events up to a position that are not kept yet, those after another one at least."""
        if self.events and self.events[0].seq <= upto and self.events[-1].seq >= after:
            self._cut(upto)
            kept = self.events[-1]
            newer = await self._load(conn, kept.seq - 1, upto)
            if newer and (newer[0].id, newer[0].seq, newer[0].created_at) == (kept.id, kept.seq, kept.created_at):
                self.events += newer[1:]
                self.size += sum(map(_estimate_bytes, newer[1:]))
                return
        self._set(await self._load(conn, after, upto))

    async def read(self, conn: Connection, after: int, upto: int) -> list[Event]:
        """Return the events with after < position <= upto, once these are refreshed up to there."""
        first = self.events[0].seq - 1 if self.events else upto
        if after < first:
            self._set([*await self._load(conn, after, first), *self.events])
        return self.events[self._find(after) :]

    def _cut(self, upto: int) -> None:
        """Forget the events after a position."""
        end = self._find(upto)
        self._fold = self._fold if self._folded_to <= upto else None
        self.size -= sum(map(_estimate_bytes, self.events[end:]))
        del self.events[end:], self._tokens[end:]

    def _find(self, position: int) -> int:
        """Return the index of the first event after a position."""
        return bisect_right(self.events, position, key=lambda event: event.seq)

    def trim(self, after: int) -> None:
        """Forget the events up to a position."""
        count = self._find(after)
        self.size -= sum(map(_estimate_bytes, self.events[:count]))
        del self.events[:count], self._tokens[:count]

    def count_unseen(self, events: Sequence[Event]) -> int:
        """Return how many of some events that were read are not counted or folded yet."""
        uncounted = len(self.events) - len(self._tokens)
        unfolded = events[-1].seq - self._folded_to if self._continues(events) else len(events)
        return max(uncounted, unfolded)

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
        longest = max([MAX_RESULT_BYTES, *self.limits.values()])
        return await store.read_window(conn, self.lineage, after=after, upto=upto, longest=longest)

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


def _estimate_bytes(event: Event) -> int:
    texts = (value if isinstance(value, str) else dumps(value) for value in event.data.values())
    return _EVENT_BYTES + 2 * sum(map(len, texts))
