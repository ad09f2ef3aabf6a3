"""Reads the log again with another model or prompt, as a revision of the facts.

A draft changes no fact. Once it is promoted, its candidates count wherever it has read, in place of those that other
revisions read there; these can be restored until retention deletes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import psycopg

from consolidator.database import Connection, Database
from consolidator.jobs.consolidation.pipeline import load_memory_report, merge_agents
from consolidator.jobs.consolidation.session_window import WINDOW, WatermarkMoved, read_all_windows
from consolidator.jobs.ledger import (
    Ledger,
    SessionFilter,
    Unit,
    manual_run,
    no_events_left,
    record_progress,
    resume_or_start_run,
)
from consolidator.jobs.merging.changes import Changes
from consolidator.jobs.merging.deciding import CandidateDecider, decide_by_code
from consolidator.jobs.merging.reconciling import reconcile_agent
from consolidator.jobs.model.extraction import FactReader, ReadResult, fit_chunk, open_model_calls
from consolidator.memory.facts.candidates import session_context
from consolidator.memory.facts.extraction_prompt import PROMPT_VERSION
from consolidator.memory.facts.fact_diff import BelievedFact, diff_facts
from consolidator.models.event import Event
from consolidator.models.provenance import Provenance
from consolidator.models.session import SessionRow
from consolidator.settings import Settings
from consolidator.store.calls import scopes
from consolidator.store.facts import facts, revisions
from consolidator.store.log import events
from consolidator.store.memory import rederive
from consolidator.store.nights import runs
from consolidator.store.sessions import sessions

MAX_LISTED_EVENTS = 20  # events that a unit's note names


@dataclass(slots=True)
class DraftReader:
    """Reads sessions for a draft, window by window; an interrupted one resumes after the last window it saved."""

    database: Database
    reader: FactReader
    ledger: Ledger

    async def run(self, units: list[Unit]) -> None:
        """Read sessions up to their watermarks."""
        await read_all_windows(units, self._read_window, self.ledger.stop)

    async def _read_window(self, unit: Unit) -> bool:
        """Read one window of a session; return whether it was the last one."""
        async with self.database.connection() as conn:
            existing = await sessions.get_each(conn, [unit.name])
            reach = await revisions.get_reach(conn, self.reader.revision, unit.name)
            session = existing[0] if existing else None
            window = await self._load_window(conn, session, reach) if session else []
        if session is None or not window:
            async with self.database.transaction() as conn:
                await record_progress(conn, [unit], [unit.progress()])
            return True
        read = await self.reader.read(session_context(session), window)
        upto = window[-1].seq if read.stopped_before is None else read.stopped_before - 1
        is_last = read.stopped_before is not None or upto >= session.consolidated_to
        read, count = read.limit_to(upto), sum(event.seq <= upto for event in window)
        learned, deferred = len(read.sources), session.consolidated_to - upto if is_last else 0
        progress = unit.progress(done=is_last, learned=learned, nothing=count - learned, deferred=deferred)
        async with self.database.transaction() as conn:
            if count:
                await self._save(conn, session, read, unit, reach=reach, upto=upto, after=window[0].seq - 1)
            await record_progress(conn, [unit], [progress])
        return is_last

    async def _load_window(self, conn: Connection, session: SessionRow, reach: int | None) -> list[Event]:
        after, upto = max(reach or 0, session.pruned_to), session.consolidated_to
        if after >= upto or session.simulated:
            return []
        return await events.read(conn, session.id, after=after, upto=upto, limit=WINDOW, bounds=session.ingest_bounds)

    async def _save(
        self,
        conn: Connection,
        session: SessionRow,
        read: ReadResult,
        unit: Unit,
        *,
        reach: int | None,
        upto: int,
        after: int,
    ) -> None:
        revision = self.reader.revision
        if not await revisions.advance_reach(conn, revision, session.id, after=after, before=reach, upto=upto):
            raise WatermarkMoved
        proposed = [asdict(candidate) for candidate in read.candidates]
        rejected = [facts.rejected_candidate(session, item) | {"revision": revision} for item in read.rejected]
        await facts.save_candidates(conn, proposed + rejected, run_id=unit.run_id, active=False)
        if read.failed_events:
            seqs = ", ".join(str(seq) for seq in sorted(read.failed_events)[:MAX_LISTED_EVENTS])
            await runs.set_note(
                conn, unit.run_id, unit.kind, unit.name, f"the model gave no valid answer for events {seqs}"
            )


@dataclass(slots=True)
class Reprocessing:
    """Reads sessions again with a model into a draft, and compares the draft with the current facts."""

    database: Database
    settings: Settings
    choice: SessionFilter
    model: str
    stop: asyncio.Event
    started: Callable[[int], None] | None = None
    progress: Callable[[str], None] | None = None

    async def run(self) -> dict[str, Any]:
        """Read in the ledger, resuming the same command if it was interrupted; return report and comparison."""
        choice = self.choice
        arguments = {**choice.to_json(), "prompt": PROMPT_VERSION}  # another prompt has a draft of its own
        async with self.database.transaction() as conn:
            chosen = await rederive.list_sessions(conn, **choice.bounds(), include_learned=True)
            draft = await revisions.open_draft(conn, model=self.model, choice=arguments, now=self.database.clock.now())
        ledger = Ledger(self.database, self.settings, "", self.stop, progress=self.progress)
        await resume_or_start_run(ledger, {**arguments, "model": self.model})
        if self.started:
            self.started(len(chosen))
        report = await _run_logged(ledger, self._read(ledger, [session.id for session in chosen], draft))
        return {**report, **await compare_revision(self.database, draft)}

    async def _read(self, ledger: Ledger, session_ids: list[str], draft: int) -> dict[str, Any]:
        settings = self.settings.model_copy(update={"extract_model": self.model, "batch": False})
        async with open_model_calls(self.database, settings, ledger.run_id) as calls:
            assert calls is not None
            reader = FactReader(calls, self.model, draft, fit_chunk(calls.settings, self.model))
            await ledger.add_units("draft", session_ids)
            await ledger.run_phase(0, DraftReader(self.database, reader, ledger).run, no_events_left)
            return await ledger.finish({"revision": draft, "calls": await calls.report()})


async def _run_logged(ledger: Ledger, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Await a run's work and return its report, with the run's id."""
    async with manual_run(ledger):
        return {"run": ledger.run_id, "job": "backfill", **await work}


