"""The log's daily partitions: created ahead, or when one is missing, and dropped without blocking writers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from typing import LiteralString

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

DAYS_AHEAD = 14  # days
PARTITIONED_TABLES = ("event", "generation_chunk")
DROP_COMMENT = "consolidator: everything in here is past retention and learned from; to be dropped"
LOCK_TIMEOUT = "5s"  # a drop that waits blocks everything behind it
Connection = psycopg.AsyncConnection[TupleRow]
_PENDING: LiteralString = (
    "select relname from pg_inherits join pg_class on oid = inhrelid "
    "where inhparent = %s::regclass and inhdetachpending"
)
_DETACHED: LiteralString = (
    "select relname from pg_class where relkind = 'r' and relnamespace = current_schema()::regnamespace "
    "and obj_description(oid, 'pg_class') = %s and not exists (select from pg_inherits where inhrelid = oid)"
)


def days_ahead(now: datetime) -> list[date]:
    """Return the days that must have a partition: yesterday, today and the next fourteen."""
    today = now.astimezone(UTC).date()
    return [today + timedelta(days=offset) for offset in range(-1, DAYS_AHEAD + 1)]


async def ensure_ahead(conn: Connection, now: datetime) -> int:
    """Create the missing partitions of `days_ahead`; return how many days had no event partition."""
    cursor = await conn.execute(
        "select count(*) filter (where create_event_partition(day)) from unnest(%s::date[]) as day", [days_ahead(now)]
    )
    row = await cursor.fetchone()
    assert row is not None
    await conn.execute("select create_chunk_partition(day) from unnest(%s::date[]) as day", [days_ahead(now)])
    return int(row[0])


async def ensure_day(conn: Connection, moment: datetime) -> None:
    """Create the partitions of a day if they are missing."""
    await conn.execute(
        "select create_event_partition(day), create_chunk_partition(day) from (select %s::date as day) as one",
        [moment.astimezone(UTC).date()],
    )


async def list_attached(conn: Connection, parent: str = "event") -> list[tuple[str, date]]:
    """Return the name and day of each partition attached to a table, oldest first."""
    cursor = await conn.execute(
        "select relname, to_date(right(relname, 8), 'YYYYMMDD') from pg_inherits join pg_class on oid = inhrelid "
        "where inhparent = %s::regclass and not inhdetachpending order by relname",
        [parent],
    )
    return [(name, day) for name, day in await cursor.fetchall()]


async def drop(conn: Connection, name: str, parent: str = "event") -> bool:
    """Detach a partition without blocking writers, then drop it; `conn` must not be in a transaction.

    Return whether it was dropped; one that is busy or that another process is dropping is left for the next night.
    """
    async with _drop_lock(conn) as locked:
        if not locked or name not in [attached for attached, _ in await list_attached(conn, parent)]:
            return False
        if await _names(conn, _PENDING, parent):  # PostgreSQL detaches one at a time
            return False
        table, of = sql.Identifier(name), sql.Identifier(parent)
        try:
            await conn.execute(sql.SQL("comment on table {} is {}").format(table, sql.Literal(DROP_COMMENT)))
            await conn.execute(sql.SQL("alter table {} detach partition {} concurrently").format(of, table))
            await conn.execute(sql.SQL("drop table if exists {}").format(table))
        except psycopg.errors.LockNotAvailable:
            return False
        return True


async def finish_drops(conn: Connection) -> int:
    """Drop partitions that a crash left between detaching and dropping; return how many."""
    finished = 0
    async with _drop_lock(conn) as locked:
        if not locked:
            return 0
        for parent in PARTITIONED_TABLES:
            for name in await _names(conn, _PENDING, parent):
                query = sql.SQL("alter table {} detach partition {} finalize")
                with suppress(psycopg.errors.LockNotAvailable):
                    await conn.execute(query.format(sql.Identifier(parent), sql.Identifier(name)))
        for name in await _names(conn, _DETACHED, DROP_COMMENT):
            with suppress(psycopg.errors.LockNotAvailable):
                await conn.execute(sql.SQL("drop table if exists {}").format(sql.Identifier(name)))
                finished += 1
    return finished


async def _names(conn: Connection, query: LiteralString, *values: str) -> list[str]:
    return [name for (name,) in await (await conn.execute(query, values)).fetchall()]


@asynccontextmanager
async def _drop_lock(conn: Connection) -> AsyncIterator[bool]:
    """Yield whether this process alone drops partitions; lock waits are limited to LOCK_TIMEOUT meanwhile."""
    cursor = await conn.execute("select pg_try_advisory_lock(hashtext('consolidator.drop'))")
    row = await cursor.fetchone()
    locked = row is not None and bool(row[0])
    await conn.execute("select set_config('lock_timeout', %s, false)", [LOCK_TIMEOUT])
    try:
        yield locked
    finally:
        await conn.execute("set lock_timeout = 0")
        if locked:
            await conn.execute("select pg_advisory_unlock(hashtext('consolidator.drop'))")
