"""A merge beside other writers of memory: it marks what it has read, and nothing that was written meanwhile."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from itertools import chain
from typing import Any

import pytest
from psycopg import sql

from consolidator.clock import FrozenClock
from consolidator.database import Connection, Database
from consolidator.jobs.merging import agent_merge
from consolidator.models.digest import ErrorRecordRow
from consolidator.models.memory_filter import ProcedureFilter
from consolidator.service.memory.procedures import list_procedures
from consolidator.settings import Settings
from consolidator.store.calls import error_records, scopes
from consolidator.store.log import sources
from consolidator.store.queries import fetch_column
from tests.nights import (
    failed_command_events,
    hold_locks,
    query_number,
    query_rows,
    run_next_night,
    stated_fact,
    wait_for_lock_waiters,
)
from tests.support import assert_invariants, call_and_result, log_events

LOCK_FACTS = "lock table fact in exclusive mode"
LOCKED_COLUMNS = {
    "session": ("id", "agent"),
    "scope": ("agent", "project"),
    **dict.fromkeys(("digest", "error_record", "candidate"), ("session_id", "agent")),
}
UNRESOLVED = dict.fromkeys(("resolver_index", "resolver_seq", "resolver_symbol", "rule", "resolving"))


def error_row(session: str, record: dict[str, Any]) -> ErrorRecordRow:
    """Return a failed call of a session as it is stored."""
    return ErrorRecordRow(session, record["seq"], "coder", None, record["fingerprint"], record["status"], record)


async def merge(database: Database, settings: Settings, agent: str = "coder") -> None:
    """Merge an agent in a transaction of its own."""
    async with database.transaction() as conn:
        await agent_merge.merge_agent(conn, agent, run_id="test", now=database.clock.now(), settings=settings)


async def start_until_blocked(
    database: Database, work: Coroutine[Any, Any, None], waiters: int = 1
) -> asyncio.Task[None]:
    """Start work; return when it is done, or when so many wait for a lock."""
    task = asyncio.create_task(work)
    waiting = asyncio.create_task(wait_for_lock_waiters(database.dsn, waiters))
    await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    return task


async def test_an_error_that_changes_during_a_merge_is_news_for_the_next(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_events(database, "s1", failed_command_events(1))
    await log_events(database, "s2", [])
    await run_next_night(database, clock, settings)
    (stored,) = await query_rows(database, "select record from error_record")
    resolved = stored["record"]
    still_open = {**resolved, **UNRESOLVED, "status": "open", "change": None, "between": [], "tried": []}
    read, resume, get_each = asyncio.Event(), asyncio.Event(), error_records.get_each

    async def get_each_later(*arguments: Any) -> Any:
        read.set()
        await resume.wait()
        return await get_each(*arguments)

    async def change_records() -> None:
        async with database.transaction() as conn:
            await error_records.save(conn, [error_row("s2", resolved), error_row("s1", resolved)])

    async with database.transaction() as conn:
        await error_records.save(conn, [error_row("s1", still_open)])
    with monkeypatch.context() as patch:
        patch.setattr(error_records, "get_each", get_each_later)
        first_merge = asyncio.create_task(merge(database, settings))
        await read.wait()
        changing = await start_until_blocked(database, change_records())
        resume.set()
        await asyncio.gather(first_merge, changing)
    assert await query_number(database, "select count(*) from error_record where merged or fix_shape is not null") == 0
    await merge(database, settings)
    assert await query_number(database, "select count(*) from error_record where merged and fix_shape <> 'null'") == 2
    solution = "select sessions, occurrences, (body ->> 'resolved')::int as resolved from solution"
    assert await query_rows(database, solution) == [{"sessions": 2, "occurrences": 2, "resolved": 2}]
    await assert_invariants(database)


async def test_a_session_that_moves_to_its_lineage_during_a_merge_is_counted_there(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for name in ("s1", "s2"):
        await log_events(database, name, stated_fact(), peer="mara")
    await run_next_night(database, clock, settings)
    assert await query_rows(database, "select sessions from fact") == [{"sessions": 2}]
    async with (
        database.owner_connection() as conn
    ):  # it was imported: of others the lineage is known from the beginning
        await conn.execute("update session set origin = 'x:s2' where id = 's2'")

    async def move_session() -> None:
        async with database.transaction() as conn:
            await sources.move_to_lineage(conn, "s2", "s1")

    async with database.connection() as conn:
        await conn.execute("update candidate set reconciled = false")
    with hold_locks(database.dsn, LOCK_FACTS):
        merge_task = asyncio.create_task(merge(database, settings))
        await wait_for_lock_waiters(database.dsn)  # it has read the candidates, and is about to write the facts
        moving = await start_until_blocked(database, move_session(), 2)
    await asyncio.gather(merge_task, moving)
    assert await query_number(database, "select count(*) from candidate where not reconciled") == 1
    await merge(database, settings)
    assert await query_rows(database, "select sessions from fact") == [{"sessions": 1}]
    await assert_invariants(database)


async def test_locks_are_taken_in_the_same_order_whatever_the_collation(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    names = ["/x/Foo", "/x/bar"]  # a dictionary orders them the other way round
    for name in names:
        await log_events(database, name, failed_command_events(1), project=name)
        await log_events(database, f"of {name}", failed_command_events(1), agent=name)
    await run_next_night(database, clock, settings)
    async with database.transaction() as conn:
        await conn.execute("update scope set merged = 0")
        if not await fetch_column(conn, "select 1 from pg_collation where collname = 'en-x-icu'"):
            pytest.skip("this server has no ICU collations")
        for table, columns in LOCKED_COLUMNS.items():  # as on a server whose default collation it is
            for column in columns:
                text = sql.SQL("alter table {} alter {} type text collate {}")
                await conn.execute(text.format(*map(sql.Identifier, (table, column, "en-x-icu"))))
        by_collation = await fetch_column(conn, "select id from session where agent = 'coder' order by id")
        assert by_collation == names[::-1]
        assert [scope.project for scope in await scopes.list_changed(conn, "coder")] == names
        assert await scopes.list_agents_with_news(conn) == [*names, "coder"]


async def test_records_are_read_a_few_at_a_time_and_the_solutions_are_the_same(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        misspelt = [
            call_and_result("x", "Bash", {"command": f"{word} {number}"}, f"bash: {word}: command not found", "error")
            for word in ("mkae", "pyton")
        ]
        await log_events(database, f"s{number}", [*failed_command_events(number), *chain.from_iterable(misspelt)])
    published = "select id, sessions, occurrences, body from solution order by id"
    await run_next_night(database, clock, settings)
    at_once = await query_rows(database, published)
    assert len(at_once) == 3
    read: list[int] = []
    get_each = error_records.get_each

    async def count_read(conn: Connection, keys: Sequence[error_records.RecordKey]) -> Any:
        read.append(len(keys))
        return await get_each(conn, keys)

    async with database.connection() as conn:
        await conn.execute("update error_record set merged = false, fix_shape = null")
        await conn.execute("delete from solution")
    with monkeypatch.context() as patch:
        patch.setattr(error_records, "get_each", count_read)
        patch.setattr(agent_merge, "_RECORDS_AT_ONCE", 2)
        patch.setattr(agent_merge, "_SUMMARIES_AT_ONCE", 1)
        await merge(database, settings)
    assert await query_rows(database, published) == at_once
    assert len(read) > 9
    assert max(read) <= 6  # the records that one solution cites and is learned from


async def test_a_night_counts_the_procedures_that_the_list_shows(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    backup, release = ["pg_dump shop", "gzip shop.sql", "post done"], ["git commit -m x", "git push"]
    nights = [  # the commands of each night's sessions
        [backup, release],
        [backup, release],
        [backup, release],  # both are published, of which a pair is not worth telling
        [backup, ["pg_dump shop"]],
        [["pg_dump shop"], ["gzip shop.sql"]] * 5,  # they do not go together any more
        [["pg_dump shop"], ["gzip shop.sql"], release] * 5,
        [backup] * 20,
    ]
    listed = retired = 0
    for night, sessions in enumerate(nights):
        for number, lines in enumerate(sessions):
            calls = [call_and_result(f"c{n}", "bash", {"command": line}) for n, line in enumerate(lines)]
            await log_events(database, f"s{night}-{number}", list(chain(*calls)))
        report = await run_next_night(database, clock, settings)
        parts = report["memory"].get("coder", "").split("; ")
        line = next((part for part in parts if part.startswith("procedures")), "")
        counts = {outcome: int(count) for count, outcome in re.findall(r"(\d+) (\w+)", line)}
        listed += counts.get("added", 0) - counts.get("retired", 0)
        retired += counts.get("retired", 0)
        assert listed == len(await list_procedures(database)), (night, report["memory"])
    assert (listed, retired) == (1, 1)
    assert len(await list_procedures(database, ProcedureFilter(include_unworthy=True))) > 1
