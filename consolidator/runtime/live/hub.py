"""The hub: follows any number of sessions for any number of followers, on one listening connection of the process.

A followed session is marked on its row until a time, and writers notify of the events that they commit to it: an
append to any other costs nothing. What the hub hears of, it reads for all followers that stand at the same place at
once, and for none that has not taken what was read before. It also looks by itself now and then, since a notification
may be lost with its connection. Pieces come without one, which would have all commits of the server wait for one
another: while an answer is under way, the hub looks for them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime

import psycopg

from consolidator.database import Database
from consolidator.database.notifications import NotificationListener
from consolidator.errors import UsageError
from consolidator.llm.redaction.redact import redact
from consolidator.models.event import Event, PlacedChunk
from consolidator.models.session import SessionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.live.items import Cursor, FollowedItem, FollowFold, Pieces, Position, restore_position
from consolidator.runtime.session.access import check_reach, read_past
from consolidator.store.log import events
from consolidator.store.log.events import END, Span
from consolidator.store.sessions import sessions
from consolidator.store.turns import following as store
from consolidator.store.turns.following import CLOCK_SKEW, FOLLOWED_CHANNEL, ChunkSpan, SessionMarks

log = logging.getLogger("consolidator.runtime")
ACTIVE_SECONDS = 180.0  # without a piece, until an answer under way is looked at only now and then
MARK_SECONDS = 90.0  # that a session stays marked; renewed after a third of it
POLL_SECONDS = 1.0  # between two looks at all followed sessions
POLL_SECONDS_UNHEARD = 0.1  # the same while no notification can be heard
PIECE_POLL_SECONDS = 0.015  # between two looks for pieces of answers under way
_POLL_SHARE = 1 / 3  # of the time that such looks may take
MAX_FOLLOWED_SESSIONS = 2_000  # of one process
EVENTS_PER_READ = 200
CHUNKS_PER_READ = 100_000  # of one message: more than any answer has
_FOLLOWERS_PER_READ = 200


@dataclass(slots=True, eq=False)
class _Follower:
    """One that follows a session: where it stands, and what was read for it and is not taken yet."""

    session: SessionRow
    fold: FollowFold
    low: datetime  # no event to come is older
    is_placed: bool = False  # whether it is known where it stands: nothing is read for it before
    is_dirty: bool = False  # whether there may be something to read
    is_over: bool = False  # whether nothing comes after `items`
    items: list[FollowedItem] = field(default_factory=list)
    marks: SessionMarks | None = None  # the state that it was told last
    active_at: float = field(default_factory=time.monotonic)  # when an item came last
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_due(self) -> bool:
        """Whether there may be something to read, and all that was read is taken."""
        return self.is_placed and self.is_dirty and not self.items

    @property
    def awaits_pieces(self) -> bool:
        """Whether an answer is under way, of which pieces may come at any time, and all that came was taken."""
        is_open = self.fold.position.message_id is not None and not self.fold.position.is_notice
        return is_open and not self.items and time.monotonic() - self.active_at < ACTIVE_SECONDS

    @property
    def event_span(self) -> Span:
        """What comes next of the log."""
        return Span(self.session.id, self.fold.position.seq, 2**62, (self.low, END))

    def chunk_span(self, message_id: str, taken: int) -> ChunkSpan:
        """Return what comes next of a message's pieces."""
        return ChunkSpan(self.session.id, message_id, taken, self.session.created_at - CLOCK_SKEW)

    def take(self, log: Sequence[Event], pieces: Pieces) -> None:
        """Add what comes of the next events, and of the pieces by message."""
        for item in self.fold.take(log, pieces):
            self.items.append(item)
            self.active_at = time.monotonic()
            if item.event is not None:
                self.low = item.event.created_at
        self.changed.set()

    def note_state(self, marks: SessionMarks | None) -> None:
        """Tell where the session stands, once all that led there was taken; None is for one that was erased."""
        if marks is None:
            self.is_over = True
        elif marks.head <= self.fold.position.seq:
            if marks != self.marks:
                self.items.append(FollowedItem("state", self.session.id, self.fold.position.cursor, marks=marks))
            self.marks, self.is_over = marks, marks.is_over
        self.changed.set()


