"""Runs a night: each session with new events is read, learned from and stamped, then each agent with news is merged."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from consolidator.database import Database
from consolidator.jobs.consolidation.deciding import Deciding
from consolidator.jobs.consolidation.late_extraction import LateReading
from consolidator.jobs.consolidation.merging import merge_agent
from consolidator.jobs.consolidation.session_window import SessionWork
from consolidator.jobs.consolidation.units import nothing_to_bury
from consolidator.jobs.indexing import indexer
from consolidator.jobs.indexing.embeddings import embed_missing
from consolidator.jobs.ledger import Ledger, Unit, record_progress
from consolidator.jobs.model.batches import batches_of
from consolidator.jobs.model.calls import Calls, model_of
from consolidator.jobs.model.extraction import Extraction
from consolidator.settings import Settings
from consolidator.store.log import sessions
from consolidator.store.memory import digests, rederive, revisions
from consolidator.store.nights import extraction, runs

log = logging.getLogger("consolidator.jobs")
SESSIONS, MERGES, LATE = 0, 1, 2  # phases; what came before the model is read before the rest


async def consolidate(
    ledger: Ledger, *, only: list[str] | None = None, started: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Consolidate every due session (or `only` some) in a run, with its replicas; return the run's report.

    Raises Interrupted when the ledger is asked to stop: the unit in hand is finished or handed back.
    """
    database, settings = ledger.database, ledger.settings
    async with database.connection() as conn:
        found = [session.id for session in await sessions.due(conn)] if only is None else only
        salt = await digests.salt(conn)
    await ledger.add_units(found, phase=SESSIONS)
    if started:
        started(len(found))
    if model_of(settings):  # also where batches were switched off since: what is out is paid
        async with batches_of(database, settings) as batches:
            await batches.collect()
    async with calls_of(database, settings, ledger.run_id) as calls:
        reader = await reader_of(settings, calls)
        if reader is not None:
            await _read_late(ledger, reader, only)
        unit_work = SessionWork(database, settings, salt, ledger.stop, reader)
        await ledger.run_phase(SESSIONS, unit_work.run, unit_work.bury)
        await merge_news(ledger, Deciding(database, calls, settings.model or model_of(settings)))
        report = await report_of(database, ledger.run_id)
        if settings.batch and calls:
            async with batches_of(database, settings) as batches:
                await batches.submit()
        if (made := await embed_missing(database, settings, ledger.stop, run=ledger.run_id)) is not None:
            report["vectors"] = made
        report["model"] = {"name": model_of(settings), **await calls.report()} if calls else "none: rules only"
    return await ledger.finish(report)


@asynccontextmanager
async def calls_of(database: Database, settings: Settings, run: str) -> AsyncIterator[Calls | None]:
    """Yield a run's calls of models; None where no model is configured."""
    if model_of(settings) is None:
        yield None
        return
    calls = Calls(database, settings, run)
    try:
        yield calls
    finally:
        await calls.close()


async def reader_of(settings: Settings, calls: Calls | None) -> Extraction | None:
    """Return the model that reads for facts of the current revision, where there is one."""
    model = model_of(settings)
    if calls is None or model is None:
        return None
    async with calls.database.connection() as conn:
        return Extraction(calls, model, settings.chunk_tokens, await revisions.current(conn))


async def _read_late(ledger: Ledger, reader: Extraction, only: list[str] | None) -> None:
    """Have the model read what was learned from before there was one; stamps do not move."""
    async with ledger.database.connection() as conn:
        found = await extraction.late(conn)
    chosen = found if only is None else [one for one in found if one in set(only)]
    await ledger.add_units([f"model:{one}" for one in chosen], phase=LATE)
    work = LateReading(ledger.database, reader, ledger.stop)
    await ledger.run_phase(LATE, work.run, nothing_to_bury)


async def merge_news(ledger: Ledger, decider: Deciding, *, sweep: bool = False) -> None:
    """Merge every agent with news, in the ledger."""
    async with ledger.database.connection() as conn:
        agents = await digests.agents_with_news(conn, undecided_too=decider.calls is not None)
    await ledger.add_units([f"merge:{agent}" for agent in agents], phase=MERGES, reopen=True)
    await ledger.run_phase(
        MERGES, lambda units: _merge_unit(decider, ledger.settings, units, sweep=sweep), nothing_to_bury
    )


async def _merge_unit(decider: Deciding, settings: Settings, units: Sequence[Unit], *, sweep: bool) -> None:
    """Merge one agent, or a few, each in a transaction of its own; `sweep` away what nothing supports any more."""
    database = decider.database
    for unit in units:
        agent = unit.name.removeprefix("merge:")
        await decider.agent(agent)
        async with database.transaction() as conn:
            changes = await merge_agent(conn, agent, run_id=unit.run, now=database.clock.now(), settings=settings)
            if sweep:
                changes.gone("facts or solutions", await rederive.sweep(conn, agent))
                await indexer.index_facts(conn, agent)
            await record_progress(conn, [unit], [runs.UnitProgress(unit.name, done=True)])
            await runs.set_note(conn, unit.run, unit.name, changes.line() or None)


async def report_of(database: Database, run_id: str) -> dict[str, Any]:
    """Return what the run added and changed, for the ledger."""
    async with database.connection() as conn:
        told = await runs.list_notes(conn, run_id)
    return {"memory": {unit.removeprefix("merge:"): note for unit, note in told.items()}}
