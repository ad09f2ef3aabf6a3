"""What each day brought: events read, facts, failures that a fix was known for, and cost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

from consolidator.database.partitions import Connection
from consolidator.store.queries import Rows, fetch_all, fetch_value, load

_SQL = load("memory/daily")


@dataclass(frozen=True, slots=True)
class DayRow:
    """A day in UTC."""

    day: date
    events: int  # that nights of the day read
    learned: int  # of them, those that something was learned from
    facts: int  # that came to be believed
    failures: int  # that an agent met though a fix was known, and was told
    fixed: int  # of them, those where the fix worked
    cost: Decimal  # of models' calls, in USD, where prices are known


@dataclass(frozen=True, slots=True)
class RepeatedFailureRow:
    """An error that was met again though a fix was known."""

    id: str
    session_id: str
    agent: str
    project: str | None
    cited: list[str]  # citations, such as "solution:sol_1"
    fix: dict[str, Any]
    outcome: str | None  # worked | failed | not_tried; None where the log does not tell yet
    created_at: datetime


async def find_first_fact(conn: Connection) -> datetime | None:
    """Return when memory came to believe its first fact; None before."""
    first: datetime | None = await fetch_value(conn, _SQL["first_fact"])
    return first


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


list_days = Rows[DayRow, datetime, datetime](DayRow, _SQL["by_day"], "since now")
list_repeated_failures = Rows[RepeatedFailureRow, datetime, int](
    RepeatedFailureRow, _SQL["repeated_failures"], "since limit"
)