async def compare_revision(database: Database, revision: int) -> dict[str, Any]:
    """Return which facts promoting a draft would add, lose and change; writes nothing.

    No model is asked about near duplicates, so some additions may turn out to repeat existing facts.
    """
    async with database.connection() as conn:
        row = await revisions.get(conn, revision)
    async with database.transaction() as conn:
        agents = {*await revisions.list_agents(conn, revision), *await scopes.list_agents_with_news(conn)}
        await scopes.lock_agents(conn, agents)
        before = await _list_believed(conn)
        await revisions.activate_candidates(conn, revision)
        for agent in sorted(agents.intersection(await scopes.list_agents_with_news(conn))):
            await decide_by_code(conn, agent)
            await reconcile_agent(conn, agent, Provenance("rehearsal", "run", database.clock.now()), Changes())
        after = await _list_believed(conn)
        raise psycopg.Rollback
    return {"revision": revision, "model": row.model, "status": row.status, **asdict(diff_facts(before, after))}


async def _list_believed(conn: Connection) -> list[BelievedFact]:
    return [BelievedFact(**asdict(row)) for row in await revisions.list_believed(conn)]


async def promote_revision(
    database: Database, settings: Settings, revision: int, stop: asyncio.Event
) -> dict[str, Any]:
    """Promote a draft and merge what changed; return the run's report."""
    async with database.transaction() as conn:
        await revisions.promote(conn, revision, database.clock.now())
    return await _merge_in_run(database, settings, stop, {"promoted": revision})


async def restore_revision(database: Database, settings: Settings, stop: asyncio.Event) -> dict[str, Any]:
    """Undo the last promotion and merge what changed; return the run's report."""
    since = database.clock.now() - timedelta(days=settings.retention_days)
    async with database.transaction() as conn:
        restored = await revisions.restore(conn, since=since)
    return await _merge_in_run(database, settings, stop, {"restored": restored})


async def _merge_in_run(
    database: Database, settings: Settings, stop: asyncio.Event, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Merge what changed in a run of its own; if it is killed, the next night merges the rest."""
    ledger = Ledger(database, settings, "", stop)
    await resume_or_start_run(ledger, arguments)
    return await _run_logged(ledger, _merge(ledger, arguments))


async def _merge(ledger: Ledger, arguments: dict[str, Any]) -> dict[str, Any]:
    settings = ledger.settings
    async with open_model_calls(ledger.database, settings, ledger.run_id) as calls:
        await merge_agents(ledger, CandidateDecider(ledger.database, calls))
        report = await load_memory_report(ledger)
        if calls:
            report["model"] = await calls.report()
    return await ledger.finish({**arguments, **report})