@dataclass(slots=True)
class FollowHub:
    """Follows sessions: `async with FollowHub(database, listener) as hub: async for item in hub.follow(session): ...`.

    The listener, which hears of commits, is opened by the caller after the hub is made.
    """

    database: Database
    listener: NotificationListener
    poll_seconds: float = POLL_SECONDS
    _followers: dict[str, set[_Follower]] = field(default_factory=dict)  # by session
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)
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
        for follower in self._all():
            follower.is_over = True
            follower.changed.set()

    @property
    def followed_sessions(self) -> int:
        """How many sessions are followed."""
        return len(self._followers)

    async def follow(
        self,
        session_id: str,
        after: Cursor | str | None = None,
        *,
        whole: bool = False,
        history: bool = False,
        viewer: Viewer = OWNER,
    ) -> AsyncGenerator[FollowedItem, None]:
        """Yield a session's items after a cursor (`"42"`, `"42.7"`) and those to come, each once and in order.

        None begins at the end of the log, `"0"` at its own first event. An answer's text comes in pieces, and its event
        without it; with `whole` in its event alone. With `history`, a child's ancestors' events come first, whole. Ends
        with the session. Raises Forbidden, NotFound, and UsageError for a cursor that is none or lies beyond the log.
        """
        after = Cursor.parse(after) if isinstance(after, str) else after
        follower = await self._open(session_id, viewer, whole=whole)
        try:
            session, fold = follower.session, follower.fold
            floor = max(session.pruned_to, session.base_seq)
            cursor = Cursor(session.head) if after is None else after
            if cursor.seq > session.head:
                raise UsageError(f"cursor {cursor} is beyond the end of session {session_id}, which is {session.head}")

            if history and cursor.seq < session.base_seq:
                async for event in read_past(self.database, session_id, after=cursor.seq, upto=session.base_seq):
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
                    mark = await store.find_last_mark(conn, session.id, cursor.seq, session.ingest_bounds)
                fold.position = restore_position(cursor, mark)

            follower.is_placed = follower.is_dirty = True
            while not (follower.is_over and not follower.items):
                self._wake.set()  # it has taken what was read, and can be given more
                await follower.changed.wait()
                follower.changed.clear()
                items, follower.items = follower.items, []
                for item in items:
                    yield item
        finally:
            self._followers[session_id].discard(follower)
            if not self._followers[session_id]:
                del self._followers[session_id]  # its mark runs out

    async def _open(self, session_id: str, viewer: Viewer, *, whole: bool) -> _Follower:
        """Return a new follower of a session, which is marked. Raises Forbidden and NotFound."""
        async with self._opening:
            if session_id not in self._followers and len(self._followers) >= MAX_FOLLOWED_SESSIONS:
                raise UsageError(f"{MAX_FOLLOWED_SESSIONS:,} sessions are followed already by this process")
            async with self.database.connection() as conn:
                await check_reach(conn, viewer, session_id, "read")
                if session_id not in self._followers:  # marked before it is read: all is heard that is committed later
                    await store.mark_followed(conn, [session_id], MARK_SECONDS)
                session = await sessions.get(conn, session_id)
            follower = _Follower(session, FollowFold(session_id, whole=whole), session.created_at)
            self._followers.setdefault(session_id, set()).add(follower)
            return follower

    def _all(self) -> Iterator[_Follower]:
        return (follower for followers in self._followers.values() for follower in followers)

    def _mark_dirty(self, session_id: str) -> None:
        for follower in self._followers.get(session_id, ()):
            follower.is_dirty = True
            self._wake.set()

    def _mark_all_dirty(self) -> None:
        for session_id in self._followers:
            self._mark_dirty(session_id)

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
            except Exception as error:  # noqa: BLE001 - nobody else reads for the followers
                if not self._is_failing:
                    log.warning("followed sessions cannot be read: %s", redact(str(error)))
                self._is_failing = True
                await asyncio.sleep(POLL_SECONDS_UNHEARD)
                self._mark_all_dirty()

    async def _wait(self) -> None:
        """Wait until there is something to read, by a notification or because it is time to look."""
        poll = self.poll_seconds if self.listener.connected.is_set() else POLL_SECONDS_UNHEARD
        next_at = self._looked_at + poll
        if any(follower.awaits_pieces for follower in self._all()):
            next_at = min(next_at, self._pieces_due_at)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, next_at - time.monotonic())):
                await self._wake.wait()
        if time.monotonic() >= self._looked_at + poll:
            self._looked_at = time.monotonic()
            self._mark_all_dirty()

    async def _read_dirty(self) -> None:
        """Read what is new for followers that have taken all before, in one round trip for each kind."""
        due = [follower for follower in self._all() if follower.is_due][:_FOLLOWERS_PER_READ]
        if not due:
            return
        for follower in due:  # before the read: what comes meanwhile is read next
            follower.is_dirty = False
        async with self.database.connection() as conn:
            # Where a session stands is read first, so that what led there is among the events.
            names = list(dict.fromkeys(follower.session.id for follower in due))
            marks = {each.id: each for each in await store.read_marks(conn, names)}
            pages = await _read_pages(conn, due)
        for follower, (page, pieces) in zip(due, pages, strict=True):
            follower.take(page, pieces)
            if len(page) >= EVENTS_PER_READ:  # there may be more
                follower.is_dirty = True
            else:
                follower.note_state(marks.get(follower.session.id))
        if any(follower.is_due for follower in self._all()):
            self._wake.set()

    async def _read_pieces(self) -> None:
        """Look for pieces of the answers under way, if it is time; in one round trip for all."""
        if time.monotonic() < self._pieces_due_at:
            return
        waiting = [
            (follower, follower.chunk_span(follower.fold.position.message_id or "", follower.fold.position.piece))
            for follower in self._all()
            if follower.awaits_pieces
        ]
        if not waiting:
            return
        began_at = time.monotonic()
        async with self.database.connection() as conn:
            chunks = await _read_chunks(conn, [span for _, span in waiting])
        for follower, span in waiting:
            if chunks[span]:
                follower.take([], {span.message_id: chunks[span]})
                if follower.fold.holds_back(chunks[span]):  # the events before them are read first
                    follower.is_dirty = True
                    self._wake.set()
        took = time.monotonic() - began_at
        self._pieces_due_at = began_at + max(PIECE_POLL_SECONDS, took / _POLL_SHARE)

    async def _renew_marks(self) -> None:
        if not self._followers or time.monotonic() - self._renewed_at < MARK_SECONDS / 3:
            return
        self._renewed_at = time.monotonic()
        async with self.database.connection() as conn:
            await store.mark_followed(conn, list(self._followers), MARK_SECONDS)


