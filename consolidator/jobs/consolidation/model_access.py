"""Opens the model that a run reads with, if there is one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from consolidator.database import Database
from consolidator.jobs.engine import hold_model_rate
from consolidator.jobs.model.calls import ModelCalls
from consolidator.jobs.model.extraction import FactReader, fit_chunk
from consolidator.llm.choice import ModelChoice, choose_model
from consolidator.settings import Settings
from consolidator.store.facts import revisions


@asynccontextmanager
async def open_model_calls(
    database: Database, settings: Settings, run_id: str, choice: ModelChoice | None = None
) -> AsyncIterator[ModelCalls | None]:
    """Yield the model calls of a run, of the model that is chosen unless `choice` says which; None if there is none."""
    if choice is None:
        choice = await asyncio.to_thread(choose_model, settings)
    if choice.name is None:
        yield None
        return
    calls = ModelCalls(database, settings, run_id, choice=choice)
    try:
        async with hold_model_rate(database, settings):
            yield calls
    finally:
        await calls.close()


async def create_fact_reader(calls: ModelCalls | None) -> FactReader | None:
    """Return a model that reads for facts of the current revision; None if there is no model."""
    if calls is None or calls.model is None:
        return None
    async with calls.database.connection() as conn:
        revision = await revisions.get_current(conn)
    return FactReader(calls, calls.model, fit_chunk(calls.settings, calls.model), revision)
