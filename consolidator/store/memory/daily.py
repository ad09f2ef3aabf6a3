"""What each run brought into memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from consolidator.database.partitions import Connection
from consolidator.store.queries import Rows, Value, fetch_all, load

_SQL = load("memory/daily")


MemoryKind = Literal["facts", "procedures", "solutions", "lessons"]
KINDS: tuple[MemoryKind, ...] = ("facts", "procedures", "solutions", "lessons")


@dataclass(frozen=True, slots=True)
class RememberedRow:
    """Something that came into memory."""

    id: str
    title: str
    is_over: bool  # it holds no more
    total: int  # how many of its kind came


async def list_remembered(
    conn: Connection, kind: MemoryKind, *, begin: datetime, end: datetime, limit: int
) -> list[RememberedRow]:
    """Return what of a kind came into memory in a span of time, the best first."""
    return await fetch_all(conn, RememberedRow, _SQL[kind], {"begin": begin, "end": end, "limit": limit})


@dataclass(frozen=True, slots=True)
class DayRow:
    """How much of what is remembered came on a day."""

    day: date
    learned: int


list_days = Rows[DayRow, datetime, str](DayRow, _SQL["by_day"], "since zone")


find_first_fact = Value[datetime | None](_SQL["first_fact"])
