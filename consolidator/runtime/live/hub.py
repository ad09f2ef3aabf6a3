"""The hub: follows any number of sessions for any number of followers, on one listening connection of the process.

A followed session is marked on its row until a time, and writers notify of the events that they commit to it: an
append to any other costs nothing. What the hub hears of, it reads once and hands to all followers of that session. It
also looks by itself now and then, since a notification may be lost with its connection. Pieces come without one, which
would have all commits of the server wait for one another: while an answer is under way, the hub looks for them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg

from consolidator.database import Database
from consolidator.database.notifications import NotificationListener
from consolidator.errors import ConsolidatorError, UsageError
from consolidator.llm.redaction.redact import redact
from consolidator.models.event import Event
from consolidator.models.session import SessionRow
from consolidator.runtime.live.items import (
    Cursor,
    Disconnected,
    FollowedItem,
    FollowFold,
    Position,
    restore_position,
)
from consolidator.store.log import events
from consolidator.store.log.events import END, Span
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import load_lineage, read_lineage
from consolidator.store.turns import following as store
from consolidator.store.turns.following import CLOCK_SKEW, FOLLOWED_CHANNEL, ChunkSpan, PlacedChunk, SessionMarks

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

    def take(
        self, log: Sequence[Event], pieces: Mapping[str, Sequence[PlacedChunk]], cut: Collection[str] = ()
    ) -> None:
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
        return len(item.piece.delta)
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


log = logging.getLogger("consolidator.runtime")
MARK_SECONDS = 90.0  # that a session stays marked; renewed after a third of it
POLL_SECONDS = 1.0  # between two looks at all followed sessions
POLL_SECONDS_UNHEARD = 0.1  # the same while no notification can be heard
PIECE_POLL_SECONDS = 0.015  # between two looks for pieces of answers under way
_POLL_SHARE = 1 / 3  # of the time that such looks may take
LINGER_SECONDS = 10.0  # that a session is followed on after its last follower: most come back
MAX_FOLLOWED_SESSIONS = 2_000  # of one process
EVENTS_PER_READ = 200
CHUNKS_PER_READ = 500  # of one message
_FEEDS_PER_READ = 50
_READERS = 4  # followers that read the log themselves at once


@dataclass(frozen=True, slots=True)
class _Page:
    """What a read found of a session: events, and the pieces that they need."""

    log: list[Event]
    pieces: dict[str, list[PlacedChunk]]
    cut: set[str]  # messages of which there are more pieces

    @property
    def is_full(self) -> bool:
        """Whether there may be more."""
        return len(self.log) >= EVENTS_PER_READ or bool(self.cut)


@dataclass(slots=True)
class FollowHub:
    """Follows sessions: `async with FollowHub(database, listener) as hub: async for item in hub.follow(session): ...`.

    The listener, which hears of commits, is opened by the caller after the hub is made.
    """

    database: Database
    listener: NotificationListener
    poll_seconds: float = POLL_SECONDS
    _feeds: dict[str, Feed] = field(default_factory=dict)
    _dirty: set[str] = field(default_factory=set)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    _readers: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_READERS))
    _left_at: dict[str, float] = field(default_factory=dict)  # session without followers -> time.monotonic()
    _renewed_at: float = 0.0  # time.monotonic()
    _looked_at: float = 0.0  # time.monotonic(); for all sessions
    _pieces_due_at: float = 0.0  # time.monotonic(); the next look for pieces
    _pump: asyncio.Task[None] | None = None
    _is_failing: bool = False

    def __post_init__(self) -> None:
        self.listener.subscribe(FOLLOWED_CHANNEL, self._mark_dirty, self._mark_all_dirty)

    async def __aenter__(self) -> FollowHub:
        self._pump = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
        for feed in self._feeds.values():
            feed.is_gone = True
            feed.notify()

    @property
    def followed_sessions(self) -> int:
        """How many sessions are followed."""
        return len(self._feeds)

    async def follow(
        self, session_id: str, after: Cursor | None = None, *, whole: bool = False, history: bool = False
    ) -> AsyncGenerator[FollowedItem, None]:
        """Yield what is in a session after a cursor and what comes, each once and in order, until the session is over.

        From its first own event on where `after` is `Cursor(0)`, from its end on where it is None. With `whole`,
        answers come as events alone. With `history`, a child's ancestors' events come first, whole.
        Raises NotFound, and UsageError for a cursor beyond the log.
        """
        async with self._open_feed(session_id) as (feed, session):
            fold = FollowFold(session_id, whole=whole)
            floor = max(session.pruned_to, session.base_seq)
            cursor = Cursor(session.head) if after is None else after
            if cursor.seq > session.head:
                raise UsageError(f"cursor {cursor} is beyond the end of session {session_id}, which is {session.head}")
            if history and cursor.seq < session.base_seq:
                async for event in self._read_ancestors(session, cursor.seq):
                    yield FollowedItem("event", session_id, Cursor(event.seq), event)
                cursor = Cursor(session.base_seq)
            if cursor.seq < floor:  # also the log of a child, of which what is below its base is in its ancestors
                fold.position = Position(floor)
                if cursor.seq > 0:
                    yield FollowedItem("gap", session_id, fold.position.cursor)
            elif whole:
                fold.position = Position(cursor.seq)
            elif cursor.seq:
                async with self.database.connection() as conn:
                    fold.position = await _find_position(conn, session, cursor)
            async with aclosing(self._follow(feed, fold, session)) as items:
                async for item in items:
                    yield item

    async def _follow(self, feed: Feed, fold: FollowFold, session: SessionRow) -> AsyncGenerator[FollowedItem, None]:
        """Yield items from the buffer where it reaches back far enough, else from the log."""
        number, marks, low = -1, None, session.created_at
        while True:
            changed = feed.changed
            if number < feed.first and feed.reaches(fold.position):
                number = feed.first
            if number < feed.first:
                page = await self._read_page(fold, session, low)
                for item in fold.take(page.log, page.pieces, page.cut):
                    yield item
                low = page.log[-1].created_at if page.log else low
                if not (page.is_full or feed.reaches(fold.position)):
                    await changed.wait()
                continue
            try:
                while feed.first <= number < feed.end:
                    shared, _, _ = feed.items[number - feed.first]
                    number += 1
                    for item in fold.take_shared(shared):
                        yield item
            except Disconnected:  # the log is read on from where the follower is
                number, low = -1, session.created_at
                page = await self._read_page(fold, session, low)
                for item in fold.take(page.log, page.pieces, page.cut):
                    yield item
                continue
            if number < feed.end:
                continue  # left behind while it was served
            if feed.marks is not None and feed.marks != marks and feed.marks.head <= fold.position.seq:
                marks = feed.marks
                yield FollowedItem("state", feed.session_id, fold.position.cursor, marks=marks)
            if feed.is_gone or (marks is not None and marks.is_over and marks.head <= fold.position.seq):
                return
            if number >= feed.end and feed.changed is changed:
                await changed.wait()

    async def _read_page(self, fold: FollowFold, session: SessionRow, low: datetime) -> _Page:
        async with self._readers, self.database.connection() as conn:
            return (await _read_pages(conn, [(fold, session.created_at, low)]))[0]

    async def _read_ancestors(self, session: SessionRow, after: int) -> AsyncIterator[Event]:
        """Yield what a child reads of its ancestors' logs."""
        while after < session.base_seq:
            async with self._readers, self.database.connection() as conn:
                lineage = await load_lineage(conn, session.id, session)
                page = await read_lineage(conn, lineage, after=after, upto=session.base_seq, limit=EVENTS_PER_READ)
            for event in page:
                yield event
            after = page[-1].seq if page else session.base_seq

    @asynccontextmanager
    async def _open_feed(self, session_id: str) -> AsyncIterator[tuple[Feed, SessionRow]]:
        """Yield the feed of a session, which is followed meanwhile, and the session as it was then. Raises NotFound."""
        async with self._opening:
            feed = self._feeds.get(session_id)
            if feed is None and len(self._feeds) >= MAX_FOLLOWED_SESSIONS:
                raise UsageError(f"{MAX_FOLLOWED_SESSIONS:,} sessions are followed already by this process")
            async with self.database.connection() as conn:
                if feed is None:  # marked before it is read: nothing is committed unheard in between
                    await store.mark_followed(conn, [session_id], MARK_SECONDS)
                session = await sessions.get(conn, session_id)
                if feed is None:
                    position = await _find_position(conn, session, Cursor(session.head))
                    fold, since = FollowFold(session.id, position), session.created_at
                    feed = self._feeds[session.id] = Feed(session.id, since, fold, since, begin=position)
                    self._mark_dirty(session.id)
            feed.followers += 1
            self._left_at.pop(session_id, None)
        try:
            yield feed, session
        finally:
            feed.followers -= 1
            if not feed.followers and self._feeds.get(session_id) is feed:
                self._left_at[session_id] = time.monotonic()

    def _mark_dirty(self, session_id: str) -> None:
        if session_id in self._feeds:
            self._dirty.add(session_id)
            self._wake.set()

    def _mark_all_dirty(self) -> None:
        self._dirty.update(self._feeds)
        self._wake.set()

    async def _run(self) -> None:
        """Read what the followed sessions are notified of, and all of them now and then."""
        while True:
            try:
                await self._wait()
                self._wake.clear()
                await self._read_dirty()
                await self._read_pieces()
                await self._renew_marks()
                self._is_failing = False
            except (ConsolidatorError, psycopg.Error, OSError) as error:
                if not self._is_failing:
                    log.warning("followed sessions cannot be read: %s", redact(str(error)))
                self._is_failing = True
                await asyncio.sleep(POLL_SECONDS_UNHEARD)
                self._mark_all_dirty()

    async def _wait(self) -> None:
        """Wait until there is something to read, by a notification or because it is time to look."""
        poll = self.poll_seconds if self.listener.connected.is_set() else POLL_SECONDS_UNHEARD
        next_at = self._looked_at + poll
        if any(feed.awaits_pieces for feed in self._feeds.values()):
            next_at = min(next_at, self._pieces_due_at)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, next_at - time.monotonic())):
                await self._wake.wait()
        if time.monotonic() >= self._looked_at + poll:
            self._looked_at = time.monotonic()
            self._mark_all_dirty()
            self._close_left_feeds()

    async def _read_dirty(self) -> None:
        """Read the sessions that are known to have changed, or that it is time to look at."""
        names = list(self._dirty)[:_FEEDS_PER_READ]
        self._dirty.difference_update(names)  # before the read: what comes meanwhile is read next
        feeds = [self._feeds[name] for name in names if name in self._feeds]
        await self._read(feeds)
        for feed in feeds:
            if feed.is_cut:
                self._mark_dirty(feed.session_id)
        if self._dirty:
            self._wake.set()

    async def _read(self, feeds: Sequence[Feed]) -> None:
        """Read what is new in feeds, in one round trip for each kind, and hand it to their followers."""
        if not feeds:
            return
        async with self.database.connection() as conn:
            # Where a session stands is read first, so that what led there is among the events.
            marks = {each.id: each for each in await store.read_marks(conn, [feed.session_id for feed in feeds])}
            pages = await _read_pages(conn, [(feed.fold, feed.created_at, feed.low) for feed in feeds])
        for feed, page in zip(feeds, pages, strict=True):
            before = (feed.end, feed.marks, feed.is_gone)
            feed.take(page.log, page.pieces, page.cut)
            feed.marks, feed.is_cut = marks.get(feed.session_id), page.is_full
            feed.is_gone = feed.marks is None
            if (feed.end, feed.marks, feed.is_gone) != before:  # also one that was erased before its first read
                feed.notify()

    async def _read_pieces(self) -> None:
        """Look for pieces of the answers under way, if it is time; in one round trip for all."""
        if time.monotonic() < self._pieces_due_at:
            return
        feeds = [feed for feed in self._feeds.values() if feed.awaits_pieces]
        if not feeds:
            return
        began_at = time.monotonic()
        spans = [_chunk_span(feed) for feed in feeds]
        async with self.database.connection() as conn:
            found = await store.read_chunks(conn, spans, limit=CHUNKS_PER_READ)
        for feed, span, chunks in zip(feeds, spans, found, strict=True):
            if chunks:
                feed.take([], {span.message_id: chunks})
                feed.notify()
                if feed.fold.holds_back(chunks):  # the events before them are read first
                    self._mark_dirty(feed.session_id)
        took = time.monotonic() - began_at
        self._pieces_due_at = began_at + max(PIECE_POLL_SECONDS, took / _POLL_SHARE)

    async def _renew_marks(self) -> None:
        if not self._feeds or time.monotonic() - self._renewed_at < MARK_SECONDS / 3:
            return
        self._renewed_at = time.monotonic()
        async with self.database.connection() as conn:
            await store.mark_followed(conn, list(self._feeds), MARK_SECONDS)

    def _close_left_feeds(self) -> None:
        """Forget sessions that nobody follows any more; their marks run out."""
        now = time.monotonic()
        for session_id, left_at in list(self._left_at.items()):
            if now - left_at >= LINGER_SECONDS:
                del self._left_at[session_id]
                del self._feeds[session_id]


