"""The database over psycopg 3: connections and transactions for `store`, from a pool that survives server restarts.

Callers own the transaction: `store` functions take the driver connection that `transaction()` or `connection()` yields.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import set_json_loads

from consolidator.clock import Clock
from consolidator.database.jsonb import loads
from consolidator.database.partitions import Connection
from consolidator.database.pool import ConnectionPool
from consolidator.database.roles import Access
from consolidator.errors import DatabaseError, DatabaseUnavailable, raise_if_disk_full
from consolidator.settings import Settings

if TYPE_CHECKING:
    from consolidator.database.embedded.server import EmbeddedServer

SCHEMA = "consolidator"
MINIMUM_VERSION = 150000
SESSION_SQL = (
    f"set search_path = {SCHEMA}; set timezone = 'UTC'; set idle_in_transaction_session_timeout = '10min'; "
    "set client_min_messages = warning; set jit = off"
)
# For statements that find their rows by keys. PostgreSQL plans each five times for its values before it may keep a
# plan, and to plan a step of a turn costs more than to run it.
PLAN_ONCE = "; set plan_cache_mode = force_generic_plan"


class Database:
    """A pool of connections, its clock, and the embedded server behind it, if there is one."""

    share_between_agents = True  # whether new sessions of the owner teach all of their agents
    embedded: EmbeddedServer | None = None  # the server, whoever stops it; None for another one
    statement_seconds: int | None = None  # after which a statement ends

    def __init__(
        self,
        dsn: str,
        clock: Clock,
        server: EmbeddedServer | None = None,
        pool_size: int = 16,
        *,
        owner_dsn: str | None = None,
    ) -> None:
        self.dsn = dsn
        self.owner_dsn = owner_dsn or dsn  # the schema's owner, where another login than `dsn` may do what it may not
        self.access: Access = "owner" if owner_dsn is None else "writer"
        self.clock = clock
        self.server = server  # which `close` stops
        self.embedded = server
        self._open_pools(pool_size, wait=60)

    def _open_pools(self, size: int, *, wait: float) -> None:
        self.pool = ConnectionPool(self._connect, size, wait)
        self.step_pool = ConnectionPool(self._connect_for_steps, max(size // 2, 1), wait)

    async def _connect_for_steps(self) -> Connection:
        driver = await self._connect(PLAN_ONCE)
        driver.prepare_threshold = 0  # at its first use
        return driver

    async def _connect(self, settings: str = "") -> Connection:
        """Open a driver connection with this database's settings; restart the embedded server if it is gone."""
        settings += "" if self.share_between_agents else "; set consolidator.share_between_agents = off"
        if self.statement_seconds is not None:
            settings += f"; set statement_timeout = '{self.statement_seconds}s'"
        try:
            return await open_connection(self.dsn, settings)
        except psycopg.ProgrammingError as error:  # libpq quotes the address, which may hold a password
            raise DatabaseError(
                "CONSOLIDATOR_DATABASE_URL has a value that PostgreSQL's client does not know"
            ) from error
        except psycopg.OperationalError as error:
            if self.embedded is None:
                raise DatabaseUnavailable(f"cannot connect to the database: {_first_line(error)}") from error
            await self.embedded.restart()
            self.dsn, self.owner_dsn = self.embedded.writer_dsn, self.embedded.dsn
            return await open_connection(self.dsn, settings)

    async def open_dedicated(self) -> Connection:
        """Open a driver connection that is in no pool, such as one that listens; the caller closes it."""
        return await self._connect()

    @asynccontextmanager
    async def connection(self, *, for_step: bool = False) -> AsyncIterator[Connection]:
        """Yield a driver connection on which each statement commits by itself.

        One `for_step` plans each statement once, for any values.
        """
        pool = self.step_pool if for_step else self.pool
        driver = await pool.take()
        try:
            yield driver
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction) as error:
            raise DatabaseError(
                f"the database's role ({self.access}) may not do this: {_first_line(error)}; see docs/database.md"
            ) from error
        except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable) as error:
            raise DatabaseError(
                f"an unreleased version made this database ({_first_line(error)}): export its sessions with that one, "
                "and import them into a new database"
            ) from error
        except (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError) as error:
            raise_if_disk_full(error)
            if self.statement_seconds is not None and isinstance(error, psycopg.errors.QueryCanceled):
                raise DatabaseUnavailable(f"this took more than {self.statement_seconds} seconds") from error
            if driver.closed or driver.broken:
                raise DatabaseUnavailable(f"the database went away: {_first_line(error)}") from error
            raise
        finally:
            await pool.give_back(driver)

    @asynccontextmanager
    async def transaction(self, *, flushed: bool = True) -> AsyncIterator[Connection]:
        """Yield a driver connection inside one transaction, committed at the end or rolled back on an error.

        With `flushed` false the commit does not wait for the disk: a crash of the server may lose it, together with
        every commit after it, but never a part of it. Use it for steps that are repeated if they are missing, before
        a last commit that is flushed and takes all of them to disk.
        """
        async with self.connection() as driver, driver.transaction():
            if not flushed:
                await driver.execute("set local synchronous_commit = off")
            yield driver

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """Yield a driver connection whose reads all see the database as it is at the first one; it writes nothing."""
        async with self.connection() as driver, driver.transaction():
            await driver.execute("set transaction isolation level repeatable read, read only")
            yield driver

    @asynccontextmanager
    async def reserve(self, connections: int, *, statement_seconds: int) -> AsyncIterator[Database]:
        """Yield the same database with a few connections of its own, whose users take none of the others'.

        A statement on them ends after so many seconds.
        """
        reserved = copy(self)
        reserved.server, reserved.statement_seconds = None, statement_seconds
        reserved._open_pools(connections, wait=5)
        try:
            yield reserved
        finally:
            await reserved.close()

    @asynccontextmanager
    async def owner_connection(self) -> AsyncIterator[Connection]:
        """Yield a connection as the schema's owner where this process has its address, else one of the pool's."""
        if self.owner_dsn == self.dsn:
            async with self.connection() as driver:
                yield driver
            return
        driver = await open_connection(self.owner_dsn)
        try:
            yield driver
        finally:
            await driver.close()

    async def close_idle(self) -> None:
        """Close the connections that nobody uses; the next user gets a new one."""
        await self.pool.close_idle()
        await self.step_pool.close_idle()

    async def close(self) -> None:
        """Close the connections, and stop the embedded server if this is its last user."""
        await self.pool.close()
        await self.step_pool.close()
        if self.server is not None:
            await self.server.stop()


