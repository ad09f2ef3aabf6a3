"""A merge beside whatever else writes memory: it marks what it has read, and nothing that came while it was at it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from psycopg import sql

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.consolidation import merging
from consolidator.settings import Settings
from consolidator.store.log import sessions, sources
from consolidator.store.memory import digests, sums
from consolidator.store.queries import rows
from tests.nights import ask, count, held, mishap, stuck, told, tonight
from tests.support import logged, unbroken

FACTS = "lock table fact in exclusive mode"
ENGLISH = {
    "session": ("id", "agent"),
    "scope": ("agent", "project"),
    **dict.fromkeys(("digest", "error_record", "candidate"), ("session_id", "agent")),
}
OPEN = dict.fromkeys(("resolver_index", "resolver_seq", "resolver_symbol", "rule", "resolving"))


async def merged(database: Database, settings: Settings, agent: str = "coder") -> None:
    """Merge an agent in a transaction of its own."""
    async with database.transaction() as conn:
        await merging.merge_agent(conn, agent, run_id="test", now=database.clock.now(), settings=settings)


async def done_or_stuck(database: Database, doing: Coroutine[Any, Any, None], many: int = 1) -> asyncio.Task[None]:
    """Begin something; return when it is done, or when so many wait for a lock."""
    task = asyncio.create_task(doing)
    waiting = asyncio.create_task(stuck(database.dsn, many))
    await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    return task


async def test_an_error_that_changes_during_a_merge_is_news_for_the_next(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await logged(database, "s1", mishap(1))
    await logged(database, "s2", [])
    await tonight(database, clock, settings)
    ((resolved,),) = [one.values() for one in await ask(database, "select record from error_record")]
    read, go, errors = asyncio.Event(), asyncio.Event(), digests.errors

    async def paused(*asked: Any) -> Any:
        read.set()
        await go.wait()
        return await errors(*asked)

    async def changed() -> None:
        async with database.transaction() as conn:
            told = {one["id"]: one for one in await sessions.get_each(conn, ["s1", "s2"])}
            await digests.save_errors(conn, [(told["s2"], resolved), (told["s1"], resolved)])

    async with database.transaction() as conn:
        s1 = await sessions.get(conn, "s1")
        before = {**resolved, **OPEN, "status": "open", "fix": [], "between": [], "tried": []}
        await digests.save_errors(conn, [(s1, before)])
    with monkeypatch.context() as patch:
        patch.setattr(digests, "errors", paused)
        first = asyncio.create_task(merged(database, settings))
        await read.wait()
        changing = await done_or_stuck(database, changed())
        go.set()
        await asyncio.gather(first, changing)
    assert await count(database, "select count(*) from error_record where merged or shape is not null") == 0
    await merged(database, settings)
    assert await count(database, "select count(*) from error_record where merged and shape <> 'null'") == 2
    told = "select sessions, occurrences, (body ->> 'resolved')::int as resolved from solution"
    assert await ask(database, told) == [{"sessions": 2, "occurrences": 2, "resolved": 2}]
    await unbroken(database)


async def test_a_session_that_moves_to_its_lineage_during_a_merge_is_counted_there(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for name in ("s1", "s2"):
        await logged(database, name, told(), peer="mara")
    await tonight(database, clock, settings)
    assert await ask(database, "select sessions from fact") == [{"sessions": 2}]

    async def moved() -> None:
        async with database.transaction() as conn:
            await sources.adopt(conn, "s2", "s1")

    async with database.connection() as conn:
        await conn.execute("update candidate set reconciled = false")
    with held(database.dsn, FACTS):
        merging_ = asyncio.create_task(merged(database, settings))
        await stuck(database.dsn)  # it has read whose the sayings are, and is about to say what they come to
        moving = await done_or_stuck(database, moved(), 2)
    await asyncio.gather(merging_, moving)
    assert await count(database, "select count(*) from candidate where not reconciled") == 1
    await merged(database, settings)
    assert await ask(database, "select sessions from fact") == [{"sessions": 1}]
    await unbroken(database)


async def test_where_a_language_orders_otherwise_locks_are_taken_in_the_same_order(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    names = ["/x/Foo", "/x/bar"]  # the other way round in a dictionary
    for name in names:
        await logged(database, name, mishap(1), project=name)
        await logged(database, f"of {name}", mishap(1), agent=name)
    await tonight(database, clock, settings)
    async with database.transaction() as conn:
        await conn.execute("update digest set summed = false")
        await conn.execute("update scope set merged = 0")
        if not await rows(conn, "select from pg_collation where collname = 'en-x-icu'"):
            pytest.skip("this server knows no languages")
        for table, columns in ENGLISH.items():  # as a server has it that was made so
            for column in columns:
                text = sql.SQL("alter table {} alter {} type text collate {}")
                await conn.execute(text.format(*map(sql.Identifier, (table, column, "en-x-icu"))))
        found = await rows(conn, "select id from session where agent = 'coder' order by id")
        assert [one["id"] for one in found] == names[::-1]
        assert [one["session_id"] for one in await sums.news(conn, "coder")] == names
        assert [one["project"] for one in await digests.dirty_scopes(conn) if one["agent"] == "coder"] == names
        assert await digests.agents_with_news(conn) == [*names, "coder"]
