"""One database for all tests of a module, emptied after each: creating one per test would take most of their time.

`from tests.reuse import dsn, emptied`, for tests that write sessions but run no consolidation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from ulid import ULID

from consolidator.database import Database
from tests.databases import database_copy

__all__ = ["dsn", "emptied"]


@pytest.fixture(scope="module")
def dsn(server_dsn: str, template: str) -> Iterator[str]:
    """A migrated database of the module's own."""
    with database_copy(server_dsn, template) as address:
        yield address


@pytest.fixture(autouse=True)
async def emptied(database: Database) -> AsyncIterator[None]:
    """Erase every session when a test is over."""
    yield
    async with database.connection() as conn:
        names = [name for (name,) in await (await conn.execute("select id from session")).fetchall()]
    for name in names:
        async with database.transaction() as conn:
            await conn.execute("select erase_session(%s, %s, 0, 'the test is over', now())", [name, str(ULID())])
    async with database.owner_connection() as conn:
        await conn.execute("delete from erasure")
        await conn.execute("delete from spend")
        await conn.execute("delete from model_call")
        await conn.execute("delete from blob")
