"""The next events of a session that are read, learned from and committed together."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

from consolidator.database import Connection, Database
from consolidator.errors import Interrupted
from consolidator.jobs.consolidation import learning
from consolidator.jobs.consolidation.learning import FoldStates, ReadResult, WindowResult
from consolidator.jobs.ledger import Unit, record_progress
from consolidator.memory.facts.candidates import BACKGROUND_EVENTS, session_context
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.nights.runs import UnitProgress
from consolidator.store.sessions import sessions

if TYPE_CHECKING:
    from consolidator.jobs.model.extraction import FactReader

SafePointFinder = Callable[[SessionRow, list[Event]], int]  # given a session and its last window
ABANDONED_HOURS = 24  # after which an open tool call is given up
_CLOSING = (EventType.TASK_END, EventType.SESSION_END)


def safe_point_finder(settings: Settings, now: datetime) -> SafePointFinder:
    """Return the function that finds a session's safe point at a time."""

    def find_session_safe_point(session: SessionRow, events: list[Event]) -> int:
        return find_safe_point(
            events,
            ended=session.status == "ended",
            last=min(session.last_occurred_at, session.last_event_at),
            now=now,
            quiet=timedelta(minutes=settings.quiet_minutes),
            abandoned=timedelta(hours=ABANDONED_HOURS),
        )

    return find_session_safe_point


def find_safe_point(
    events: Sequence[Event], *, ended: bool, last: datetime, now: datetime, quiet: timedelta, abandoned: timedelta
) -> int:
    """Return the seq up to which a session may be read tonight; 0 if nothing may be read.

    A closed task or an ended session may be read at once, anything else when nothing new came for `quiet`; never the
    middle of a tool call, unless nothing came for `abandoned`. `last` is when the last thing happened.
    """
    if not events:
        return 0
    if ended or now - last >= abandoned:
        return events[-1].seq
    last_closing = max((event.seq for event in events if event.type in _CLOSING), default=0)
    return seq_before_open_calls(events, events[-1].seq if now - last >= quiet else last_closing)


def find_window_end(events: Sequence[Event]) -> int:
    """Return the seq at which to end a window that is not the session's last: between calls, if it can."""
    end = seq_before_open_calls(events, events[-1].seq)
    return end if end >= events[0].seq else events[-1].seq


def seq_before_open_calls(events: Sequence[Event], upto: int) -> int:
    """Return the last seq before the first call that has no result by `upto`."""
    open_calls: list[tuple[str, int]] = []
    for event in events:
        if event.seq > upto:
            break
        call_id = str(event.data.get("call_id"))
        if event.type is EventType.TOOL_CALL:
            open_calls.append((call_id, event.seq))
        elif event.type is EventType.TOOL_RESULT:
            answered = next((call for call in open_calls if call[0] == call_id), None)
            if answered:
                open_calls.remove(answered)
    return open_calls[0][1] - 1 if open_calls else upto


WINDOW = 2000  # events that are read, learned from and committed at once


class WatermarkMoved(Exception):
    """Another run has moved the session's watermark since it was read: read the session again."""


@dataclass(frozen=True, slots=True)
class ReadWindow:
    """A window that a model has read of what was learned from before."""

    session: SessionRow
    after: int  # the last event that it had read before
    first: int  # the window's first event
    upto: int  # the last event that it has read now
    count: int  # events of the window up to that
    read: ReadResult


@dataclass(slots=True)
class WindowReader(ABC):
    """Has a model read sessions again, window by window, up to their watermarks."""

    database: Database
    reader: FactReader
    stop: asyncio.Event
    has_background: ClassVar[bool] = True  # whether it is shown what stands before a window
    sets_aside: ClassVar[bool] = True  # whether an event that it cannot read becomes a dead letter

    @abstractmethod
    async def find_place(self, conn: Connection, session: SessionRow) -> int | None:
        """Return the last event that it has read; None for a session that it does not read."""

    @abstractmethod
    async def save(self, conn: Connection, unit: Unit, window: ReadWindow) -> None:
        """Store what was read; raise WatermarkMoved where another run has read on."""

    async def run(self, units: Sequence[Unit]) -> None:
        """Read sessions to their watermarks. Raises Interrupted between two windows when asked to stop."""
        for unit in units:
            is_last = False
            while not is_last:
                with suppress(WatermarkMoved):
                    is_last = await self._read_window(unit)
                if not is_last and self.stop.is_set():
                    raise Interrupted("asked to stop between two windows of a session")

    async def _read_window(self, unit: Unit) -> bool:
        """Read one window; return whether it was the session's last for tonight."""
        window: list[Event] = []
        background: list[Event] = []
        async with self.database.connection() as conn:
            rows = await sessions.get_each(conn, [unit.name])
            after = await self.find_place(conn, rows[0]) if rows else None
            if after is not None and after < rows[0].consolidated_to:
                id, end, bounds = rows[0].id, rows[0].consolidated_to, rows[0].ingest_bounds
                window = await events.read(conn, id, after=after, upto=end, limit=WINDOW, bounds=bounds)
                begin = max(after - BACKGROUND_EVENTS, rows[0].pruned_to)
                if self.has_background and begin < after:
                    background = await events.read(conn, id, after=begin, upto=after, bounds=bounds)

        if after is None or not window:  # erased or pruned meanwhile
            async with self.database.transaction() as conn:
                await record_progress(conn, [unit], [unit.progress()])
            return True

        session = rows[0]
        read = await self.reader.read(session_context(session), window, background)  # no connection is held meanwhile
        upto = window[-1].seq if read.stopped_before is None else read.stopped_before - 1
        is_last = read.stopped_before is not None or upto >= session.consolidated_to

        count, read = sum(event.seq <= upto for event in window), read.limit_to(upto)
        dead = len(read.failed_events) if self.sets_aside else 0
        step = unit.progress(
            done=is_last,
            learned=len(read.sources),
            nothing=count - len(read.sources) - dead,
            dead=dead,
            deferred=session.consolidated_to - upto if is_last else 0,
        )

        async with self.database.transaction(flushed=False) as conn:
            await self.save(conn, unit, ReadWindow(session, after, window[0].seq, upto, count, read))
            await record_progress(conn, [unit], [step])
        return is_last


