"""One database for all tests of a module, emptied after each: where making one each would take most of their time.

`from tests.reuse import dsn, emptied`, for tests that write sessions and nothing that nights make of them.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from consolidator.database import Database

__all__ = ["dsn", "emptied"]
HOLDING = ("event", "generation_chunk", "delivery", "idempotency", "blob_ref")  # what a session's name is on


@pytest.fixture(scope="module")
def dsn(server_dsn: str, template: str) -> Iterator[str]:
    """A migrated database of the module's own."""
    name = f"consolidator_module_{os.getpid()}_{os.urandom(4).hex()}"
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
    try:
        yield make_conninfo(server_dsn, dbname=name)
    finally:
        with psycopg.connect(server_dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


@pytest.fixture(autouse=True)
async def emptied(database: Database) -> AsyncIterator[None]:
    """Erase every session when a test is over."""
    yield
    async with database.connection() as conn:
        names = [name for (name,) in await (await conn.execute("select id from session")).fetchall()]
    for name in names:
        async with database.transaction() as conn:
            await conn.execute("select set_config('consolidator.erase', %s, true)", [name])
            for table in HOLDING:
                query = sql.SQL("delete from {} where session_id = %s").format(sql.Identifier(table))
                await conn.execute(query, [name])
            await conn.execute("delete from session where id = %s", [name])
    async with database.connection() as conn:
        await conn.execute("delete from spend")
        await conn.execute("delete from model_call")
        await conn.execute("delete from blob")
