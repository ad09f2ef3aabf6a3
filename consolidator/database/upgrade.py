"""Upgrades the schema on start, under an advisory lock, and creates the partitions ahead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg import errors
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError, OperationalError

import consolidator.migrations
from consolidator.clock import Clock
from consolidator.database import partitions
from consolidator.errors import DatabaseError, DatabaseUnavailable, SchemaTooNew, raise_if_disk_full

if TYPE_CHECKING:
    from alembic.config import Config

SCHEMA = "consolidator"
UPGRADE_LOCK = "consolidator.upgrade"
_MIGRATIONS = Path(consolidator.migrations.__file__).parent

# Table comments exist in the migrations only.
_COMMENT_CHANGES = ("add_table_comment", "remove_table_comment")


async def upgrade(dsn: str, clock: Clock) -> None:
    """Upgrade an empty or older database and create the partitions ahead; raise SchemaTooNew for a newer one."""
    await asyncio.to_thread(_upgrade, dsn, clock)


async def downgrade(dsn: str, revision: str) -> None:
    """Downgrade to a revision; "base" drops everything."""
    await asyncio.to_thread(_downgrade, dsn, revision)


async def find_drift(dsn: str) -> list[str]:
    """Return the differences between the schema and this version's tables."""
    return await asyncio.to_thread(_find_drift, dsn)


async def get_revision(dsn: str) -> str | None:
    """Return the schema's revision."""
    return await asyncio.to_thread(_get_revision, dsn)


def newest_revision() -> str:
    """Return the newest revision that this version knows."""
    return max(_known_revisions())


def _known_revisions() -> set[str]:
    """Return every revision that this version knows: a migration's file name begins with it."""
    return {path.name.partition("_")[0] for path in (_MIGRATIONS / "versions").glob("[0-9]*_*.py")}


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


@contextmanager
def _locked(dsn: str) -> Iterator[Connection]:
    """Yield a connection in one transaction that holds the upgrade lock."""
    engine = create_engine("postgresql+psycopg://", creator=_connector(dsn))
    try:
        with engine.begin() as connection:
            connection.execute(text("select pg_advisory_xact_lock(hashtext(:name))"), {"name": UPGRADE_LOCK})
            connection.execute(text(f"create schema if not exists {SCHEMA}"))
            connection.execute(text(f"set local search_path = {SCHEMA}"))
            yield connection
    except OperationalError as error:
        raise_if_disk_full(error)
        reason = str(error.orig).strip().split("\n")[0]
        raise DatabaseUnavailable(f"cannot upgrade the database: {reason}") from error
    except DBAPIError as error:
        if not isinstance(error.orig, (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction)):
            raise
        reason = str(error.orig).strip().split("\n")[0]
        raise DatabaseError(f"the role may not upgrade the database: {reason}") from error
    finally:
        engine.dispose()


def _connector(dsn: str) -> Callable[[], object]:
    import psycopg

    return lambda: psycopg.connect(dsn, connect_timeout=15)


def _upgrade(dsn: str, clock: Clock) -> None:
    with _locked(dsn) as connection:
        current = _read_revision(connection)
        if current is not None and current not in _known_revisions():
            raise SchemaTooNew(
                f"this database is at revision {current}, which this version (newest: {newest_revision()}) does not "
                "know: a newer consolidator has upgraded it, or an unreleased one made it; install that version, or "
                "export its sessions with it and import them into a new database; nothing was changed"
            )
        if current != newest_revision():
            from alembic import command  # takes a second to import, and is needed once a version

            command.upgrade(_config(connection), "head")
        for day in partitions.days_ahead(clock.now()):
            connection.execute(text("select create_event_partition(:day), create_chunk_partition(:day)"), {"day": day})


def _downgrade(dsn: str, target: str) -> None:
    from alembic import command

    with _locked(dsn) as connection:
        command.downgrade(_config(connection), target)


def _find_drift(dsn: str) -> list[str]:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    from consolidator.models.tables import METADATA

    with _locked(dsn) as connection:
        context = MigrationContext.configure(connection, opts={"include_name": _is_not_a_partition})
        changes = compare_metadata(context, METADATA)
        return [str(change) for change in changes if change[0] not in _COMMENT_CHANGES]


def _is_not_a_partition(name: str | None, kind: str, _: object) -> bool:
    return kind != "table" or not (name or "").startswith(("event_", "generation_chunk_"))


def _get_revision(dsn: str) -> str | None:
    with _locked(dsn) as connection:
        return _read_revision(connection)


def _read_revision(connection: Connection) -> str | None:
    """Return the revision that alembic recorded, without importing alembic."""
    if connection.execute(text("select to_regclass('alembic_version')")).scalar() is None:
        return None
    revision: str | None = connection.execute(text("select version_num from alembic_version")).scalar()
    return revision