@asynccontextmanager
async def open_hub(database: Database) -> AsyncIterator[FollowHub]:
    """Yield a hub with a listening connection of its own, which follows sessions for all followers of this process."""
    listener = NotificationListener(database)
    async with FollowHub(database, listener) as hub, listener:
        yield hub


async def _find_position(conn: psycopg.AsyncConnection, session: SessionRow, cursor: Cursor) -> Position:
    """Return the position that a cursor names in a session."""
    return restore_position(cursor, await store.find_last_mark(conn, session.id, cursor.seq, session.ingest_bounds))


async def _read_pages(
    conn: psycopg.AsyncConnection, folds: Sequence[tuple[FollowFold, datetime, datetime]]
) -> list[_Page]:
    """Return the next page of each fold: events first, so that no piece is missing of a message that they end.

    With each fold: since when its session has chunks, and events that it has not taken.
    """
    spans = [Span(fold.session_id, fold.position.seq, 2**62, (low, END)) for fold, _, low in folds]
    logs = await events.read_each(conn, spans, limit=EVENTS_PER_READ)
    needed = [
        ChunkSpan(fold.session_id, message_id, taken, created_at - CLOCK_SKEW)
        for (fold, created_at, _), found in zip(folds, logs, strict=True)
        for message_id, taken in fold.open_messages(found).items()
    ]
    pages = {fold.session_id: _Page(found, {}, set()) for (fold, _, _), found in zip(folds, logs, strict=True)}
    for span, chunks in zip(needed, await store.read_chunks(conn, needed, limit=CHUNKS_PER_READ), strict=True):
        page = pages[span.session_id]
        page.pieces[span.message_id] = chunks
        if len(chunks) >= CHUNKS_PER_READ:
            page.cut.add(span.message_id)
    return list(pages.values())


def _chunk_span(feed: Feed) -> ChunkSpan:
    """Return what comes next of the answer that is under way."""
    position = feed.fold.position
    return ChunkSpan(feed.session_id, position.message_id or "", position.piece, feed.created_at - CLOCK_SKEW)
