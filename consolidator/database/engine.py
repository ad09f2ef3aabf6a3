"""One engine over psycopg 3: connections and transactions for `store`, and a pool that outlives server restarts.

Callers own the transaction: `store` functions take the driver connection that `transaction()` or `connection()` yields.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import set_json_loads
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool
from sqlalchemy.util import greenlet_spawn

from consolidator.clock import Clock
from consolidator.database.embedded.server import EmbeddedServer
from consolidator.database.jsonb import loads
from consolidator.database.partitions import Connection
from consolidator.errors import DatabaseError, DatabaseUnavailable
from consolidator.settings import Settings

SCHEMA = "consolidator"
MINIMUM_VERSION = 150000
SESSION_SQL = (
    f"set search_path = {SCHEMA}; set timezone = 'UTC'; set idle_in_transaction_session_timeout = '10min'; "
    "set client_min_messages = warning; set jit = off"
)


class Database:
    """An engine, its clock, and the embedded server behind it, if there is one."""

    def __init__(self, dsn: str, clock: Clock, server: EmbeddedServer | None = None, pool_size: int = 8) -> None:
        self.dsn = dsn
        self.clock = clock
        self.server = server
        self.engine: AsyncEngine = create_async_engine(
            "postgresql+psycopg://",
            async_creator=self._connect,
            poolclass=AsyncAdaptedQueuePool,
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=60,
            pool_reset_on_return=None,
            isolation_level="AUTOCOMMIT",
        )
        sqlalchemy_event.listen(self.engine.sync_engine, "checkout", _refuse_a_dead_connection)

    async def _connect(self) -> Connection:
        """Open a driver connection, bringing the embedded server back if it is gone."""
        try:
            return await connect(self.dsn)
        except psycopg.ProgrammingError as error:  # of the address: what libpq says of it may quote a password
            raise DatabaseError(
                "CONSOLIDATOR_DATABASE_URL has a value that PostgreSQL's client does not know"
            ) from error
        except psycopg.OperationalError as error:
            if self.server is None:
                raise DatabaseUnavailable(f"cannot connect to the database: {_first_line(error)}") from error
            self.server = await self.server.restart()
            self.dsn = self.server.dsn
            return await connect(self.dsn)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Yield a driver connection on which each statement commits by itself."""
        held = await self.engine.raw_connection()  # not `connect`: what that wraps it in costs more than a lookup
        driver = held.driver_connection
        assert isinstance(driver, psycopg.AsyncConnection)
        try:
            yield driver
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if driver.closed or driver.broken:
                raise DatabaseUnavailable(f"the database went away: {_first_line(error)}") from error
            raise
        finally:
            if driver.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:  # nobody ended it, or it is gone
                await greenlet_spawn(held.invalidate)
            await greenlet_spawn(held.close)

    @asynccontextmanager
    async def transaction(self, *, flushed: bool = True) -> AsyncIterator[Connection]:
        """Yield a driver connection inside one transaction, committed at the end or rolled back on an error.

        With `flushed` false the commit does not wait for the disk: a crash of the server may lose it whole, never in
        part, and never without every commit after it. For steps that are done again where they are missing, before
        a last commit that is flushed and with it all of them.
        """
        async with self.connection() as driver, driver.transaction():
            if not flushed:
                await driver.execute("set local synchronous_commit = off")
            yield driver

    async def close(self) -> None:
        """Give the connections back, and the embedded server if we are its last user."""
        await self.engine.dispose()
        if self.server is not None:
            await self.server.stop()


@asynccontextmanager
async def open_database(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Database]:
    """Open the configured database, upgraded; close it at the end.

    Raises DatabaseUnavailable where it cannot be reached or started and SchemaTooNew where a newer version was here.
    """
    from consolidator.database.upgrade import upgrade  # with alembic and all tables: not for who opens none

    server = None
    if settings.database_url is None:
        server = await EmbeddedServer.start(settings.home)
        dsn = server.dsn
    else:
        dsn = address(settings.database_url.get_secret_value())
    database = Database(dsn, clock or Clock(settings.clock), server, pool_size=settings.workers + 4)
    try:
        await check_version(database)
        await upgrade(dsn, database.clock)
        yield database
    finally:
        await database.close()


def address(dsn: str) -> str:
    """Return a libpq address; raise DatabaseError for what is none, without repeating it: it may hold a password."""
    try:
        conninfo_to_dict(dsn)
    except (psycopg.ProgrammingError, UnicodeEncodeError) as error:
        told = "CONSOLIDATOR_DATABASE_URL is no PostgreSQL address, such as postgresql://user:password@host/database"
        raise DatabaseError(told) from error
    return dsn


async def connect(dsn: str) -> Connection:
    """Open one autocommitting driver connection with our search path and our JSON."""
    try:
        driver = await psycopg.AsyncConnection.connect(dsn, autocommit=True, connect_timeout=15)
    except asyncio.CancelledError as error:  # its frames would keep what is half open, until the server gives it up
        raise error.with_traceback(None) from None
    try:
        set_json_loads(loads, driver)
        await driver.execute(SESSION_SQL)
    except BaseException:  # a cancellation, too, must not leave it open
        await driver.close()
        raise
    return driver


async def check_version(database: Database) -> None:
    """Refuse a server that is older than PostgreSQL 15."""
    async with database.connection() as conn:
        if conn.info.server_version < MINIMUM_VERSION:
            found = conn.info.server_version // 10000
            raise DatabaseError(f"PostgreSQL {found} is too old: consolidator needs 15 or newer")


def _refuse_a_dead_connection(dbapi: Any, _record: Any, _proxy: Any) -> None:
    """Have the pool replace a connection whose server has hung up: its idle socket is readable; costs no round trip."""
    driver = dbapi.driver_connection
    if driver.closed:
        raise exc.DisconnectionError
    poll = select.poll()
    poll.register(driver.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
    if poll.poll(0):
        raise exc.DisconnectionError


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
