"""The database as front ends see it: open it, describe it, verify its invariants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from consolidator.database import Database as Database
from consolidator.database import open_database as open_database
from consolidator.database import partitions, schema, security_releases, upgrade
from consolidator.database.schema import describe_columns as describe_columns
from consolidator.errors import UsageError
from consolidator.jobs import engine
from consolidator.settings import Settings
from consolidator.store import checks

_ROLES = {
    "owner": "owner: triggers protect the log, and whoever has this address may switch them off (docs/database.md)",
    "writer": "writer: grants protect the log",
    "reader": "reader: writes nothing",
}


async def create_roles(database: Database) -> None:
    """Create the writer's and the reader's role, as the owner, and grant them what they need."""
    await asyncio.to_thread(upgrade.create_roles, database.owner_dsn)


async def upgrade_engine(database: Database, settings: Settings) -> None:
    """Make or upgrade the tables of the engine that shares nights, if it has tables of its own."""
    if settings.night_engine == "dbos":
        await engine.upgrade_schema(database)


async def load_schema_revision(database: Database) -> str:
    """Return the revision of the database's schema."""
    return str(await asyncio.to_thread(upgrade.get_revision, database.dsn))


async def describe_database(database: Database, settings: Settings) -> dict[str, str]:
    """Return where the database is, its version and its sizes, as text by name."""
    described = {"kind": "embedded" if database.embedded else "given by CONSOLIDATOR_DATABASE_URL"}
    described["role"] = _ROLES[database.access]
    if database.embedded:
        described |= {"home": str(settings.home), **database.embedded.info()}
    described["security fixes"] = await describe_missing_fixes(database) or "none missing that this version knows of"
    async with database.connection() as conn:
        described["schema revision"] = await load_schema_revision(database)
        described["partitions"] = str(len(await partitions.list_attached(conn)))
        return described | asdict(await checks.get_sizes(conn))


async def describe_missing_fixes(database: Database) -> str | None:
    """Return which known security fixes the running server lacks, and what to do; None if it lacks none."""
    async with database.connection() as conn:
        version = conn.info.server_version
    return security_releases.describe_missing_fixes(version, embedded=database.embedded is not None)


async def back_up_database(database: Database, path: Path) -> int:
    """Write a backup of everything to a file that must not exist yet; return its size in bytes."""
    from consolidator.database import backup

    return await asyncio.to_thread(backup.dump, database.owner_dsn, path)


async def restore_database(database: Database, path: Path) -> dict[str, str]:
    """Restore a backup into an empty database and upgrade it; return the sizes, as text by name."""
    from consolidator.database import backup

    await asyncio.to_thread(backup.restore, database.owner_dsn, path)
    await asyncio.to_thread(upgrade.upgrade, database.owner_dsn, database.clock)
    async with database.connection() as conn:
        return asdict(await checks.get_sizes(conn))


async def verify_database(
    database: Database, *, exported_seals: Mapping[int, str] | None = None, after: str = "", limit: int | None = None
) -> dict[str, list[str]]:
    """Return the first violations of each invariant, by its name; the schema has to match this version, too.

    `exported_seals` is a copy of the seals that was kept elsewhere, number -> root as hex digits: each must be here.
    Of the sessions whose rows are compared with their logs, `after` is the last one to leave out, `limit` their number.
    """
    from consolidator.store.log import verification

    async with database.transaction() as conn:
        violations = await checks.find_violations(conn)
        violations |= await verification.find_tampering(conn)
        folds = await verification.check_folds(conn, after=after, limit=limit)
        violations[f"session rows are the fold of their logs ({folds.describe()})"] = folds.problems
        if exported_seals is not None:
            missing = await verification.find_missing_seals(conn, exported_seals)
            violations["I17 the seals of the copy are here"] = missing
        violations["schema matches this version"] = await schema.find_drift(conn)
    return violations


async def list_seals(database: Database) -> list[dict[str, Any]]:
    """Return the seals as JSON objects, the first one first; a copy kept elsewhere proves what they cover."""
    from consolidator.store.log import seals

    async with database.connection() as conn:
        rows = await seals.list_seals(conn)
    return [{**asdict(row), "root": bytes(row.root).hex()} for row in rows]


def read_seals(path: Path) -> dict[int, str]:
    """Return the seals of a copy in a file, number -> root as hex digits; raise UsageError if it is none."""
    try:
        return {int(seal["number"]): str(seal["root"]) for seal in json.loads(path.read_text())}
    except OSError as error:
        raise UsageError(f"cannot read the copy of the seals: {error}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"{path} is no copy of seals; `consolidator db info --seals --json > FILE` makes one"
        ) from error
