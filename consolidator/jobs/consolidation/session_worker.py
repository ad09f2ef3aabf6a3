"""Works on sessions: reads their next events up to the safe point, learns, and commits, window by window."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from consolidator.database import Connection, Database
from consolidator.errors import Interrupted
from consolidator.jobs.consolidation import learning, session_window
from consolidator.jobs.consolidation.learning import FoldStates
from consolidator.jobs.consolidation.persistence import commit_windows, unpack_folds
from consolidator.jobs.consolidation.session_window import (
    SessionWindow,
    WatermarkMoved,
    learn_windows,
    load_background,
    safe_point_finder,
)
from consolidator.jobs.gather import gather
from consolidator.jobs.ledger import Unit, session_title
from consolidator.jobs.model.extraction import FactReader
from consolidator.memory.facts.candidates import session_context
from consolidator.memory.procedures.digest import DIGEST_VERSION
from consolidator.models.digest import DigestRow
from consolidator.models.session import SessionRow
from consolidator.settings import Settings
from consolidator.store.calls import digests
from consolidator.store.log import events
from consolidator.store.sessions import sessions


@dataclass(slots=True)
class SessionWorker:
    """Consolidates sessions; without a `reader`, by rules alone."""

    database: Database
    settings: Settings
    salt: bytes
    stop: asyncio.Event
    reader: FactReader | None = None
    titles: dict[str, str] = field(default_factory=dict)  # gets what people call each session, by its id

    async def run(self, units: list[Unit]) -> None:
        """Consolidate sessions up to their safe points; one window of each of some of them is committed together."""
        waiting = units
        while waiting:
            with suppress(WatermarkMoved):
                done = await self._do_windows(waiting)
                waiting = [unit for unit in waiting if unit.name not in done]
            if waiting and self.stop.is_set():
                raise Interrupted("asked to stop between two windows of a session")

    async def count_unlearned(self, session: str) -> int:
        """Return how many events of a session wait to be learned from."""
        async with self.database.connection() as conn:
            return sum(row.head - row.consolidated_to for row in await sessions.get_each(conn, [session]))

    async def _do_windows(self, units: Sequence[Unit]) -> set[str]:
        """Read, learn and commit one window of each of the first sessions; return the sessions that are done."""
        now = self.database.clock.now()
        units, windows = await self._read_windows(units, now)
        if self.reader is not None:  # no connection is held while a model is asked
            await gather(*(self._extract(self.reader, window) for window in windows))
        await asyncio.to_thread(self._learn, windows)
        for row in (window.session for window in windows):
            self.titles[row.id] = session_title(row.agent, row.project)
        steps = [window.progress() for window in windows]
        existing = {step.unit for step in steps}
        steps += [unit.progress() for unit in units if unit.name not in existing]  # erased since they were added
        async with self.database.transaction(flushed=False) as conn:  # flushed with the end of the run
            read = [window for window in windows if window.events]
            await commit_windows(conn, read, units=units, steps=steps, now=now)
        return {step.unit for step in steps if step.done}

    async def _read_windows(self, units: Sequence[Unit], now: datetime) -> tuple[Sequence[Unit], list[SessionWindow]]:
        """Return the units to work on now, and the windows of those that still exist.

        Where a window ends does not depend on the other units: a model's answers are stored by what it was shown.
        """
        async with self.database.connection() as conn:
            existing = await sessions.get_each(conn, [unit.name for unit in units])
            rows = session_window.take_together(existing)
            later = {row.id for row in existing[len(rows) :]}
            spans = [events.Span(row.id, row.consolidated_to, row.head, row.ingest_bounds) for row in rows]
            next_events = await events.read_each(conn, spans, limit=session_window.WINDOW)
            stored = await digests.get_each(conn, [row.id for row in rows])
            folds = [await self._load_folds(conn, row, stored.get(row.id)) for row in rows]
            background = {} if self.reader is None else await load_background(conn, rows)
        windows = []
        find_safe_point = safe_point_finder(self.settings, now)
        for row, window, state in zip(rows, next_events, folds, strict=True):
            is_last = not window or window[-1].seq >= row.head
            upto = session_window.find_readable_end(row, window, find_safe_point)
            readable = [event for event in window if event.seq <= upto]
            windows.append(SessionWindow(row, readable, upto, is_last, state, background.get(row.id, [])))
        return [unit for unit in units if unit.name not in later], windows

    async def _extract(self, reader: FactReader, window: SessionWindow) -> None:
        """Have a model read a window; rules learn tonight also from what it can read only another night."""
        session = window.session
        if session.simulated or not window.events:
            return
        if max(session.extracted_to, session.pruned_to) < session.consolidated_to:
            window.read_to = session.consolidated_to  # the model has to read the events before the window first
            return
        read = await reader.read(session_context(session), window.events, window.background)
        if read.stopped_before is not None:
            window.read_to = read.stopped_before - 1
        window.read = read.limit_to(window.stamped_to)

    async def _load_folds(self, conn: Connection, session: SessionRow, row: DigestRow | None) -> FoldStates | None:
        """Return a session's folds, made again if another version stored them; None if that cannot be done."""
        if row is None or row.version == DIGEST_VERSION:
            return unpack_folds(row)
        if not session.is_whole:
            return None
        folds = FoldStates()
        async for result in learn_windows(conn, session, folds, self.salt, after=0, upto=session.consolidated_to):
            folds = result.folds
        return folds

    def _learn(self, windows: Sequence[SessionWindow]) -> None:
        for window in windows:
            folds = window.folds or FoldStates()
            result = learning.learn_window(session_context(window.session), folds, window.events, self.salt)
            if window.folds is None:  # its beginning is pruned: the digest of the older version stays as it is
                result.folds = FoldStates()
            if window.read is not None:
                result.add_read(window.read)
            window.learned = result
