"""Databases for tests that need more than the shared one: a second one, several empty ones, or a server to kill."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from consolidator.clock import Clock, FrozenClock
from consolidator.database import Database, open_database
from consolidator.settings import Settings
from tests.conftest import IS_WRITER, NOON, Logins
from tests.databases import database_copy

OpenDatabase = Callable[[], AbstractAsyncContextManager[Database]]
SALT = bytes(16)


@pytest.fixture
def other_dsn(server_dsn: str, template: str) -> Iterator[str]:
    """A second migrated database."""
    with database_copy(server_dsn, template) as address:
        yield address


@pytest.fixture
async def other(other_dsn: str) -> AsyncIterator[Database]:
    """Another machine, whose clock is days ahead."""
    opened = Database(other_dsn, FrozenClock(NOON + timedelta(days=5)))
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
def fresh(server_dsn: str, template: str, logins: Logins) -> OpenDatabase:
    """Open an empty database of the example's own; all have the same salt, so that memories can be compared."""
    name, password = logins.writer

    @asynccontextmanager
    async def opened() -> AsyncIterator[Database]:
        with database_copy(server_dsn, template) as address:
            database = Database(address, FrozenClock(NOON))
            if IS_WRITER:
                writer = make_conninfo(address, user=name, password=password)
                database = Database(writer, FrozenClock(NOON), owner_dsn=address)
            try:
                async with database.connection() as conn:
                    await conn.execute("insert into setting (name, value) values ('salt', %s)", [SALT])
                yield database
            finally:
                await database.close()

    return opened


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Database]:
    """An embedded database of the test's own."""
    async with open_database(Settings(home=tmp_path / "home"), Clock(NOON)) as opened:
        yield opened
        assert opened.server is not None
        await opened.server.delete()
