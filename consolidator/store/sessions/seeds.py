"""What sessions' models saw at the start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from psycopg.types.json import Jsonb

from consolidator.database.jsonb import dumps, escape, unescape
from consolidator.database.partitions import Connection
from consolidator.models.seed import Seed, SeedRow
from consolidator.store.queries import execute_each, fetch_all, load

_SQL = load("sessions/seeds")


@dataclass(frozen=True, slots=True)
class _CountedSeed(SeedRow):
    total: int  # messages of the thread


async def add(conn: Connection, session_id: str, seeds: Sequence[Seed]) -> None:
    """Store the seeds of a new session, in order."""
    rows = [
        {
            "session": session_id,
            "ordinal": ordinal,
            "role": seed.role,
            "content": escape(seed.content),
            "is_new": seed.is_new,
            "occurred_at": seed.occurred_at,
            "details": Jsonb(dict(seed.details or {}), dumps=dumps),
        }
        for ordinal, seed in enumerate(seeds)
    ]
    await execute_each(conn, _SQL["add"], rows)


async def read(conn: Connection, session_id: str) -> list[SeedRow]:
    """Return all seeds of a session, in order."""
    return _unescaped(await fetch_all(conn, SeedRow, _SQL["read"], {"session": session_id}))


async def read_latest(conn: Connection, session_id: str, *, characters: int) -> tuple[list[SeedRow], int]:
    """Return the latest messages of the earlier thread that so many characters hold, in order, and how many it has.

    The last message is there in any case.
    """
    rows = await fetch_all(conn, _CountedSeed, _SQL["read_latest"], {"session": session_id, "characters": characters})
    return _unescaped(rows), rows[0].total if rows else 0


def _unescaped(rows: Sequence[SeedRow]) -> list[SeedRow]:
    return [replace(row, content=unescape(row.content)) for row in rows]
