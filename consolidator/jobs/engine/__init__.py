"""Nights as workflows of DBOS, for several machines: chosen by CONSOLIDATOR_NIGHT_ENGINE, and the only room with DBOS.

`dbos_night` runs DBOS in this process while a night needs it, takes over what dead processes left, and has the night as
workflows.
"""

from __future__ import annotations

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
    return f"DBOS {metadata.version('dbos')}"


async def upgrade_schema(database: Database) -> None:
    """Make or upgrade the tables of DBOS, as the owner of the database's schema."""
    require_dbos()
    from consolidator.jobs.engine import dbos_night

    await dbos_night.upgrade_schema(database)
