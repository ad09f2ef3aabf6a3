"""Brings the schema to this version on start, guarded against two starting at once, and keeps partitions ahead."""

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
from consolidator.errors import DatabaseError, DatabaseUnavailable, SchemaTooNew

if TYPE_CHECKING:
    from alembic.config import Config

SCHEMA = "consolidator"
LOCK = "consolidator.upgrade"
_MIGRATIONS = Path(consolidator.migrations.__file__).parent

# What a table is for is said in the migrations alone.
_COMMENT_CHANGES = ("add_table_comment", "remove_table_comment")


async def upgrade(dsn: str, clock: Clock) -> None:
    """Upgrade an empty or older database and create the partitions ahead; raise SchemaTooNew for a newer one."""
    await asyncio.to_thread(_upgrade, dsn, clock)


async def downgrade(dsn: str, revision: str) -> None:
    """Go back to a revision, or to nothing with "base"."""
    await asyncio.to_thread(_downgrade, dsn, revision)


async def drift(dsn: str) -> list[str]:
    """Return how the schema differs from the tables of this version; empty where it does not."""
    return await asyncio.to_thread(_drift, dsn)


async def revision(dsn: str) -> str | None:
    """Return the schema's revision."""
    return await asyncio.to_thread(_current, dsn)


def newest() -> str:
    """Return the newest revision this version knows."""
    return max(_known())


def _known() -> set[str]:
    """Return every revision this version knows: each migration's file is named after its own."""
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
    """Yield a connection in one transaction that no other upgrader can share."""
    engine = create_engine("postgresql+psycopg://", creator=_connector(dsn))
    try:
        with engine.begin() as connection:
            connection.execute(text("select pg_advisory_xact_lock(hashtext(:name))"), {"name": LOCK})
            connection.execute(text(f"create schema if not exists {SCHEMA}"))
            connection.execute(text(f"set local search_path = {SCHEMA}"))
            yield connection
    except OperationalError as error:
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
        found = _revision(connection)
        if found is not None and found not in _known():
            raise SchemaTooNew(
                f"this database is at revision {found}, which this version (newest: {newest()}) does not know: "
                "a newer consolidator has upgraded it, or an unreleased one made it; install that version, or export "
                "its sessions with it and import them into a new database; nothing was changed"
            )
        if found != newest():
            from alembic import command  # a second of loading, with all tables: once in a version's life

            command.upgrade(_config(connection), "head")
        for day in partitions.days_ahead(clock.now()):
            connection.execute(text("select create_event_partition(:day), create_chunk_partition(:day)"), {"day": day})


def _downgrade(dsn: str, target: str) -> None:
    from alembic import command

    with _locked(dsn) as connection:
        command.downgrade(_config(connection), target)


def _drift(dsn: str) -> list[str]:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    from consolidator.models.tables import METADATA

    with _locked(dsn) as connection:
        context = MigrationContext.configure(connection, opts={"include_name": _is_no_partition})
        changes = compare_metadata(context, METADATA)
        return [str(change) for change in changes if change[0] not in _COMMENT_CHANGES]


def _is_no_partition(name: str | None, kind: str, _: object) -> bool:
    return kind != "table" or not (name or "").startswith(("event_", "generation_chunk_"))


def _current(dsn: str) -> str | None:
    with _locked(dsn) as connection:
        return _revision(connection)


def _revision(connection: Connection) -> str | None:
    """Return the revision that alembic noted, without loading it."""
    if connection.execute(text("select to_regclass('alembic_version')")).scalar() is None:
        return None
    found: str | None = connection.execute(text("select version_num from alembic_version")).scalar()
    return found
