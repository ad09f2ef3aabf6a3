"""A PostgreSQL for benchmarks: the one that CONSOLIDATOR_TEST_DATABASE_URL names, else an embedded one of its own.

Every measurement has a database of its own here, copied where it must begin as another did; never the user's.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from consolidator.clock import Clock
from consolidator.database import Database, upgrade
from consolidator.database.embedded.server import EmbeddedServer
from consolidator.settings import Settings


class Server:
    """A server on which databases may be made."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.home = Path(tempfile.mkdtemp(prefix="consolidator-bench-"))
        self._made: list[str] = []
        self._template: str | None = None

    def settings(self) -> Settings:
        """Return settings as a newcomer has them, whatever the environment says."""
        return Settings(home=self.home, workers=2, sources=[])

    @asynccontextmanager
    async def database(self, clock: Clock | None = None, *, like: str | None = None) -> AsyncIterator[Database]:
        """Yield a database of its own: migrated and empty, or a copy of the one called `like`; dropped at the end."""
        name = await self.create(like=like or await self._empty())
        opened = Database(make_conninfo(self.dsn, dbname=name), clock or Clock())
        try:
            yield opened
        finally:
            await opened.close()
            await self.drop(name)

    async def create(self, *, like: str | None = None) -> str:
        """Make a database and return its name."""
        name = f"consolidator_bench_{os.getpid()}_{os.urandom(4).hex()}"
        made = sql.SQL("create database {}").format(sql.Identifier(name))
        if like is not None:
            made += sql.SQL(" template {}").format(sql.Identifier(like))
        await self._run(made)
        self._made.append(name)
        return name

    async def drop(self, name: str) -> None:
        """Drop a database that was made here."""
        await self._run(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
        self._made.remove(name)

    def opened(self, name: str, clock: Clock) -> Database:
        """Return a database by its name; the caller closes it before it is copied."""
        return Database(make_conninfo(self.dsn, dbname=name), clock)

    async def prepared(self) -> str:
        """Make a migrated database and return its name; it is dropped with the server at the latest."""
        return await self.create(like=await self._empty())

    async def _empty(self) -> str:
        if self._template is None:
            name = await self.create()
            await upgrade.upgrade(make_conninfo(self.dsn, dbname=name), Clock())
            self._template = name
        return self._template

    async def _run(self, statement: sql.SQL | sql.Composed) -> None:
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as conn:
            await conn.execute(statement)

    async def close(self) -> None:
        """Drop what is left."""
        for name in list(self._made):
            await self.drop(name)
        await asyncio.to_thread(shutil.rmtree, self.home, True)


@asynccontextmanager
async def open_server() -> AsyncIterator[Server]:
    """Yield the server to measure on, and leave nothing of ours behind."""
    given = os.environ.get("CONSOLIDATOR_TEST_DATABASE_URL")
    if given:
        server = Server(given)
        try:
            yield server
        finally:
            await server.close()
        return
    home = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="consolidator-bench-"))
    embedded = await EmbeddedServer.start(home)
    server = Server(embedded.dsn)
    try:
        yield server
    finally:
        await server.close()
        await embedded.discard()
        await asyncio.to_thread(shutil.rmtree, home, True)
