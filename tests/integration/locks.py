"""Helpers that force races: they wait until a connection waits for a lock, and name an owner that has ended."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from consolidator.database import Database
from consolidator.process import _start_time, owner_name

_WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


async def wait_for_lock(database: Database, count: int = 1) -> None:
    """Wait until `count` connections of this database wait for a lock."""
    async with database.connection() as conn:
        while True:
            row = await (await conn.execute(_WAITING)).fetchone()
            if row is not None and row[0] >= count:
                return
            await asyncio.sleep(0.005)


def owner_name_of(pid: int) -> str:
    """Return an owner name in another process on this machine."""
    machine, _, _, own = owner_name().rsplit("/", 3)
    return f"{machine}/{pid}/{_start_time(pid)}/{own}"


def dead_owner_name() -> str:
    """Return the owner name of a process on this machine that has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        name = owner_name_of(process.pid)
        process.terminate()
    return name
