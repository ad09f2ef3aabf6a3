"""Has a model read small sessions together ahead of a night, and what nights consolidated without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from consolidator.database import Connection, Database
from consolidator.errors import Interrupted
from consolidator.jobs.consolidation import session_window
from consolidator.jobs.consolidation.persistence import save_extracted, stamp_waiting
from consolidator.jobs.consolidation.session_window import (
    ReadWindow,
    WatermarkMoved,
    WindowReader,
    find_readable_end,
    load_background,
    safe_point_finder,
    take_together,
)
from consolidator.jobs.ledger import Unit, record_progress
from consolidator.jobs.model.extraction import FactReader, SharedReader
from consolidator.memory.facts.candidates import session_context
from consolidator.models.event import Event
from consolidator.models.session import SessionRow
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.nights import model_calls, runs
from consolidator.store.sessions import sessions


class LateExtraction(WindowReader):
    """Has a model read sessions from where it stopped (`extracted_to`) up to their watermark (`consolidated_to`)."""

    async def find_place(self, conn: Connection, session: SessionRow) -> int:
        """Return the last event that the model has read."""
        return max(session.extracted_to, session.pruned_to)

    async def save(self, conn: Connection, unit: Unit, window: ReadWindow) -> None:
        """Store what was read, and stamp what waited for it."""
        session, read, upto = window.session, window.read, max(window.upto, window.after)
        if not await model_calls.advance_watermarks(conn, [(session.id, session.extracted_to, upto)]):
            raise WatermarkMoved
        await save_extracted(conn, [(session, read)], run_id=unit.run_id)
        now = self.database.clock.now()
        await runs.add_dead_letters(conn, unit.run_id, session=session.id, failures=read.failed_events, now=now)
        if session.awaits_model:
            await stamp_waiting(conn, session, upto=upto, run_id=unit.run_id, now=now)
            await model_calls.finish_waiting(conn, session.id)


MAX_SESSIONS = 64  # of one unit


@dataclass(slots=True)
class ReadAhead:
    """Asks about the sessions that are due, or `only` some, in units named by the first of them."""

    database: Database
    settings: Settings
    stop: asyncio.Event
    reader: FactReader
    only: Sequence[str] | None = None
    titles: dict[str, str] = field(default_factory=dict)  # gets what people call each unit
    _members: Mapping[str, Sequence[str]] = field(default_factory=dict)  # sessions by unit

    async def list_units(self) -> list[str]:
        """Return the units, as they are now."""
        async with self.database.connection() as conn:
            late = await model_calls.list_unread_sessions(conn)
            due = [session.id for session in await sessions.list_due(conn)]
            ids = set(late + due) if self.only is None else set(self.only).intersection(late + due)
            self._members = await model_calls.list_shareable(conn, sorted(ids), size=MAX_SESSIONS)
        self.titles |= {first: f"{len(ids)} sessions together" for first, ids in self._members.items()}
        return list(self._members)

    async def run(self, units: list[Unit]) -> None:
        """Ask about the sessions of each unit; where it is not the same any more, they are left to their own units."""
        if any(unit.name not in self._members for unit in units):  # another replica has added it
            await self.list_units()
        for unit in units:
            await self._ask_about(self._members.get(unit.name, ()))
            async with self.database.transaction() as conn:
                await record_progress(conn, [unit], [unit.progress()])

    async def _ask_about(self, session_ids: Sequence[str]) -> None:
        shared = SharedReader(self.reader)
        waiting = list(session_ids)
        while waiting:
            if self.stop.is_set():
                raise Interrupted("asked to stop before a question about several sessions")
            async with self.database.connection() as conn:
                existing = await sessions.get_each(conn, waiting)
                rows = take_together(existing, lambda row: len(range(*_unread(row))))
                windows = await self._read_windows(conn, rows)
            for row, window, background in windows:
                await shared.add(session_context(row), window, background)
            waiting = [row.id for row in existing[len(rows) :]]
        await shared.ask()

    async def _read_windows(
        self, conn: Connection, rows: Sequence[SessionRow]
    ) -> list[tuple[SessionRow, list[Event], list[Event]]]:
        """Return what a model will be shown of sessions when they are consolidated, and what stands before it."""
        spans = [events.Span(row.id, *_unread(row), row.ingest_bounds) for row in rows]
        next_events = await events.read_each(conn, spans, limit=session_window.WINDOW)
        background = await load_background(conn, [row for row in rows if not _is_late(row)])
        find_safe_point = safe_point_finder(self.settings, self.database.clock.now())
        windows = []
        for row, window in zip(rows, next_events, strict=True):
            upto = row.consolidated_to if _is_late(row) else find_readable_end(row, window, find_safe_point)
            readable = [event for event in window if event.seq <= upto]
            windows.append((row, readable, background.get(row.id, [])))
        return windows


def _is_late(row: SessionRow) -> bool:
    """Tell whether rules have learned from events that the model has to read first."""
    return max(row.extracted_to, row.pruned_to) < row.consolidated_to


def _unread(row: SessionRow) -> tuple[int, int]:
    """Return between which seqs the events are that a model reads next."""
    return (row.pruned_to, row.consolidated_to) if _is_late(row) else (row.consolidated_to, row.head)
