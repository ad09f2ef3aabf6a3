"""The database as front ends see it: open it, describe it, verify its invariants, rebuild recall's index."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from consolidator.database import Database, open_database, partitions, upgrade
from consolidator.jobs.indexing.reindex import Reindexing
from consolidator.settings import Settings
from consolidator.store import checks

__all__ = ["Database", "describe_database", "load_schema_revision", "open_database", "reindex", "verify_database"]


async def load_schema_revision(database: Database) -> str:
    """Return the revision of the database's schema."""
    return str(await upgrade.get_revision(database.dsn))


async def describe_database(database: Database, settings: Settings) -> dict[str, str]:
    """Return where the database is, its version and its sizes, as text by name."""
    described = {"kind": "embedded" if database.server else "given by CONSOLIDATOR_DATABASE_URL"}
    if database.server:
        described |= {"home": str(settings.home), **database.server.info()}
    async with database.connection() as conn:
        described["schema revision"] = await load_schema_revision(database)
        described["partitions"] = str(len(await partitions.list_attached(conn)))
        return described | asdict(await checks.get_sizes(conn))


async def verify_database(database: Database) -> dict[str, list[str]]:
    """Return the first violations of each invariant, by its name; the schema has to match this version, too."""
    async with database.connection() as conn:
        violations = await checks.find_violations(conn)
    return violations | {"schema matches this version": await upgrade.find_drift(database.dsn)}


async def reindex(
    database: Database,
    settings: Settings,
    stop: asyncio.Event,
    *,
    vectors: bool,
    started: Callable[[int], None] | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Rebuild recall's index; with `vectors`, recompute all vectors. Return the run's report."""
    return await Reindexing(database, settings, vectors, stop, started=started, progress=progress).run()
