"""What each run brought into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from consolidator.database.partitions import Connection
from consolidator.store.queries import Pairs, Rows, Value, fetch_all, load

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


list_days = Pairs[date, int, datetime, str](_SQL["by_day"], "since zone")


@dataclass(frozen=True, slots=True)
class WeekRow:
    """What came of memory in a week: sessions in which a known situation came, and in which it failed."""

    monday: date
    told: int
    told_failed: int
    untold: int
    untold_failed: int
    runs: int  # of commands that memory knows, told or not
    runs_failed: int
    tokens: int  # that hooks told
    sessions: int  # that were told them


list_weeks = Rows[WeekRow, datetime, Sequence[str]](WeekRow, _SQL["by_week"], "since commands")
find_first_fact = Value[datetime | None](_SQL["first_fact"])
