"""The log's daily partitions: created ahead, or when one is missing, and dropped when all of them is pruned.

Functions of the log's owner do it: no other role may create or drop a table.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta

import psycopg
from psycopg.rows import TupleRow

DAYS_AHEAD = 14  # days
PARTITIONED_TABLES = ("event", "generation_chunk")
DROP_ATTEMPTS = 3
Connection = psycopg.AsyncConnection[TupleRow]


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
    """Drop a partition of which everything is pruned; return whether it went.

    One that is in use is tried a few times, for less than a second each: meanwhile writers wait. Then it is left for
    the next night, and its events are deleted in batches.
    """
    day = datetime.strptime(name[-8:], "%Y%m%d").replace(tzinfo=UTC).date()
    for attempt in range(DROP_ATTEMPTS):
        cursor = await conn.execute("select drop_log_partition(%s, %s)", [parent, day])
        row = await cursor.fetchone()
        if row is not None and row[0]:
            return True
        if name not in [attached for attached, _ in await list_attached(conn, parent)]:
            return False
        await asyncio.sleep(0.2 * (attempt + 1))
    return False


async def finish_drops(conn: Connection) -> int:
    """Drop partitions that a crash of an earlier version left between detaching and dropping; return how many."""
    row = await (await conn.execute("select finish_partition_drops()")).fetchone()
    return 0 if row is None else int(row[0])
