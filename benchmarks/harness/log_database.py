"""A database whose log holds synthetic sessions that no night has learned from."""

from __future__ import annotations

from benchmarks.harness import synthetic_sessions
from benchmarks.harness.server import BenchmarkServer
from consolidator.clock import FrozenClock


async def create_log_database(server: BenchmarkServer, clock: FrozenClock, numbers: range, length: int) -> str:
    """Create a database with the synthetic sessions of these numbers, `length` events each; return its name."""
    name = await server.create_migrated_database()
    database = server.connect(name, clock)
    for number in numbers:
        async with database.transaction(flushed=False) as conn:
            await synthetic_sessions.write_session(conn, number, length, now=clock.now())
    async with database.connection() as conn:
        await conn.execute("vacuum analyze")
    await database.close()
    return name
