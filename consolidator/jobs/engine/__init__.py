"""Nights as workflows of DBOS, for several machines: chosen by CONSOLIDATOR_NIGHT_ENGINE, and the only room with DBOS.

`dbos_process` runs DBOS in this process while a run needs it, takes over what dead processes left, and lets model calls
begin at one rate over all processes; `dbos_night` is the night as workflows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING

from consolidator.errors import UsageError
from consolidator.settings import Settings

if TYPE_CHECKING:
    from consolidator.database import Database


def require_dbos() -> None:
    """Raise UsageError if DBOS is not installed."""
    if find_spec("dbos") is None:
        raise UsageError("CONSOLIDATOR_NIGHT_ENGINE=dbos needs DBOS: pip install 'consolidator[dbos]'")


def describe_engine(settings: Settings) -> str:
    """Return what shares nights between processes. Raises UsageError if that is DBOS and it is not installed."""
    if settings.night_engine == "claims":
        return "claims, built in"
    require_dbos()
    rate = settings.model_calls_per_minute
    limit = "no limit of model calls" if rate is None else f"{rate} model calls a minute"
    return f"DBOS {metadata.version('dbos')}, {limit}"


@asynccontextmanager
async def hold_model_rate(database: Database, settings: Settings) -> AsyncIterator[None]:
    """Hold the rate of model calls, if there is one and nobody around this holds it already, such as a night."""
    from consolidator.jobs.model.calls import BEFORE_CALL

    if settings.model_calls_per_minute is None or BEFORE_CALL.get() is not None:
        yield
        return
    require_dbos()
    from consolidator.jobs.engine.dbos_process import limited_run

    async with limited_run(database, settings):
        yield


async def upgrade_schema(database: Database) -> None:
    """Make or upgrade the tables of DBOS, as the owner of the database's schema."""
    require_dbos()
    from consolidator.jobs.engine import dbos_process

    await dbos_process.upgrade_schema(database)