@asynccontextmanager
async def open_hub(database: Database) -> AsyncIterator[FollowHub]:
    """Yield a hub with a listening connection of its own, which follows sessions for all followers of this process."""
    listener = NotificationListener(database)
    async with FollowHub(database, listener) as hub, listener:
        yield hub


async def _read_pages(
    conn: psycopg.AsyncConnection, followers: Sequence[_Follower]
) -> list[tuple[list[Event], Pieces]]:
    """Return the next page of each follower: events first, so that no piece is missing of a message that they end."""
    spans = list(dict.fromkeys(follower.event_span for follower in followers))
    pages = await events.read_each(conn, spans, limit=EVENTS_PER_READ)
    logs = dict(zip(spans, pages, strict=True))
    needed = [
        [follower.chunk_span(*each) for each in follower.fold.open_messages(logs[follower.event_span]).items()]
        for follower in followers
    ]
    chunks = await _read_chunks(conn, [span for each in needed for span in each])
    return [
        (logs[follower.event_span], {span.message_id: chunks[span] for span in each})
        for follower, each in zip(followers, needed, strict=True)
    ]


async def _read_chunks(
    conn: psycopg.AsyncConnection, spans: Sequence[ChunkSpan]
) -> Mapping[ChunkSpan, list[PlacedChunk]]:
    """Return the next pieces of each span; followers at the same place share one."""
    different = list(dict.fromkeys(spans))
    return dict(zip(different, await store.read_chunks(conn, different, limit=CHUNKS_PER_READ), strict=True))
