"""Has a model read what was learned from before it was configured: facts are added, stamps stay where they are."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from consolidator.database import Connection, Database
from consolidator.errors import Interrupted
from consolidator.jobs.consolidation.learning import bounds_of, context_of
from consolidator.jobs.consolidation.persistence import save_read
from consolidator.jobs.consolidation.units import WINDOW, WatermarkMoved
from consolidator.jobs.ledger import Unit, record_progress
from consolidator.jobs.model.extraction import Extraction, Read
from consolidator.models.event import Event
from consolidator.store.log import events, sessions
from consolidator.store.nights import extraction, runs
from consolidator.store.queries import Row


@dataclass(slots=True)
class LateReading:
    """How a session that lags behind its stamps is worked on."""

    database: Database
    reader: Extraction
    stop: asyncio.Event

    async def run(self, units: list[Unit]) -> None:
        """Read sessions window by window up to their stamps."""
        for unit in units:
            done = False
            while not done:
                with suppress(WatermarkMoved):
                    done = await self._window(unit)
                if not done and self.stop.is_set():
                    raise Interrupted("asked to stop between two windows of a session")

    async def _window(self, unit: Unit) -> bool:
        """Read one window; tell whether it was the session's last for tonight."""
        name = unit.name.removeprefix("model:")
        async with self.database.connection() as conn:
            found = await sessions.get_each(conn, [name])
            session = found[0] if found else None
            after = max(session["extracted_to"], session["pruned_to"]) if session else 0
            window: list[Event] = []
            if session and after < session["consolidated_to"]:
                upto, bounds = session["consolidated_to"], bounds_of(session)
                window = await events.read(conn, name, after=after, upto=upto, limit=WINDOW, bounds=bounds)
        if session is None or not window:  # erased or pruned meanwhile
            async with self.database.transaction() as conn:
                await record_progress(conn, [unit], [runs.UnitProgress(unit.name, done=True)])
            return True
        read = await self.reader.read(context_of(session), window)
        stopped = read.stopped_before
        upto = window[-1].seq if stopped is None else stopped - 1
        last = stopped is not None or upto >= session["consolidated_to"]
        taken = [event for event in window if event.seq <= upto]
        read = read.upto(upto)
        step = runs.UnitProgress(
            unit.name,
            done=last,
            learned=len(read.sources),
            nothing=len(taken) - len(read.sources) - len(read.dead),
            dead=len(read.dead),
            deferred=session["consolidated_to"] - upto if last else 0,
        )
        async with self.database.transaction(flushed=False) as conn:
            await self._commit(conn, session, max(upto, after), read, unit)
            await record_progress(conn, [unit], [step])
        return last

    async def _commit(self, conn: Connection, session: Row, upto: int, read: Read, unit: Unit) -> None:
        if not await extraction.advance(conn, [(session["id"], session["extracted_to"], upto)]):
            raise WatermarkMoved
        await save_read(conn, [(session, read)], run_id=unit.run)
        for seq, told in read.dead.items():
            extractor, _, error = told.partition(": ")
            now = self.database.clock.now()
            await runs.add_dead_letter(
                conn, unit.run, session=session["id"], seq=seq, extractor=extractor, error=error, now=now
            )
