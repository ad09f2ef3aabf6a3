"""Which processes of an engine live: each holds an advisory lock under its name."""

from __future__ import annotations

from consolidator.database.partitions import Connection
from consolidator.store.queries import Statement, execute, fetch_value, load

_SQL = load("nights/executors")


async def hold(conn: Connection, executor: str, *, lease_seconds: int) -> None:
    """Hold a process's lock as long as the connection lives, at most a lease longer than its machine."""
    await execute(conn, _SQL["notice_dead_peers"], {"seconds": str(max(1, lease_seconds // 4))})
    await execute(conn, _SQL["lock"], {"executor": executor})


async def try_lock(conn: Connection, executor: str, *, lease_seconds: int) -> bool:
    """Take the lock of a process that has ended; return whether it has, and nobody else sees to it.

    One that has not said anything for a lease loses its lock, and is told so when it wakes.
    """
    await execute(conn, _SQL["end_silent"], {"executor": executor, "seconds": lease_seconds})
    return bool(await fetch_value(conn, _SQL["try_lock"], {"executor": executor}))


unlock = Statement[str](_SQL["unlock"])
