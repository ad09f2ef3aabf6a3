"""Consolidates sessions that a person names: learns what no night has learned yet, or derives all of it again.

It also learns again from events that were set aside as dead letters, or discards them.
The same command resumes an interrupted backfill. Deriving again never moves a stamp. A rehearsal shows what would
change, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from consolidator.database import Connection, Database
from consolidator.errors import Interrupted, NotFound
from consolidator.jobs.consolidation.learning import FoldStates, ReadResult
from consolidator.jobs.consolidation.persistence import (
    derive_again,
    lock_for_rederiving,
    save_extracted,
    save_memory,
    unpack_folds,
)
from consolidator.jobs.consolidation.pipeline import SESSIONS, consolidate, load_memory_report, merge_agents
from consolidator.jobs.consolidation.session_window import learn_windows, safe_point_finder
from consolidator.jobs.ledger import (
    BackfillFilter,
    JobContext,
    Ledger,
    Unit,
    record_progress,
    recorded_run,
    resume_or_start_run,
    session_title,
)
from consolidator.jobs.merging.agent_merge import lock_lessons, merge_agent
from consolidator.jobs.merging.deciding import CandidateDecider
from consolidator.jobs.merging.warning_file import write_warnings
from consolidator.jobs.model.extraction import FactReader, create_fact_reader, open_model_calls
from consolidator.memory.facts.candidates import session_context
from consolidator.models.session import SessionRow
from consolidator.settings import Settings
from consolidator.store.calls import digests, scopes
from consolidator.store.log import events
from consolidator.store.memory import derived
from consolidator.store.memory.derived import MatchingSession, PublishedItem, load_published
from consolidator.store.nights import runs
from consolidator.store.nights.runs import UnitProgress
from consolidator.store.sessions import sessions


@dataclass(slots=True)
class Backfill(JobContext):
    """A backfill of some sessions."""

    session_filter: BackfillFilter = field(default_factory=BackfillFilter)
    problems: list[str] = field(default_factory=list)  # events that cannot be read, in a rehearsal

    async def _find_sessions(self) -> list[MatchingSession]:
        async with self.database.connection() as conn:
            chosen = self.session_filter
            matching = await derived.list_sessions(conn, **chosen.bounds(), include_learned=chosen.rederives)
        if not matching and self.session_filter.session:
            raise NotFound(f"session {self.session_filter.session} has nothing to read; --reprocess reads it again")
        return matching

    async def rehearse(self) -> dict[str, Any]:
        """Do everything in a transaction that is rolled back; return what would change, by kind."""
        matching = await self._find_sessions()
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
                self.progress(session_title(session.agent, session.project))

            with_news = sorted(agents.intersection(await scopes.list_agents_with_news(conn)))
            await lock_lessons(conn, with_news)
            for agent in with_news:
                await merge_agent(conn, agent, run_id="rehearsal", now=now, settings=self.settings)
                await derived.delete_unsupported(conn, agent)

            after = await load_published(conn)
            raise psycopg.Rollback
        memory = diff_published(before, after)
        return {"sessions": len(matching), "events": events, "memory": memory, "problems": self.problems}

    async def run(self) -> dict[str, Any]:
        """Do it in the ledger, or resume an interrupted run of the same backfill; return the run's report."""
        ledger = self.become(Ledger)
        matching = await self._find_sessions()  # may raise, so before there is a run
        names = [session.id for session in matching]
        ledger.titles.update((session.id, session_title(session.agent, session.project)) for session in matching)
        await resume_or_start_run(ledger, self.session_filter.to_json())
        async with recorded_run(ledger):
            if not self.session_filter.rederives:
                report = await consolidate(ledger, only=names)
            else:
                report = await self._rederive(ledger, names)
        return {"run": ledger.run_id, "job": "backfill", **report}

    async def _rederive(self, ledger: Ledger, names: list[str]) -> dict[str, Any]:
        """Derive sessions again, each in a transaction, and merge their agents."""
        async with self.database.connection() as conn:
            salt = await digests.load_salt(conn)
        await ledger.add_units("session", names, phase=SESSIONS)
        self.started(len(names))

        async def derive(units: list[Unit]) -> None:
            for unit in units:
                async with self.database.transaction() as conn:
                    step = unit.progress()
                    if await lock_for_rederiving(conn, unit.name):
                        step = await self._derive(conn, unit.name, salt, run_id=unit.run_id, again=True)
                    await record_progress(conn, [unit], [step])

        await ledger.run_phase(SESSIONS, derive)
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


