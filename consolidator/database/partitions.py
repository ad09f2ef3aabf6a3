"""The log's daily partitions: made ahead, mended when missing, dropped without holding up writers."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

AHEAD = 14  # days
DOOMED = "consolidator: every event in here is past retention and learnt from; to be dropped"
Driver = psycopg.AsyncConnection[TupleRow]


def days_ahead(now: datetime) -> list[date]:
    """Return the days that must have a partition: yesterday, today and the next fourteen."""
    today = now.astimezone(UTC).date()
    return [today + timedelta(days=offset) for offset in range(-1, AHEAD + 1)]


async def ensure(conn: Driver, now: datetime) -> int:
    """Create the partitions that are missing for `days_ahead`; return how many were."""
    cursor = await conn.execute(
        "select count(*) filter (where create_event_partition(day)) from unnest(%s::date[]) as day", [days_ahead(now)]
    )
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def ensure_day(conn: Driver, moment: datetime) -> None:
    """Create the partition of a moment's day where it is missing."""
    await conn.execute("select create_event_partition(%s)", [moment.astimezone(UTC).date()])


async def listing(conn: Driver) -> list[tuple[str, date]]:
    """Return each attached partition's name and day, oldest first."""
    cursor = await conn.execute(
        "select relname, to_date(right(relname, 8), 'YYYYMMDD') from pg_inherits join pg_class on oid = inhrelid "
        "where inhparent = 'event'::regclass and not inhdetachpending order by relname"
    )
    return [(name, day) for name, day in await cursor.fetchall()]


async def drop(conn: Driver, name: str) -> None:
    """Detach a partition without blocking writers, then drop it; `conn` must not be in a transaction."""
    await conn.execute("set lock_timeout = '5s'")
    try:
        await conn.execute(sql.SQL("comment on table {} is {}").format(sql.Identifier(name), sql.Literal(DOOMED)))
        await conn.execute(sql.SQL("alter table event detach partition {} concurrently").format(sql.Identifier(name)))
        await conn.execute(sql.SQL("drop table if exists {}").format(sql.Identifier(name)))
    finally:
        await conn.execute("set lock_timeout = 0")


async def finish_drops(conn: Driver) -> int:
    """Finish what a crash left between detaching and dropping; return how many partitions that were."""
    cursor = await conn.execute(
        "select relname from pg_inherits join pg_class on oid = inhrelid "
        "where inhparent = 'event'::regclass and inhdetachpending"
    )
    for (name,) in await cursor.fetchall():
        await conn.execute(sql.SQL("alter table event detach partition {} finalize").format(sql.Identifier(name)))
    cursor = await conn.execute(
        "select relname from pg_class where relkind = 'r' and relnamespace = current_schema()::regnamespace "
        "and obj_description(oid, 'pg_class') = %s and not exists (select from pg_inherits where inhrelid = oid)",
        [DOOMED],
    )
    rows = await cursor.fetchall()
    for (name,) in rows:
        await conn.execute(sql.SQL("drop table if exists {}").format(sql.Identifier(name)))
    return len(rows)
