"""Builds recall's index anew from the turns and facts that are kept: session by session, in the ledger, resumable.

Nights may go on beside it, and recall finds what is back already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from consolidator.database import Connection, Database
from consolidator.errors import Interrupted
from consolidator.jobs.indexing.embeddings import embed_missing
from consolidator.jobs.indexing.indexer import restore_facts, restore_turns
from consolidator.jobs.ledger import Ledger, Unit, by_hand, record
from consolidator.settings import Settings
from consolidator.store.memory import digests
from consolidator.store.nights import runs
from consolidator.store.queries import Row
from consolidator.store.search import index

JOB = "reindex"
FACTS, TURNS = 0, 1  # phases


@dataclass(slots=True)
class Reindexing:
    """One rebuilding of the index; with `vectors`, these are made anew, too, else only those that are missing."""

    database: Database
    settings: Settings
    vectors: bool
    stop: asyncio.Event
    started: Callable[[int], None] | None = None
    progress: Callable[[str], None] | None = None

    async def run(self) -> dict[str, Any]:
        """Empty the index and fill it, or go on where the same was cut short; raise Interrupted when asked to stop."""
        ledger = Ledger(self.database, self.settings, "", self.stop, progress=self.progress)
        ledger.run, units = await self._begun(ledger)
        if self.started:
            self.started(units)
        async with by_hand(ledger):
            await ledger.begin([], phase=FACTS)
            await ledger.work(FACTS, self._facts, _nothing_to_bury)
            await ledger.work(TURNS, self._turns, _nothing_to_bury)
            made = await embed_missing(self.database, self.settings, self.stop, run=ledger.run)
            if self.stop.is_set():
                raise Interrupted("the words are back, some vectors are missing: the next night makes them")
            async with self.database.connection() as conn:
                report = await index.total(conn)
            done = await ledger.end(report if made is None else {**report, "vectors": made})
        return {"run": ledger.run, "job": JOB, **done}

    async def _begun(self, ledger: Ledger) -> tuple[str, int]:
        """Return the run that was cut short, or a new one with an empty index; and how many units it has left."""
        now, arguments = self.database.clock.now(), {"vectors": self.vectors}
        async with self.database.transaction() as conn:
            run = await runs.unfinished(conn, job=JOB, arguments=arguments)
            if run is None:
                await index.clear(conn, vectors=self.vectors)  # first: it waits for nights that are just writing
                run = await self._new(ledger, conn, arguments)
            await runs.resume(conn, run["id"], owner=ledger.owner, now=now)
            return run["id"], sum([await runs.waiting(conn, run["id"], phase=phase) for phase in (FACTS, TURNS)])

    async def _new(self, ledger: Ledger, conn: Connection, arguments: dict[str, Any]) -> Row:
        now = slot = self.database.clock.now()
        owner, run = ledger.owner, None
        while run is None or run["owner"] != owner:  # somebody else has this moment
            run = await runs.start(
                conn, job=JOB, slot=slot, trigger="manual", owner=owner, now=now, arguments=arguments
            )
            slot += timedelta(microseconds=1)
        await runs.begin_anew(conn, run["id"], job=JOB, now=now)
        facts = [f"facts:{agent}" for agent in await index.agents(conn)]
        await runs.add_units(conn, run["id"], facts, phase=FACTS)
        await runs.add_units(conn, run["id"], await index.sessions(conn), phase=TURNS)
        return run

    async def _facts(self, units: Sequence[Unit]) -> None:
        for unit in units:
            agent = unit.name.removeprefix("facts:")
            async with self.database.transaction() as conn:
                await digests.lock_agent(conn, agent)
                await restore_facts(conn, agent)
                await record(conn, [unit], [runs.UnitProgress(unit.name, done=True)])

    async def _turns(self, units: Sequence[Unit]) -> None:
        for unit in units:
            async with self.database.transaction(flushed=False) as conn:
                await restore_turns(conn, unit.name)
                await record(conn, [unit], [runs.UnitProgress(unit.name, done=True)])


async def _nothing_to_bury(_unit: str) -> int:
    return 0
