"""Runs a night: each session with new events is read, learned from and stamped, then each agent with news is merged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from consolidator.jobs.consolidation.persistence import derive_outdated_errors, settle_waiting
from consolidator.jobs.consolidation.session_worker import LearnPool, SessionWorker, count_processes
from consolidator.jobs.indexing import indexer
from consolidator.jobs.indexing.embeddings import embed_missing
from consolidator.jobs.ledger import Ledger, Unit, Work, record_progress
from consolidator.jobs.merging.agent_merge import merge_agent
from consolidator.jobs.merging.deciding import CandidateDecider
from consolidator.jobs.merging.warning_file import write_warnings
from consolidator.llm.choice import ModelChoice, choose_model
from consolidator.memory.solutions.fingerprint import VERSION
from consolidator.store.calls import digests, scopes
from consolidator.store.log import seals
from consolidator.store.memory import derived
from consolidator.store.nights import model_calls, runs
from consolidator.store.sessions import projects, sessions
from consolidator.telemetry import open_span

if TYPE_CHECKING:  # what asks a model is loaded where there is one
    from consolidator.jobs.consolidation.late_extraction import ReadAhead
    from consolidator.jobs.model.calls import ModelCalls
    from consolidator.jobs.model.extraction import FactReader

_LEARNED_WITHOUT = "What rules find is learned; what waits for the model is read by the next run that reaches it"
# Phases of a run, as its claims store them; the last two run first.
SESSIONS, MERGES, LATE_EXTRACTION, READ_AHEAD = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a night: its units are independent of each other, and rest on those of the phases before."""

    number: int
    name: str
    add_units: Callable[[], Coroutine[Any, Any, int]]  # returns how many units are to be done
    work: Work


@dataclass(slots=True)
class Night:
    """One replica's part in a night: what begins it, its phases, and what ends it; an engine calls each in turn.

    Each may be called again, here or in another replica, if a process died in it.
    """

    ledger: Ledger
    calls: ModelCalls | None
    reader: FactReader | None
    choice: ModelChoice
    salt: bytes
    only: list[str] | None = None
    new_events: int = 0  # of the sessions that are due, once it has begun

    async def begin(self) -> None:
        """Add the sessions that are due to the run, and settle what does not wait for a model any more."""
        database = self.ledger.database
        due = self.only
        if due is None:
            async with database.connection() as conn:
                waiting = await sessions.list_due(conn)
            due, self.new_events = [row.id for row in waiting], sum(row.events for row in waiting)
        await self.ledger.add_units("session", due, phase=SESSIONS)
        self.ledger.started(len(due))
        # Even if batches were switched off since: those submitted are paid for.
        if self.choice.source == "configured" and not self.choice.is_agent:
            from consolidator.jobs.model.batches import ModelBatches

            async with aclosing(ModelBatches(database, self.ledger.settings)) as batches:
                await batches.collect()
        if self.reader is None:
            await settle_waiting(database, self.ledger.run_id, self.only)

    def list_phases(self) -> list[Phase]:
        """Return the phases in their order, the same for every replica."""
        ledger = self.ledger
        database, settings = ledger.database, ledger.settings
        phases = []
        worker = self.create_worker()
        decider = CandidateDecider(database, self.calls)
        if self.reader is not None:
            from consolidator.jobs.consolidation.late_extraction import LateExtraction, ReadAhead

            if not self.reader.calls.settings.batch:  # in batches each question is about one session
                ahead = ReadAhead(database, settings, ledger.stop, self.reader, self.only, ledger.titles)
                phases.append(Phase(READ_AHEAD, "read_ahead", partial(self._add_read_ahead, ahead), ahead.run))
            late = LateExtraction(database, self.reader, ledger.stop)
            phases.append(Phase(LATE_EXTRACTION, "late_extraction", self._add_late_extraction, late.run))
        ledger.count_unlearned = worker.count_unlearned
        phases.append(Phase(SESSIONS, "sessions", self._count_sessions, worker.run))
        return [*phases, _merge_phase(ledger, decider)]

    def create_worker(self) -> SessionWorker:
        """Return what learns from sessions."""
        ledger = self.ledger
        return SessionWorker(ledger.database, ledger.settings, self.salt, ledger.stop, self.reader, ledger.titles)

    async def finish(self) -> dict[str, Any]:
        """End the run and return its report."""
        ledger, calls = self.ledger, self.calls
        database, settings = ledger.database, ledger.settings
        report = await load_memory_report(ledger)
        await write_warnings(database, settings.home)

        if calls and calls.settings.batch:
            from consolidator.jobs.model.batches import ModelBatches

            async with aclosing(ModelBatches(database, calls.settings)) as batches:
                await batches.submit()
                calls.failure = calls.failure or batches.failure
        with open_span("phase", "phase embed"):
            embedded = await embed_missing(database, settings, ledger.stop, run_id=ledger.run_id)
        if embedded is not None:
            report["vectors"] = embedded

        async with database.transaction() as conn:  # of the chains of the sessions that were learned from
            seal = await seals.seal(conn, ledger.run_id, database.clock.now())
        names = {"number": seal.number, "sessions": seal.sessions, "root": seal.root.hex()} if seal else None
        report["seal"] = names

        chosen = self.choice.description
        report["model"] = {"name": calls.model, "chosen": chosen, **await calls.report()} if calls else chosen
        if calls is None:
            async with database.connection() as conn:
                report["foreign"] = await runs.count_foreign(conn, ledger.run_id)

        failure = calls.failure if calls else None
        if failure is None:  # why the run, over all replicas, got nothing from a model that it asked
            async with database.connection() as conn:
                failure = await model_calls.find_outage(conn, ledger.run_id)
        if failure is None:
            return await ledger.finish(report)
        message = f"the model could not be asked: {failure}. {_LEARNED_WITHOUT}"
        return {**await ledger.finish(report, status="failed", error=message), "error": message}

    async def _add_read_ahead(self, ahead: ReadAhead) -> int:
        """Have the model read small sessions of one scope together."""
        units = await ahead.list_units()
        await self.ledger.add_units("shared_question", units, phase=READ_AHEAD)
        return len(units)

    async def _add_late_extraction(self) -> int:
        """Have the model read what was consolidated before there was one."""
        async with self.ledger.database.connection() as conn:
            late = await model_calls.list_unread_sessions(conn)
        if self.only is not None:
            late = [session for session in late if session in set(self.only)]
        await self.ledger.add_units("late_extraction", late, phase=LATE_EXTRACTION)
        return len(late)

    async def _count_sessions(self) -> int:
        """Return how many sessions are to be done; `begin` has added them."""
        async with self.ledger.database.connection() as conn:
            return await runs.count_unfinished(conn, self.ledger.run_id, phase=SESSIONS)


