"""The PostgreSQL server of the benchmarks: the one in CONSOLIDATOR_TEST_DATABASE_URL, else an embedded one.

Every measurement uses a database of its own, empty or copied from another one; never the user's.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from consolidator.clock import Clock
from consolidator.database import Database, upgrade
from consolidator.database.embedded.server import EmbeddedServer
from consolidator.settings import Settings


class BenchmarkServer:
    """A server with the databases that benchmarks created on it."""

    def __init__(self, dsn: str, *, keeps: bool = False) -> None:
        """Take the server's address, and whether databases with data that takes long to make stay for another time."""
        self.dsn = dsn
        self.keeps = keeps
        self.logs: Path | None = None  # a folder of real ones
        self.home = Path(tempfile.mkdtemp(prefix="consolidator-bench-"))
        self._database_names: list[str] = []
        self._template: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether the server's processes are on this machine, as far as its address tells."""
        return str(conninfo_to_dict(self.dsn).get("host", "/")).startswith("/")

    def default_settings(self) -> Settings:
        """Return the settings of a new installation, whatever the environment says."""
        return Settings(home=self.home, workers=2, sources=[])

    def environment(self, dsn: str, **chosen: str) -> dict[str, str]:
        """Return the environment of a process on a database, in a new home, with settings that are chosen here."""
        return {
            **{name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ},
            "HOME": str(self.home),
            "CONSOLIDATOR_HOME": tempfile.mkdtemp(dir=self.home),
            "CONSOLIDATOR_DATABASE_URL": dsn,
            "CONSOLIDATOR_HEALTH_PORT": "0",
            "CONSOLIDATOR_SOURCES": "[]",
            **{f"CONSOLIDATOR_{name.upper()}": value for name, value in chosen.items()},
        }

    @asynccontextmanager
    async def open_database(
        self, clock: Clock | None = None, *, template: str | None = None
    ) -> AsyncIterator[Database]:
        """Yield a new database, migrated and empty or a copy of `template`; drop it at the end."""
        name = await self.create_database(template=template or await self._get_migrated_template())
        database = Database(make_conninfo(self.dsn, dbname=name), clock or Clock())
        try:
            yield database
        finally:
            await database.close()
            await self.drop_database(name)

    @asynccontextmanager
    async def open_kept_database(
        self, name: str, clock: Clock, fill: Callable[[Database], Awaitable[None]]
    ) -> AsyncIterator[Database]:
        """Yield a migrated database that `fill` filled, now or another time where this server keeps it."""
        if not self.keeps:
            async with self.open_database(clock) as database:
                await fill(database)
                yield database
            return
        name = f"consolidator_bench_{name}"
        dsn = make_conninfo(self.dsn, dbname=name)
        filled = "filled"  # the database's comment, once it is
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as conn:
            found = await conn.execute(
                "select shobj_description(oid, 'pg_database') from pg_database where datname = %s", [name]
            )
            is_filled = await found.fetchone() == (filled,)
        if not is_filled:
            await self._execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
            await self._execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        await asyncio.to_thread(upgrade.upgrade, dsn, Clock())
        database = Database(dsn, clock)
        try:
            if not is_filled:
                await fill(database)
                comment = sql.SQL("comment on database {} is {}").format(sql.Identifier(name), sql.Literal(filled))
                await self._execute(comment)
            yield database
        finally:
            await database.close()

    async def create_database(self, *, template: str | None = None) -> str:
        """Create a database and return its name."""
        name = f"consolidator_bench_{os.getpid()}_{os.urandom(4).hex()}"
        statement = sql.SQL("create database {}").format(sql.Identifier(name))
        if template is not None:
            statement += sql.SQL(" template {}").format(sql.Identifier(template))
        await self._execute(statement)
        self._database_names.append(name)
        return name

    async def drop_database(self, name: str) -> None:
        """Drop a database that was created here."""
        await self._execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
        self._database_names.remove(name)

    def connect(self, name: str, clock: Clock) -> Database:
        """Return a database by its name; the caller must close it before it is copied."""
        return Database(make_conninfo(self.dsn, dbname=name), clock)

    async def create_migrated_database(self) -> str:
        """Create a migrated database and return its name; closing the server drops it at the latest."""
        return await self.create_database(template=await self._get_migrated_template())

    async def _get_migrated_template(self) -> str:
        if self._template is None:
            name = await self.create_database()
            await asyncio.to_thread(upgrade.upgrade, make_conninfo(self.dsn, dbname=name), Clock())
            self._template = name
        return self._template

    async def _execute(self, statement: sql.SQL | sql.Composed) -> None:
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as conn:
            await conn.execute(statement)

    async def close(self) -> None:
        """Drop the remaining databases."""
        for name in list(self._database_names):
            await self.drop_database(name)
        await asyncio.to_thread(shutil.rmtree, self.home, True)


@asynccontextmanager
async def open_server(keep: Path | None = None) -> AsyncIterator[BenchmarkServer]:
    """Yield the server to measure on; at the end, remove everything that was created.

    `keep` is a directory for an embedded server that stays there, with the databases whose data take long to make.
    """
    dsn = os.environ.get("CONSOLIDATOR_TEST_DATABASE_URL")
    if dsn:
        server = BenchmarkServer(dsn)
        try:
            yield server
        finally:
            await server.close()
        return
    if keep is not None:
        embedded = await EmbeddedServer.start(keep)
        server = BenchmarkServer(embedded.dsn, keeps=True)
        try:
            yield server
        finally:
            await server.close()
            await embedded.stop()
        return
    home = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="consolidator-bench-"))
    embedded = await EmbeddedServer.start(home)
    server = BenchmarkServer(embedded.dsn)
    try:
        yield server
    finally:
        await server.close()
        await embedded.delete()
        await asyncio.to_thread(shutil.rmtree, home, True)
