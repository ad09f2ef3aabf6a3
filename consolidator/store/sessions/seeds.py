"""What sessions' models saw at the start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consolidator.database.partitions import Connection
from consolidator.models.session import Seed, SeedRow, SessionRow
from consolidator.store.queries import Rows, StatementEach, fetch_all, load, row_values

_SQL = load("sessions/seeds")


@dataclass(frozen=True, slots=True)
class _CountedSeed(SeedRow):
    total: int  # messages of the thread


async def add(conn: Connection, session_id: str, seeds: Sequence[Seed]) -> None:
    """Store the seeds of a new session, in order."""
    rows = [row_values(seed) | {"ordinal": ordinal} for ordinal, seed in enumerate(seeds)]
    await add_rows(conn, rows, session=session_id)


async def read_latest(conn: Connection, session_id: str, *, characters: int) -> tuple[list[SeedRow], int]:
    """Return the latest messages of the earlier thread that so many characters hold, in order, and how many it has.

    The last message is there in any case.
    """
    rows = await fetch_all(conn, _CountedSeed, _SQL["read_latest"], {"session": session_id, "characters": characters})
    return list(rows), rows[0].total if rows else 0


async def read_with_thread(conn: Connection, session: SessionRow) -> list[SeedRow]:
    """Return a session's seeds, in order; of a child that reads its ancestor's thread, that follows its own."""
    own, thread_of = await read(conn, session.id), session.config.get("seeds")
    if thread_of in (None, session.id):
        return own
    return [*own, *(seed for seed in await read(conn, thread_of) if seed.role != "system")]


read = Rows[SeedRow, str](SeedRow, _SQL["read"])
add_rows = StatementEach(_SQL["add"])  # those that are there already stay as they are
