"""Works on a session's unit: reads its next events up to the safe point, learns, commits; window by window."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from consolidator.database import Connection, Database
from consolidator.errors import Interrupted
from consolidator.jobs.consolidation import learning
from consolidator.jobs.consolidation.learning import Folded, WindowResult, bounds_of, context_of
from consolidator.jobs.consolidation.persistence import commit, folded_of
from consolidator.jobs.consolidation.units import WINDOW, WatermarkMoved
from consolidator.jobs.gather import gather
from consolidator.jobs.ledger import Unit, record_progress
from consolidator.jobs.model.extraction import BACKGROUND, Extraction, Read
from consolidator.memory.procedures.digest import VERSION
from consolidator.models.event import Event
from consolidator.settings import Settings
from consolidator.store.log import events, sessions
from consolidator.store.memory import digests
from consolidator.store.nights import runs
from consolidator.store.queries import Row

SafePoint = Callable[[Row, list[Event]], int]


@dataclass(slots=True)
class SessionWork:
    """How a session's unit is worked on."""

    database: Database
    settings: Settings
    salt: bytes
    stop: asyncio.Event
    reader: Extraction | None = None

    async def run(self, units: list[Unit]) -> None:
        """Read sessions window by window up to their safe points; the windows of a few sessions commit together."""
        waiting = units
        while waiting:
            with suppress(WatermarkMoved):
                done = await self._windows(waiting)
                waiting = [unit for unit in waiting if unit.name not in done]
            if waiting and self.stop.is_set():
                raise Interrupted("asked to stop between two windows of a session")

    async def bury(self, session: str) -> int:
        """Return how many events a session that is given up leaves unlearned."""
        async with self.database.connection() as conn:
            return sum(found["head"] - found["consolidated_to"] for found in await sessions.get_each(conn, [session]))

    async def _windows(self, units: Sequence[Unit]) -> set[str]:
        """Do one window of each session; return the sessions that are done."""
        now = self.database.clock.now()
        windows = await self._read(units, now)
        if self.reader is not None:  # no connection is held while a model is asked
            await gather(*(self._extract(self.reader, window) for window in windows))
        await asyncio.to_thread(self._learn, windows)
        steps = [window.step() for window in windows]
        read = {step.unit for step in steps}
        steps += [
            runs.UnitProgress(unit.name, done=True) for unit in units if unit.name not in read
        ]  # erased meanwhile
        async with self.database.transaction(flushed=False) as conn:  # the run's end is flushed, and this with it
            await commit(conn, [window for window in windows if window.readable], run_id=units[0].run, now=now)
            await record_progress(conn, units, steps)
        return {step.unit for step in steps if step.done}

    async def _read(self, units: Sequence[Unit], now: datetime) -> list[SessionWindow]:
        """Read the next events of some sessions, and how far they may be read."""
        async with self.database.connection() as conn:
            found = await sessions.get_each(conn, [unit.name for unit in units])
            share = WINDOW // len(units)
            spans = [events.Span(s["id"], s["consolidated_to"], s["head"], bounds_of(s)) for s in found]
            read = await events.read_each(conn, spans, limit=share)
            stored = await digests.digests(conn, [session["id"] for session in found])
            folds = [await self._folded(conn, session, stored.get(session["id"])) for session in found]
            before = {} if self.reader is None else await background(conn, found)
        found_windows = []
        safe = safe_point(self.settings, now)
        for session, window, folded in zip(found, read, folds, strict=True):
            last = not window or window[-1].seq >= session["head"]
            upto = safe(session, window) if last else learning.window_end(window)
            readable = [event for event in window if event.seq <= upto]
            found_windows.append(SessionWindow(session, readable, upto, last, folded, before.get(session["id"], [])))
        return found_windows

    async def _extract(self, reader: Extraction, window: SessionWindow) -> None:
        """Have a model read a window; what it cannot read tonight is left for another night."""
        session = window.session
        if session["simulated"] or not window.readable:
            return
        if max(session["extracted_to"], session["pruned_to"]) < session["consolidated_to"]:
            window.cut(session["consolidated_to"])  # what came before it could not be read
            return
        read = await reader.read(context_of(session), window.readable, window.before)
        if read.stopped_before is not None:
            window.cut(read.stopped_before - 1)
        window.read = read.upto(window.upto)

    async def _folded(self, conn: Connection, session: Row, stored: Row | None) -> Folded | None:
        """Return a session's folds; made anew where another version stored them, None where that cannot be."""
        if stored is None or stored["version"] == VERSION:
            return folded_of(stored)
        if session["pruned_to"]:
            return None
        folded = Folded()
        async for learned in windows(conn, session, folded, self.salt, after=0, upto=session["consolidated_to"]):
            folded = learned.folded
        return folded

    def _learn(self, windows: Sequence[SessionWindow]) -> None:
        for window in windows:
            folded = window.folded or Folded()
            window.learned = learning.learn(context_of(window.session), folded, window.readable, self.salt)
            if window.folded is None:  # its beginning is gone: the digest of the older version stays as it is
                window.learned.folded = Folded()
            if window.read is not None:
                window.learned.add_read(window.read)


