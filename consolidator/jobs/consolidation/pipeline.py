"""Runs a night: each session with new events is read, learned from and stamped, then each agent with news is merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from consolidator.jobs.consolidation.late_extraction import LateExtraction, settle_waiting
from consolidator.jobs.consolidation.model_access import create_fact_reader, open_model_calls
from consolidator.jobs.consolidation.outdated_errors import derive_outdated_errors
from consolidator.jobs.consolidation.session_worker import SessionWorker
from consolidator.jobs.indexing import indexer
from consolidator.jobs.indexing.embeddings import embed_missing
from consolidator.jobs.ledger import Ledger, Unit, no_events_left, record_progress
from consolidator.jobs.merging.agent_merge import merge_agent
from consolidator.jobs.merging.deciding import CandidateDecider
from consolidator.jobs.model.batches import open_batches
from consolidator.jobs.model.calls import extraction_model
from consolidator.jobs.model.extraction import FactReader
from consolidator.memory.solutions.fingerprint import VERSION
from consolidator.settings import Settings
from consolidator.store.log import seals, sessions
from consolidator.store.memory import digests, rederive, scopes
from consolidator.store.nights import extraction, model_calls, runs
from consolidator.telemetry import open_span

_LEARNED_WITHOUT = "What rules find is learned; what waits for the model is read by the next run that reaches it"
SESSIONS, MERGES, LATE_EXTRACTION = 0, 1, 2  # phases of a run, as its claims store them; late extraction runs first


async def consolidate(
    ledger: Ledger, *, only: list[str] | None = None, started: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Consolidate every due session (or `only` some) in a run, with its replicas; return the run's report.

    Raises Interrupted when the ledger is asked to stop: the current unit is finished or given back.
    """
    database, settings = ledger.database, ledger.settings
    async with database.connection() as conn:
        due = [session.id for session in await sessions.list_due(conn)] if only is None else only
        salt = await digests.load_salt(conn)
    await ledger.add_units("session", due, phase=SESSIONS)
    if started:
        started(len(due))
    if extraction_model(settings):  # even if batches were switched off since: those that were submitted are paid for
        async with open_batches(database, settings) as batches:
            await batches.collect()
    async with open_model_calls(database, settings, ledger.run_id) as calls:
        reader = await create_fact_reader(settings, calls)
        if reader is None:
            await settle_waiting(database, ledger.run_id, only)
        else:
            await _extract_late(ledger, reader, only)
        worker = SessionWorker(database, settings, salt, ledger.stop, reader, ledger.titles)
        with open_span("phase", "phase sessions", {"consolidator.units": len(due)}):
            await ledger.run_phase(SESSIONS, worker.run, worker.count_unlearned)
        await merge_agents(ledger, CandidateDecider(database, calls, settings.model or extraction_model(settings)))
        report = await load_memory_report(ledger)
        if settings.batch and calls:
            async with open_batches(database, settings) as batches:
                await batches.submit()
                calls.failure = calls.failure or batches.failure
        with open_span("phase", "phase embed"):
            embedded = await embed_missing(database, settings, ledger.stop, run_id=ledger.run_id)
        if embedded is not None:
            report["vectors"] = embedded
        report["seal"] = await _seal(ledger)
        report["model"] = {"name": extraction_model(settings), **await calls.report()} if calls else "none: rules only"
        failure = (calls.failure if calls else None) or await _find_outage(ledger)
    if failure is None:
        return await ledger.finish(report)
    message = f"the model could not be asked: {failure}. {_LEARNED_WITHOUT}"
    return {**await ledger.finish(report, status="failed", error=message), "error": message}


async def _find_outage(ledger: Ledger) -> str | None:
    """Return why the run, over all replicas, got nothing from a model that it asked; None if it did get some."""
    async with ledger.database.connection() as conn:
        return await model_calls.find_outage(conn, ledger.run_id)


async def _seal(ledger: Ledger) -> dict[str, Any] | None:
    """Seal the chains of the sessions that were learned from; return the seal, None if there was nothing new."""
    async with ledger.database.transaction() as conn:
        seal = await seals.seal(conn, run_id=ledger.run_id, now=ledger.database.clock.now())
    return None if seal is None else {"number": seal.number, "sessions": seal.sessions, "root": seal.root.hex()}


async def _extract_late(ledger: Ledger, reader: FactReader, only: list[str] | None) -> None:
    """Have the model read what was consolidated before there was one."""
    async with ledger.database.connection() as conn:
        late = await extraction.list_unread_sessions(conn)
    if only is not None:
        late = [session for session in late if session in set(only)]
    await ledger.add_units("late_extraction", late, phase=LATE_EXTRACTION)
    worker = LateExtraction(ledger.database, reader, ledger.stop)
    with open_span("phase", "phase late_extraction", {"consolidator.units": len(late)}):
        await ledger.run_phase(LATE_EXTRACTION, worker.run, no_events_left)


async def merge_agents(ledger: Ledger, decider: CandidateDecider, *, delete_unsupported: bool = False) -> None:
    """Merge every agent with news, in the ledger."""
    async with ledger.database.connection() as conn:
        agents = await scopes.list_agents_with_news(
            conn, include_undecided=decider.calls is not None, fingerprint_version=VERSION
        )
    await ledger.add_units("merge", agents, phase=MERGES, reopen=True)

    async def merge(units: list[Unit]) -> None:
        for unit in units:
            await _merge_unit(decider, ledger.settings, unit, delete_unsupported=delete_unsupported)

    with open_span("phase", "phase merge", {"consolidator.units": len(agents)}):
        await ledger.run_phase(MERGES, merge, no_events_left)


async def _merge_unit(decider: CandidateDecider, settings: Settings, unit: Unit, *, delete_unsupported: bool) -> None:
    """Merge one agent in a transaction; with `delete_unsupported` also delete what nothing supports any more."""
    database, agent = decider.database, unit.name
    await decider.decide_agent(agent)
    async with database.transaction() as conn:
        await derive_outdated_errors(conn, agent, run_id=unit.run_id)
        changes = await merge_agent(conn, agent, run_id=unit.run_id, now=database.clock.now(), settings=settings)
        if delete_unsupported:
            changes.add_retired("facts or solutions", await rederive.delete_unsupported(conn, agent))
            await indexer.index_facts(conn, agent)
        await record_progress(conn, [unit], [unit.progress()])
        await runs.set_note(conn, unit.run_id, unit.kind, unit.name, changes.summarize() or None)


async def load_memory_report(ledger: Ledger) -> dict[str, Any]:
    """Return what the run added and changed, by agent, as a part of its report."""
    async with ledger.database.connection() as conn:
        return {"memory": await runs.list_notes(conn, ledger.run_id, "merge")}
