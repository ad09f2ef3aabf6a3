"""Consolidation by hand: of what the nights have not read yet, or deriving again what they have; resumable.

Deriving again never moves a stamp, shows what would be different, and replaces only when told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from consolidator.database import Connection, Database
from consolidator.errors import Interrupted, NotFound
from consolidator.jobs.consolidation.deciding import Deciding
from consolidator.jobs.consolidation.learning import Folded
from consolidator.jobs.consolidation.manual_run import Choice, begin
from consolidator.jobs.consolidation.merging import merge_agent
from consolidator.jobs.consolidation.persistence import _held, folded_of, save_memory
from consolidator.jobs.consolidation.pipeline import SESSIONS, consolidate, merge_news, report_of
from consolidator.jobs.consolidation.session_window import safe_point, windows
from consolidator.jobs.consolidation.units import nothing_to_bury
from consolidator.jobs.ledger import Ledger, Unit, manual_run, record_progress
from consolidator.settings import Settings
from consolidator.store.log import sessions
from consolidator.store.memory import digests, rederive
from consolidator.store.nights import runs
from consolidator.store.queries import Row


@dataclass(slots=True)
class Backfill:
    """A backfill of some sessions."""

    database: Database
    settings: Settings
    choice: Choice
    stop: asyncio.Event
    started: Callable[[int], None] | None = None
    progress: Callable[[str], None] | None = None

    async def _chosen(self) -> list[Row]:
        async with self.database.connection() as conn:
            found = await rederive.chosen(
                conn,
                session=self.choice.session,
                agent=self.choice.agent,
                since=self.choice.since,
                until=self.choice.until,
                learned_too=self.choice.again,
            )
        if not found and self.choice.session:
            raise NotFound(f"session {self.choice.session} has nothing to read; --reprocess reads it again")
        return found

    async def rehearse(self) -> dict[str, Any]:
        """Do everything in a transaction that is rolled back; return what would be learned, by agent."""
        found = await self._chosen()
        if self.started:
            self.started(len(found))
        now = self.database.clock.now()
        async with self.database.transaction() as conn:
            read = 0
            # First, as a merge does: what is derived here is locked to the end.
            agents = {*(one["agent"] for one in found), *await digests.agents_with_news(conn)}
            await digests.lock_agents(conn, agents)
            before = await digests.published(conn)
            salt = await digests.salt(conn)
            for one in found:
                if self.stop.is_set():
                    raise Interrupted("nothing was written")
                step = await self._derive(conn, one["id"], salt, run_id="rehearsal", forget=self.choice.again)
                read += step.learned + step.nothing + step.dead
                if self.progress:
                    self.progress(one["id"])
            for agent in sorted(agents.intersection(await digests.agents_with_news(conn))):
                await merge_agent(conn, agent, run_id="rehearsal", now=now, settings=self.settings)
                await rederive.sweep(conn, agent)
            after = await digests.published(conn)
            raise psycopg.Rollback
        return {"sessions": len(found), "events": read, "memory": difference(before, after)}

    async def run(self) -> dict[str, Any]:
        """Do it in the ledger, going on where the same backfill was cut short."""
        ledger = Ledger(self.database, self.settings, "", self.stop, progress=self.progress)
        found = [one["id"] for one in await self._chosen()]  # before there is a run that could be left open
        await begin(ledger, self.choice.as_json())
        async with manual_run(ledger):
            if not self.choice.again:
                report = await consolidate(ledger, only=found, started=self.started)
            else:
                report = await self._again(ledger, found)
        return {"run": ledger.run_id, "job": "backfill", **report}

    async def _again(self, ledger: Ledger, found: list[str]) -> dict[str, Any]:
        """Derive again, session by session, and merge."""
        async with self.database.connection() as conn:
            salt = await digests.salt(conn)
        await ledger.add_units(found, phase=SESSIONS)
        if self.started:
            self.started(len(found))

        async def work(units: list[Unit]) -> None:
            for unit in units:
                async with self.database.transaction() as conn:
                    step = runs.UnitProgress(unit.name, done=True)
                    if await _held(conn, unit.name):
                        step = await self._derive(conn, unit.name, salt, run_id=unit.run_id, forget=True)
                    await record_progress(conn, [unit], [step])

        await ledger.run_phase(SESSIONS, work, nothing_to_bury)
        await merge_news(ledger, Deciding(self.database), sweep=True)
        return await ledger.finish(await report_of(self.database, ledger.run_id))

    async def _derive(
        self, conn: Connection, name: str, salt: bytes, *, run_id: str, forget: bool
    ) -> runs.UnitProgress:
        """Fold a session's events, from the beginning if what was derived is to be forgotten; stamp nothing."""
        session = await sessions.get(conn, name)
        pruned = session["pruned_to"]
        whole = pruned == 0  # what is gone cannot be derived again: then its digest and errors stay
        digest = self.choice.wants("procedures") and whole
        errors = self.choice.wants("solutions") and whole
        facts = self.choice.wants("facts")
        folded = Folded() if forget else folded_of(await digests.digest(conn, name))
        after = pruned if forget else session["consolidated_to"]
        upto = session["consolidated_to"] if forget else session["head"]
        if forget:
            await rederive.forget(conn, name, after=pruned, digest=digest, errors=errors, candidates=facts)
        safe = None if forget else safe_point(self.settings, self.database.clock.now())
        seen = took = dead = 0
        async for learned in windows(conn, session, folded, salt, after=after, upto=upto, safe=safe):
            seen, took, dead = seen + learned.events, took + len(learned.sources), dead + len(learned.dead)
            await save_memory(
                conn, [(session, learned)], run_id=run_id,
                digest=digest or not forget, errors=errors or not forget, candidates=facts,
            )  # fmt: skip
        return runs.UnitProgress(name, done=True, learned=took, nothing=seen - took - dead, dead=dead)


def difference(before: dict[str, dict[str, Row]], after: dict[str, dict[str, Row]]) -> dict[str, dict[str, list[str]]]:
    """Return the lines of what would be added, lost and changed, by kind."""
    told: dict[str, dict[str, list[str]]] = {}
    for kind, now in after.items():
        was = before[kind]
        told[kind] = {
            "added": [now[one]["line"] for one in now if one not in was],
            "lost": [was[one]["line"] for one in was if one not in now],
            "changed": [now[one]["line"] for one in now if one in was and now[one] != was[one]],
        }
    return told
