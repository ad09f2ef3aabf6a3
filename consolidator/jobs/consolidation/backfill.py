"""Consolidates sessions that a person names: learns what no night has learned yet, or derives all of it again.

The same command resumes an interrupted backfill. Deriving again never moves a stamp. A rehearsal shows what would
change, and writes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from consolidator.database import Connection, Database
from consolidator.errors import Interrupted, NotFound
from consolidator.jobs.consolidation.persistence import derive_again, lock_for_rederiving, save_memory, unpack_folds
from consolidator.jobs.consolidation.pipeline import SESSIONS, consolidate, load_memory_report, merge_agents
from consolidator.jobs.consolidation.session_window import learn_windows, safe_point_finder
from consolidator.jobs.ledger import (
    Ledger,
    SessionFilter,
    Unit,
    no_events_left,
    record_progress,
    recorded_run,
    resume_or_start_run,
    session_title,
)
from consolidator.jobs.merging.agent_merge import merge_agent
from consolidator.jobs.merging.deciding import CandidateDecider
from consolidator.jobs.merging.lesson_merge import lock_lessons
from consolidator.jobs.merging.warning_file import write_warnings
from consolidator.settings import Settings
from consolidator.store.calls import digests, scopes
from consolidator.store.memory import rederive
from consolidator.store.memory.rederive import MatchingSession, PublishedItem, load_published
from consolidator.store.nights import runs
from consolidator.store.nights.runs import UnitProgress
from consolidator.store.sessions import sessions


@dataclass(slots=True)
class Backfill:
    """A backfill of some sessions."""

    database: Database
    settings: Settings
    session_filter: SessionFilter
    stop: asyncio.Event
    started: Callable[[int], None] | None = None
    progress: Callable[[str], None] | None = None
    problems: list[str] = field(default_factory=list)  # events that cannot be read, in a rehearsal

    async def _find_sessions(self) -> list[MatchingSession]:
        async with self.database.connection() as conn:
            chosen = self.session_filter
            matching = await rederive.list_sessions(conn, **chosen.bounds(), include_learned=chosen.rederives)
        if not matching and self.session_filter.session:
            raise NotFound(f"session {self.session_filter.session} has nothing to read; --reprocess reads it again")
        return matching

    async def rehearse(self) -> dict[str, Any]:
        """Do everything in a transaction that is rolled back; return what would change, by kind."""
        matching = await self._find_sessions()
        if self.started:
            self.started(len(matching))
        now = self.database.clock.now()
        async with self.database.transaction() as conn:
            events = 0
            # Agents are locked before anything else, as in a merge; the locks are held to the end.
            agents = {*(session.memory for session in matching), *await scopes.list_agents_with_news(conn)}
            await scopes.lock_agents(conn, agents)
            before = await load_published(conn)
            salt = await digests.load_salt(conn)
            for session in matching:
                if self.stop.is_set():
                    raise Interrupted("nothing was written")
                step = await self._derive(
                    conn, session.id, salt, run_id="rehearsal", again=self.session_filter.rederives
                )
                events += step.learned + step.nothing + step.dead
                if self.progress:
                    self.progress(session_title(session.agent, session.project))
            with_news = sorted(agents.intersection(await scopes.list_agents_with_news(conn)))
            await lock_lessons(conn, with_news)
            for agent in with_news:
                await merge_agent(conn, agent, run_id="rehearsal", now=now, settings=self.settings)
                await rederive.delete_unsupported(conn, agent)
            after = await load_published(conn)
            raise psycopg.Rollback
        memory = diff_published(before, after)
        return {"sessions": len(matching), "events": events, "memory": memory, "problems": self.problems}

    async def run(self) -> dict[str, Any]:
        """Do it in the ledger, or resume an interrupted run of the same backfill; return the run's report."""
        ledger = Ledger(self.database, self.settings, "", self.stop, progress=self.progress)
        matching = await self._find_sessions()  # may raise, so before there is a run
        names = [session.id for session in matching]
        ledger.titles.update((session.id, session_title(session.agent, session.project)) for session in matching)
        await resume_or_start_run(ledger, self.session_filter.to_json())
        async with recorded_run(ledger):
            if not self.session_filter.rederives:
                report = await consolidate(ledger, only=names, started=self.started)
            else:
                report = await self._rederive(ledger, names)
        return {"run": ledger.run_id, "job": "backfill", **report}

    async def _rederive(self, ledger: Ledger, names: list[str]) -> dict[str, Any]:
        """Derive sessions again, each in a transaction, and merge their agents."""
        async with self.database.connection() as conn:
            salt = await digests.load_salt(conn)
        await ledger.add_units("session", names, phase=SESSIONS)
        if self.started:
            self.started(len(names))

        async def derive(units: list[Unit]) -> None:
            for unit in units:
                async with self.database.transaction() as conn:
                    step = unit.progress()
                    if await lock_for_rederiving(conn, unit.name):
                        step = await self._derive(conn, unit.name, salt, run_id=unit.run_id, again=True)
                    await record_progress(conn, [unit], [step])

        await ledger.run_phase(SESSIONS, derive, no_events_left)
        await merge_agents(ledger, CandidateDecider(self.database), delete_unsupported=True)
        await write_warnings(self.database, self.settings.home)
        return await ledger.finish(await load_memory_report(ledger))

    async def _derive(self, conn: Connection, name: str, salt: bytes, *, run_id: str, again: bool) -> UnitProgress:
        """Learn from a session's new events, or `again` from those up to its watermark; stamp nothing."""
        session, now = await sessions.get(conn, name), self.database.clock.now()
        is_whole = session.is_whole  # what is pruned cannot be derived again: its digest and errors are kept
        digest = self.session_filter.includes("procedures") and is_whole
        errors = self.session_filter.includes("solutions") and is_whole
        facts = self.session_filter.includes("facts")
        if again:
            results = derive_again(conn, session, salt, run_id=run_id, digest=digest, errors=errors, candidates=facts)
        else:
            stored = await digests.get_each(conn, [name])
            results = learn_windows(
                conn, session, unpack_folds(stored.get(name)), salt,
                after=session.consolidated_to, upto=session.head,
                find_safe_point=safe_point_finder(self.settings, now),
            )  # fmt: skip
        seen = learned = dead = 0
        async for result in results:
            seen += result.events
            learned += len(result.sources)
            dead += len(result.dead)
            self.problems += [f"session {name}, event {seq}: {error}" for seq, error in result.dead.items()]
            if again:
                await runs.add_dead_letters(conn, run_id, session=name, failures=result.dead, now=now)
            else:
                await save_memory(conn, [(session, result)], run_id=run_id, candidates=facts)
        return UnitProgress("session", name, done=True, learned=learned, nothing=seen - learned - dead, dead=dead)


def diff_published(
    before: dict[str, dict[str, PublishedItem]], after: dict[str, dict[str, PublishedItem]]
) -> dict[str, dict[str, list[str]]]:
    """Return the lines of what would be added, lost and changed, by kind."""
    return {
        kind: {
            "added": [item.line for id_, item in items.items() if id_ not in before[kind]],
            "lost": [item.line for id_, item in before[kind].items() if id_ not in items],
            "changed": [item.line for id_, item in items.items() if id_ in before[kind] and item != before[kind][id_]],
        }
        for kind, items in after.items()
    }