async def retry_dead_letters(
    database: Database, settings: Settings, *, run_or_letter_id: str | None = None, discard: bool = False
) -> dict[str, Any]:
    """Learn again from dead letters, or discard them; return how many were settled and how many remain.

    `run_or_letter_id` names a letter, or a run with its letters; raises NotFound if it is neither.
    """
    async with database.connection() as conn:
        await _check_id(conn, run_or_letter_id)
        names = await runs.list_sessions_with_dead_letters(conn, run_or_letter_id)
        salt = await digests.load_salt(conn)
    if not names:
        return {"settled": 0, "remaining": 0}
    ledger = Ledger(database, settings)
    await resume_or_start_run(ledger, {"word": run_or_letter_id, "discard": discard}, job="retry")
    async with recorded_run(ledger):
        await ledger.add_units("session", names, phase=SESSIONS)
        async with open_model_calls(database, settings, ledger.run_id) as calls:
            reader = None if discard else await create_fact_reader(calls)

            async def retry(units: list[Unit]) -> None:
                for unit in units:
                    await _retry_session(database, unit, reader, salt, run_or_letter_id, discard=discard)

            await ledger.run_phase(SESSIONS, retry)
        await merge_agents(ledger, CandidateDecider(database), delete_unsupported=True)
        async with database.connection() as conn:
            sums = await runs.sum_units(conn, ledger.run_id)
        report = {"settled": sums.seen - sums.dead, "remaining": sums.dead}
        await ledger.finish(report)
        return report


async def _check_id(conn: Connection, run_or_letter_id: str | None) -> None:
    """Raise NotFound for an id that is neither a dead letter's, settled or not, nor a run's."""
    if run_or_letter_id is None or await runs.list_dead_letters(
        conn, run_or_letter_id=run_or_letter_id, include_settled=True, limit=1
    ):
        return
    try:
        await runs.get(conn, run_or_letter_id)
    except NotFound:
        raise NotFound(
            f"no dead letter and no run is called {run_or_letter_id!r}; `consolidator runs` lists the runs"
        ) from None


async def _retry_session(
    database: Database,
    unit: Unit,
    reader: FactReader | None,
    salt: bytes,
    run_or_letter_id: str | None,
    *,
    discard: bool,
) -> None:
    """Settle those dead letters of a session whose events can be read now."""
    session, now = unit.name, database.clock.now()
    async with database.connection() as conn:
        letters = await runs.list_dead_letters(conn, run_or_letter_id=run_or_letter_id, session=session, limit=None)
    seqs = [letter.seq for letter in letters]
    # What a model could not read, it reads again.
    of_model = [letter.seq for letter in letters if letter.extractor == "model" and reader is not None]
    reread = {} if reader is None else await reread_events(database, reader, session, of_model)
    async with database.transaction() as conn:
        readable, sources = seqs, set[int]()
        if not discard:
            readable, sources = await _learn_again(conn, session, seqs, salt, run_id=unit.run_id)
        readable = [seq for seq in readable if seq not in of_model or seq in reread]
        if reread:
            sources |= {seq for _, result in reread.values() for seq in result.sources}
            await save_extracted(conn, list(reread.values()), run_id=unit.run_id)
        settlement = "discarded" if discard else "retried"
        await runs.settle_dead_letters(conn, session, readable, settlement, now)
        learned = len(sources.intersection(readable))
        step = unit.progress(learned=learned, nothing=len(readable) - learned, dead=len(seqs) - len(readable))
        await record_progress(conn, [unit], [step])
        await derived.stamp_events(conn, session, seqs=readable, run_id=unit.run_id, now=now)


async def _learn_again(
    conn: Connection, name: str, seqs: list[int], salt: bytes, *, run_id: str
) -> tuple[list[int], set[int]]:
    """Derive a session again, with the events that were set aside.

    Return those of them that can be read now, and all events of the session that something was learned from. If the
    session's beginning is pruned, its folds cannot be made again: then only the facts of these events are stored.
    """
    if not await lock_for_rederiving(conn, name):
        return [], set()
    session = await sessions.get(conn, name)
    if session.is_whole:
        results = [result async for result in derive_again(conn, session, salt, run_id=run_id)]
    else:
        results = []
        for seq in seqs:
            async for result in learn_windows(conn, session, FoldStates(), salt, after=seq - 1, upto=seq):
                await save_memory(conn, [(session, result)], run_id=run_id, digest=False, errors=False)
                results.append(result)
    dead = {seq for result in results for seq in result.dead}
    return [seq for seq in seqs if seq not in dead], {seq for result in results for seq in result.sources}


async def reread_events(
    database: Database, reader: FactReader, name: str, seqs: Sequence[int]
) -> dict[int, tuple[SessionRow, ReadResult]]:
    """Have a model read single events of a session again, each by itself; return what it read, by the event's seq."""
    results = {}
    for seq in seqs:
        async with database.connection() as conn:
            rows = await sessions.get_each(conn, [name])
            if not rows:
                continue
            event = await events.read(conn, name, after=seq - 1, upto=seq, limit=1, bounds=rows[0].ingest_bounds)
        if event:
            read = await reader.read(session_context(rows[0]), event)
            if not read.failed_events and read.stopped_before is None:
                results[seq] = (rows[0], read)
    return results
