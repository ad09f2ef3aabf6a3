"""Databases for property tests, where every example needs its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from consolidator.clock import FrozenClock
from consolidator.database import Database
from tests.conftest import NOON

Fresh = Callable[[], AbstractAsyncContextManager[Database]]
SALT = bytes(16)


@pytest.fixture(scope="module")
def fresh(server_dsn: str, template: str, request: pytest.FixtureRequest) -> Fresh:
    """Open an empty database of the example's own; all have the same salt, so that memories can be compared."""
    made = 0

    @asynccontextmanager
    async def opened() -> AsyncIterator[Database]:
        nonlocal made
        made += 1
        name = f"{template}_{request.node.name.rpartition('/')[2][:12]}_{made}"
        with psycopg.connect(server_dsn, autocommit=True) as conn:
            conn.execute(
                sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template))
            )
        database = Database(make_conninfo(server_dsn, dbname=name), FrozenClock(NOON))
        try:
            async with database.connection() as conn:
                await conn.execute("insert into setting (name, value) values ('salt', %s)", [SALT])
            yield database
        finally:
            await database.close()
            with psycopg.connect(server_dsn, autocommit=True) as conn:
                conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    return opened