@dataclass(slots=True)
class SessionWindow:
    """The next events of a session, and what they taught."""

    session: Row
    readable: list[Event]
    upto: int  # the safe point, or where the window ends
    last: bool  # whether nothing is left of the session after it
    folded: Folded | None
    before: list[Event]  # of what was read earlier
    read: Read | None = None  # by a model
    learned: WindowResult | None = None

    def cut(self, upto: int) -> None:
        """End the window earlier, between calls; the rest is left for another night."""
        self.upto = learning.before_open_calls(self.readable, upto)
        self.readable = [event for event in self.readable if event.seq <= self.upto]
        self.last = True

    def step(self) -> runs.UnitProgress:
        """Return what it comes to in the ledger."""
        assert self.learned is not None
        took, dead = len(self.learned.sources), len(self.learned.dead)
        left = self.session["head"] - max(self.upto, self.session["consolidated_to"])
        return runs.UnitProgress(
            self.session["id"],
            done=self.last,
            learned=took,
            nothing=len(self.readable) - took - dead,
            deferred=left if self.last else 0,
            dead=dead,
        )


async def background(conn: Connection, found: Sequence[Row]) -> dict[str, list[Event]]:
    """Return the last events of some sessions that were read earlier, by session."""
    known = [s for s in found if s["consolidated_to"] > s["pruned_to"]]
    spans = [
        events.Span(s["id"], max(s["consolidated_to"] - BACKGROUND, s["pruned_to"]), s["consolidated_to"], bounds_of(s))
        for s in known
    ]
    read = await events.read_each(conn, spans, limit=BACKGROUND) if spans else []
    return {session["id"]: window for session, window in zip(known, read, strict=True)}


async def windows(
    conn: Connection, session: Row, folded: Folded, salt: bytes, *, after: int, upto: int, safe: SafePoint | None = None
) -> AsyncIterator[WindowResult]:
    """Yield what each window of a session teaches, one fold after another; to its `safe` point where that is asked."""
    bounds = bounds_of(session)
    while after < upto:
        window = await events.read(conn, session["id"], after=after, upto=upto, limit=WINDOW, bounds=bounds)
        if not window:
            return
        last = window[-1].seq
        if safe is not None and last >= upto:
            window = [event for event in window if event.seq <= safe(session, window)]
        if window:
            learned = await asyncio.to_thread(learning.learn, context_of(session), folded, window, salt)
            folded = learned.folded
            yield learned
        after = last


def safe_point(settings: Settings, now: datetime) -> SafePoint:
    """Return the function that says how far a session may be read now, given its last window."""

    def of(session: Row, window: list[Event]) -> int:
        return learning.safe_point(
            window,
            ended=session["status"] == "ended",
            last=min(session["last_occurred_at"], session["last_event_at"]),
            now=now,
            quiet=timedelta(minutes=settings.quiet_minutes),
            abandoned=timedelta(hours=settings.abandoned_hours),
        )

    return of
