"""Races are forced by locks: this waits until somebody waits for one."""

from __future__ import annotations

import asyncio

from consolidator.database import Database

_WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


async def waiting(database: Database, many: int = 1) -> None:
    """Return when so many connections of this database wait for a lock."""
    async with database.connection() as conn:
        while True:
            row = await (await conn.execute(_WAITING)).fetchone()
            if row is not None and row[0] >= many:
                return
            await asyncio.sleep(0.005)