@asynccontextmanager
async def open_database(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Database]:
    """Open the configured database, upgrade it if its role may, and close it at the end.

    The embedded one is upgraded by its owner and used by its writer. Raises DatabaseUnavailable if it cannot be reached
    or started, DatabaseError if a newer version has upgraded it, or nobody here may upgrade it.
    """
    from consolidator.database import upgrade  # imports all tables, which most commands do not need

    server: EmbeddedServer | None = None
    owner_dsn: str | None
    if settings.database_url is None:
        from consolidator.database.embedded.server import EmbeddedServer  # which no other database needs

        server = await EmbeddedServer.start(settings.home, settings.postgres_bin)
        dsn, owner_dsn = server.writer_dsn, server.dsn
    else:
        dsn = check_dsn(settings.database_url.get_secret_value())
        owner_url = settings.owner_url
        owner_dsn = None if owner_url is None else check_dsn(owner_url.get_secret_value(), "CONSOLIDATOR_OWNER_URL")
    clock = clock or Clock(settings.clock)
    database = Database(dsn, clock, server, pool_size=2 * settings.workers + 8, owner_dsn=owner_dsn)
    database.share_between_agents = settings.share_between_agents
    try:
        await check_server(database)
        if server is not None:
            await asyncio.to_thread(upgrade.upgrade, server.dsn, clock)
        else:
            database.access = await asyncio.to_thread(upgrade.prepare, dsn, clock, owner_dsn=owner_dsn)
        yield database
    finally:
        await database.close()


def check_dsn(dsn: str, variable: str = "CONSOLIDATOR_DATABASE_URL") -> str:
    """Return a valid libpq address; raise DatabaseError for any other, without quoting it: it may hold a password."""
    try:
        conninfo_to_dict(dsn)
    except (psycopg.ProgrammingError, UnicodeEncodeError) as error:
        message = f"{variable} is no PostgreSQL address, such as postgresql://user:password@host/database"
        raise DatabaseError(message) from error
    return dsn


async def open_connection(dsn: str, settings: str = "") -> Connection:
    """Open one autocommitting driver connection with the product's search path and JSON decoding, and more settings."""
    try:
        driver = await psycopg.AsyncConnection.connect(dsn, autocommit=True, connect_timeout=15)
    except asyncio.CancelledError as error:  # its frames would keep the half-open connection alive
        raise error.with_traceback(None) from None
    try:
        set_json_loads(loads, driver)
        await driver.execute(SESSION_SQL + settings)
    except BaseException:  # also a cancellation
        await driver.close()
        raise
    return driver


async def check_server(database: Database) -> None:
    """Raise DatabaseError for a server older than PostgreSQL 15, and for a pooler that keeps no sessions."""
    async with database.connection() as conn:
        if conn.info.server_version < MINIMUM_VERSION:
            major = conn.info.server_version // 10000
            raise DatabaseError(f"PostgreSQL {major} is too old: consolidator needs 15 or newer")
        row = await (await conn.execute("select pg_backend_pid()")).fetchone()
        is_direct = row == (conn.info.backend_pid,)  # a pooler has numbers of its own for its clients
    if not is_direct and not await _keeps_sessions(database):
        raise DatabaseError(
            "CONSOLIDATOR_DATABASE_URL leads to a pooler in transaction mode, where a connection's settings, locks and "
            "notifications are lost: use the address of the server itself or of a pooler in session mode (Supabase: "
            "port 5432, not 6543; Neon: the host without -pooler)"
        )


async def _keeps_sessions(database: Database) -> bool:
    """Tell whether what one connection sets is there for it afterwards, and for no other, while the other works."""
    token = os.urandom(8).hex()

    async def sees_token(conn: Connection) -> bool:
        cursor = await conn.execute("select current_setting('consolidator.connection', true)")
        return await cursor.fetchone() == (token,)

    async with await database.open_dedicated() as first, await database.open_dedicated() as other:
        await first.execute("select set_config('consolidator.connection', %s, false)", [token])
        async with other.transaction():  # a pooler in transaction mode gives it the session that is free since then
            return not await sees_token(other) and await sees_token(first)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