@asynccontextmanager
async def open_night(ledger: Ledger, *, only: list[str] | None = None) -> AsyncIterator[Night]:
    """Yield this replica's part in a run's night, with the model that it reads with, if one is configured."""
    async with ledger.database.connection() as conn:
        salt = await digests.load_salt(conn)
    choice = await asyncio.to_thread(choose_model, ledger.settings)
    if choice.name is None:
        yield Night(ledger, None, None, choice, salt, only)
        return
    from consolidator.jobs.model.extraction import create_fact_reader, open_model_calls

    async with open_model_calls(ledger.database, ledger.settings, ledger.run_id, choice, ledger.stop) as calls:
        reader = await create_fact_reader(calls)
        yield Night(ledger, calls, reader, choice, salt, only)


async def consolidate(ledger: Ledger, *, only: list[str] | None = None) -> dict[str, Any]:
    """Consolidate every due session (or `only` some) in a run, with its replicas; return the run's report.

    Raises Interrupted when the ledger is asked to stop: the current unit is finished or given back.
    """
    if ledger.settings.night_engine == "dbos" and only is None:
        from consolidator.jobs.engine import require_dbos

        require_dbos()
        from consolidator.jobs.engine.dbos_night import run_night

        return await run_night(ledger)
    async with open_night(ledger, only=only) as night:
        await night.begin()
        for phase in night.list_phases():
            if phase.number == SESSIONS and night.reader is None:  # with one, what takes long is to wait for a model
                processes = count_processes(ledger.settings, night.new_events)
                await _run_phase(ledger, phase, night.create_worker(), processes)
            else:
                await _run_phase(ledger, phase)
        return await night.finish()


async def _run_phase(ledger: Ledger, phase: Phase, learner: SessionWorker | None = None, processes: int = 1) -> None:
    """Add the units of a phase, and share them with the run's other replicas by claims.

    With `processes` a `learner` does the work in so many of them.
    """
    units = await phase.add_units()
    with open_span("phase", f"phase {phase.name}", {"consolidator.units": units}):
        if learner is None or processes == 1:
            await ledger.run_phase(phase.number, phase.work)
            return
        async with aclosing(LearnPool(learner)) as pool:
            await ledger.run_phase(phase.number, pool.run, workers=processes)


async def merge_agents(ledger: Ledger, decider: CandidateDecider, *, delete_unsupported: bool = False) -> None:
    """Merge every agent with news, in the ledger; with `delete_unsupported` also delete what nothing supports."""
    await _run_phase(ledger, _merge_phase(ledger, decider, delete_unsupported=delete_unsupported))


def _merge_phase(ledger: Ledger, decider: CandidateDecider, *, delete_unsupported: bool = False) -> Phase:
    async def add_units() -> int:
        async with ledger.database.transaction() as conn:
            if memories := await projects.list_strayed_memories(conn):
                await scopes.lock_agents(conn, memories)
                await projects.unite(conn)
            agents = await scopes.list_agents_with_news(
                conn, include_undecided=decider.calls is not None, fingerprint_version=VERSION
            )
        await ledger.add_units("merge", agents, phase=MERGES, reopen=True)
        return len(agents)

    async def merge(units: list[Unit]) -> None:
        for unit in units:
            agent, run_id, now = unit.name, unit.run_id, ledger.database.clock.now()
            await decider.decide_agent(agent)
            async with ledger.database.transaction() as conn:
                await derive_outdated_errors(conn, agent, run_id=run_id)
                changes = await merge_agent(conn, agent, run_id=run_id, now=now, settings=ledger.settings)
                if delete_unsupported:
                    changes.add("facts or solutions", "retired", await derived.delete_unsupported(conn, agent))
                    await indexer.index_facts(conn, agent)
                await record_progress(conn, [unit], [unit.progress()])
                await runs.set_note(conn, run_id, unit.kind, agent, changes.summarize() or None)

    return Phase(MERGES, "merge", add_units, merge)


async def load_memory_report(ledger: Ledger) -> dict[str, Any]:
    """Return what the run added and changed, by agent, as a part of its report."""
    async with ledger.database.connection() as conn:
        return {"memory": await runs.list_notes(conn, ledger.run_id, "merge")}
