"""A database whose users share one transaction: what several functions write is committed together, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from consolidator.database.engine import Database
from consolidator.database.partitions import Connection


@asynccontextmanager
async def open_one_transaction(database: Database) -> AsyncIterator[Database]:
    """Yield the same database, in which every connection is that of one transaction, committed at the end.

    A transaction in it is a savepoint. Its users take their turns: it is for one task, and never for a model call.
    """
    async with database.transaction() as conn:
        yield _OneTransaction(database, conn)


class _OneTransaction(Database):
    """The connection of an open transaction in the place of a pool."""

    def __init__(self, whole: Database, conn: Connection) -> None:
        self.dsn = whole.dsn
        self.clock = whole.clock
        self.server = whole.server
        self.engine = whole.engine
        self._conn = conn

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Yield the connection of the transaction."""
        yield self._conn

    @asynccontextmanager
    async def transaction(self, *, flushed: bool = True) -> AsyncIterator[Connection]:
        """Yield the connection inside a savepoint; the outer transaction decides when it is flushed."""
        async with self._conn.transaction():
            yield self._conn
