"""Opens the model that a run reads with, if one is configured."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from consolidator.database import Database
from consolidator.jobs.engine import hold_model_rate
from consolidator.jobs.model.calls import ModelCalls, extraction_model
from consolidator.jobs.model.extraction import FactReader
from consolidator.settings import Settings
from consolidator.store.facts import revisions


@asynccontextmanager
async def open_model_calls(database: Database, settings: Settings, run_id: str) -> AsyncIterator[ModelCalls | None]:
    """Yield the model calls of a run; None if no model is configured."""
    if extraction_model(settings) is None:
        yield None
        return
    calls = ModelCalls(database, settings, run_id)
    try:
        async with hold_model_rate(database, settings):
            yield calls
    finally:
        await calls.close()


async def create_fact_reader(settings: Settings, calls: ModelCalls | None) -> FactReader | None:
    """Return a model that reads for facts of the current revision; None if no model is configured."""
    model = extraction_model(settings)
    if calls is None or model is None:
        return None
    async with calls.database.connection() as conn:
        return FactReader(calls, model, await revisions.get_current(conn))
