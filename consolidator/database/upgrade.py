"""Upgrades the schema on start, under an advisory lock, grants the roles, and creates the partitions ahead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors

import consolidator.migrations
from consolidator.clock import Clock
from consolidator.database import partitions, roles, schema
from consolidator.database.roles import Access
from consolidator.errors import DatabaseError, DatabaseUnavailable, raise_if_disk_full

if TYPE_CHECKING:
    from sqlalchemy import Connection

SCHEMA = "consolidator"
UPGRADE_LOCK = "consolidator.upgrade"
LOCK_TIMEOUT = "10min"  # how long to wait for another process that upgrades
_MIGRATIONS = Path(consolidator.migrations.__file__).parent


def newest_revision() -> str:
    """Return the newest revision that this version knows."""
    return max(known_revisions())


def known_revisions() -> set[str]:
    """Return every revision that this version knows: a migration's file name begins with it."""
    return {path.name.partition("_")[0] for path in (_MIGRATIONS / "versions").glob("[0-9]*_*.py")}


@contextmanager
def locked(dsn: str) -> Iterator[Connection]:
    """Yield a connection in one transaction that holds the upgrade lock."""
    from sqlalchemy import create_engine, text  # only alembic needs it
    from sqlalchemy.exc import DBAPIError, OperationalError

    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn, connect_timeout=15))
    try:
        with engine.begin() as connection:
            connection.execute(text(f"set local lock_timeout = '{LOCK_TIMEOUT}'"))  # any login may hold such a lock
            connection.execute(text("select pg_advisory_xact_lock(hashtext(:name))"), {"name": UPGRADE_LOCK})
            connection.execute(text("set local lock_timeout = 0"))
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


@contextmanager
def _connect(dsn: str) -> Iterator[psycopg.Connection]:
    try:
        with psycopg.connect(dsn, connect_timeout=15) as conn:
            yield conn
    except psycopg.OperationalError as error:
        reason = str(error).strip().split("\n")[0]
        raise DatabaseUnavailable(f"cannot connect to the database: {reason}") from error


def prepare(dsn: str, clock: Clock, *, owner_dsn: str | None = None) -> Access:
    """Upgrade a database if its login, or else the owner, may; return what the login may do.

    Raises DatabaseError if it has to be upgraded and nobody here may, and for a newer one. A reader writes
    nothing at all.
    """
    access = _get_access(dsn)
    if access == "owner":
        upgrade(dsn, clock)
        return access
    revision = None if access is None else get_revision(dsn)
    if revision == newest_revision() and access is not None:
        if access == "writer":
            with _connect(dsn) as conn:
                _create_partitions(conn, clock)
        return access
    if owner_dsn is not None:
        upgrade(owner_dsn, clock)
        access = _get_access(dsn)
    elif revision is not None:
        _check_known(revision)
        raise DatabaseError(
            f"this database is at revision {revision}, this version needs {newest_revision()}, and this role may not "
            "upgrade it: set CONSOLIDATOR_OWNER_URL and run `consolidator db upgrade`; nothing was changed"
        )
    if access is None:
        raise DatabaseError(
            f"this role may not use the schema {SCHEMA}: make it a member of {roles.WRITER} or {roles.READER}, and run "
            "`consolidator db upgrade --roles` as the schema's owner"
        )
    return access


def _get_access(dsn: str) -> Access | None:
    with _connect(dsn) as conn:
        return roles.get_access(conn)


def upgrade(dsn: str, clock: Clock) -> None:
    """Upgrade an empty or older database as its owner, grant the roles what they need, create the partitions ahead.

    Raises DatabaseError for a newer one.
    """
    if not _is_current(dsn, clock):
        with locked(dsn) as connection:
            driver = connection.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)
            current = _read_revision(driver)
            if current is None:
                schema.create(connection, newest_revision())
            elif current != newest_revision():
                _check_known(current)
                migrate(connection)
            roles.grant(driver)
            _create_partitions(driver, clock)


def migrate(connection: Connection) -> None:
    """Run the migrations that a connection's database has not had."""
    from alembic import command  # takes a second to import, and is needed once a version
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _is_current(dsn: str, clock: Clock) -> bool:
    """Tell whether there is nothing to upgrade or to grant; then create the partitions, without the upgrade's lock."""
    try:
        with _connect(dsn) as conn:
            if _read_revision(conn) != newest_revision() or not roles.grants_are_current(conn):
                return False
            _create_partitions(conn, clock)
            return True
    except psycopg.errors.InsufficientPrivilege:
        return False


def _create_partitions(conn: psycopg.Connection, clock: Clock) -> None:
    conn.execute(f"set search_path = {SCHEMA}".encode())
    for function in ("create_event_partition", "create_chunk_partition"):
        query = f"select {function}(day) from unnest(%s::date[]) as day"
        conn.execute(query.encode(), [partitions.days_ahead(clock.now())])


def _check_known(revision: str) -> None:
    if revision not in known_revisions():
        raise DatabaseError(
            f"this database is at revision {revision}, which this version (newest: {newest_revision()}) does not "
            "know: a newer consolidator has upgraded it, or an unreleased one made it; install that version, or "
            "export its sessions with it and import them into a new database; nothing was changed"
        )


def create_roles(dsn: str) -> None:
    """Create the roles that are missing on the server, and grant them what they need in this database."""
    with locked(dsn) as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        try:
            roles.create_roles(driver)
        except errors.InsufficientPrivilege as error:
            raise DatabaseError(
                f"this role may not create roles on the server: have one with CREATEROLE run `create role "
                f"{roles.WRITER}; create role {roles.READER}`, then run this again"
            ) from error
        roles.grant(driver)


def get_revision(dsn: str) -> str | None:
    """Return the schema's revision."""
    with _connect(dsn) as conn:
        return _read_revision(conn)


def _read_revision(conn: psycopg.Connection) -> str | None:
    """Return the revision that alembic recorded, without importing alembic."""
    if conn.execute("select to_regclass(%s)", [f"{SCHEMA}.alembic_version"]).fetchone() == (None,):
        return None
    row = conn.execute(f"select version_num from {SCHEMA}.alembic_version".encode()).fetchone()
    return None if row is None else str(row[0])