@dataclass(slots=True)
class SessionWindow:
    """A window, and what it taught."""

    session: SessionRow
    events: list[Event]  # that may be read
    upto: int  # where the window ends: at the safe point, if it is the session's last
    is_last: bool  # whether nothing of the session is read tonight after it
    folds: FoldStates | None  # before the window; None if another version stored them and they cannot be made again
    background: list[Event]  # the last events before the window, for a model
    read: ReadResult | None = None  # what a model read
    learned: WindowResult | None = None
    read_to: int | None = None  # the last event that the model has read, if it has not read all

    @property
    def stamped_to(self) -> int:
        """The last event that every configured extractor has learned from."""
        return self.upto if self.read_to is None else min(self.upto, max(self.read_to, self.session.consolidated_to))

    def progress(self) -> UnitProgress:
        """Return the window's counts for the ledger."""
        assert self.learned is not None
        stamped = [event.seq for event in self.events if event.seq <= self.stamped_to]
        sources = len(self.learned.sources.intersection(stamped))
        dead, stamped_dead = len(self.learned.dead), len(self.learned.dead.keys() & set(stamped))
        unread = len(self.events) - len(stamped) - (dead - stamped_dead)  # rules have learned from them
        later = self.session.head - max(self.upto, self.session.consolidated_to)
        return UnitProgress(
            "session",
            self.session.id,
            done=self.is_last,
            learned=sources,
            nothing=len(stamped) - sources - stamped_dead,
            deferred=unread + (later if self.is_last else 0),
            dead=dead,
        )


def take_together(
    rows: Sequence[SessionRow], count_events: Callable[[SessionRow], int] = lambda row: row.head - row.consolidated_to
) -> Sequence[SessionRow]:
    """Return the first sessions whose next windows together are no longer than one may be; at least one session."""
    total = 0
    for position, row in enumerate(rows):
        total += min(count_events(row), WINDOW)
        if position and total > WINDOW:
            return rows[:position]
    return rows


def find_readable_end(session: SessionRow, window: list[Event], find_safe_point: SafePointFinder) -> int:
    """Return the last seq of a window that may be read: up to the safe point, if the window is the session's last."""
    is_last = not window or window[-1].seq >= session.head
    return find_safe_point(session, window) if is_last else find_window_end(window)


async def load_background(conn: Connection, sessions: Sequence[SessionRow]) -> dict[str, list[Event]]:
    """Return the last consolidated events of sessions, by session; of those that have some that are not pruned."""
    with_past = [session for session in sessions if session.consolidated_to > session.pruned_to]
    spans = [
        events.Span(
            session.id,
            max(session.consolidated_to - BACKGROUND_EVENTS, session.pruned_to),
            session.consolidated_to,
            session.ingest_bounds,
        )
        for session in with_past
    ]
    windows = await events.read_each(conn, spans, limit=BACKGROUND_EVENTS) if spans else []
    return {session.id: window for session, window in zip(with_past, windows, strict=True)}


async def learn_windows(
    conn: Connection,
    session: SessionRow,
    folds: FoldStates,
    salt: bytes,
    *,
    after: int,
    upto: int,
    find_safe_point: SafePointFinder | None = None,
) -> AsyncIterator[WindowResult]:
    """Yield what each window of a session teaches, in order; with `find_safe_point` up to the safe point only."""
    bounds = session.ingest_bounds
    while after < upto:
        window = await events.read(conn, session.id, after=after, upto=upto, limit=WINDOW, bounds=bounds)
        if not window:
            return
        last_seq = window[-1].seq
        if find_safe_point is not None and last_seq >= upto:
            safe_point = find_safe_point(session, window)
            window = [event for event in window if event.seq <= safe_point]
        if window:
            result = await asyncio.to_thread(learning.learn_window, session_context(session), folds, window, salt)
            folds = result.folds
            yield result
        after = last_seq
