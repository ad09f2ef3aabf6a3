"""The processor time of processes: unlike the time on the clock, other load hardly changes it."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from consolidator.database import Database
from consolidator.database.partitions import Connection
from consolidator.store.queries import fetch_column

_BACKENDS = """
select pid from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()"""


def processor_times(pids: Iterable[int]) -> dict[int, float]:
    """Return the milliseconds that each process has run for, all threads together; nothing where no /proc tells."""
    return {pid: total for pid in pids if (total := _processor_time(pid))}


def spent_since(before: dict[int, float]) -> float:
    """Return the milliseconds that processes have run for since then."""
    return sum(_processor_time(pid) - milliseconds for pid, milliseconds in before.items())


def list_children() -> list[int]:
    """Return the processes that this one started."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(pid) for pid in text.split()]


async def list_backends(conn: Connection) -> list[int]:
    """Return the server's processes for the other connections to a database, on this machine."""
    return await fetch_column(conn, _BACKENDS)


def own_processor_seconds() -> float:
    """Return the processor time of this process and of those that it started and that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


async def server_processor_seconds(database: Database) -> float:
    """Return the processor time so far of a database's server; 0 if it is on another machine."""
    async with database.connection() as conn:
        (directory,) = await (await conn.execute("show data_directory")).fetchone() or ("",)
    lock = Path(directory) / "postmaster.pid"
    if not lock.exists():
        return 0.0
    server = psutil.Process(int(lock.read_text().split()[0]))
    ended = server.cpu_times()
    seconds = ended.user + ended.system + ended.children_user + ended.children_system
    for backend in server.children():
        with suppress(psutil.NoSuchProcess):
            times = backend.cpu_times()
            seconds += times.user + times.system
    return seconds


def _processor_time(pid: int) -> float:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e6
    except (OSError, ValueError):  # it has ended, or this is no Linux
        return 0.0
