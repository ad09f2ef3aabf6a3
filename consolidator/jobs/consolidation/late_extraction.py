"""Has a model read what was learned from before it was configured: facts are added, stamps stay where they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from consolidator.database import Connection, Database
from consolidator.errors import Interrupted
from consolidator.jobs.consolidation.learning import bounds_of, context_of
from consolidator.jobs.ledger import Unit, record
from consolidator.jobs.model.extraction import Extraction, Read
from consolidator.models.event import Event
from consolidator.store.log import events, sessions
from consolidator.store.memory import facts
from consolidator.store.nights import extraction, runs
from consolidator.store.queries import Row

WINDOW = 2000  # events read at once


class Moved(Exception):
    """Another run has read the session since: look again."""


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
                with suppress(Moved):
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
                await record(conn, [unit], [runs.UnitProgress(unit.name, done=True)])
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
            await record(conn, [unit], [step])
        return last

    async def _commit(self, conn: Connection, session: Row, upto: int, read: Read, unit: Unit) -> None:
        if not await extraction.advance(conn, [(session["id"], session["extracted_to"], upto)]):
            raise Moved
        await save_read(conn, [(session, read)], run_id=unit.run)
        for seq, told in read.dead.items():
            extractor, _, error = told.partition(": ")
            now = self.database.clock.now()
            await runs.dead_letter(
                conn, unit.run, session=session["id"], seq=seq, extractor=extractor, error=error, now=now
            )


async def save_read(conn: Connection, read: Sequence[tuple[Row, Read]], *, run_id: str) -> None:
    """Store what a model read in sessions, but for those that were erased since."""
    there = await sessions.keep(conn, [session["id"] for session, _ in read])
    read = [(session, one) for session, one in read if session["id"] in there]
    proposed = [asdict(candidate) for _, one in read for candidate in one.candidates]
    refused = [facts.refused(session, rejected) for session, one in read for rejected in one.rejected]
    await facts.save_candidates(conn, proposed + refused, run_id=run_id)


@dataclass(frozen=True, slots=True)
class Reread:
    """What a model read in single events that had been set aside."""

    taken: list[tuple[Row, Read]]
    fine: set[int]  # the events it could read


async def reread(database: Database, reader: Extraction, name: str, seqs: Sequence[int]) -> Reread:
    """Have a model read single events of a session again, each by itself."""
    taken: list[tuple[Row, Read]] = []
    fine: set[int] = set()
    for seq in seqs:
        async with database.connection() as conn:
            found = await sessions.get_each(conn, [name])
            bounds = bounds_of(found[0]) if found else None
            event = await events.read(conn, name, after=seq - 1, upto=seq, limit=1, bounds=bounds) if bounds else []
        if event:
            read = await reader.read(context_of(found[0]), event)
            if not read.dead and read.stopped_before is None:
                taken.append((found[0], read))
                fine.add(seq)
    return Reread(taken, fine)
