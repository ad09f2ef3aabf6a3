"""What each run brought into memory, and when memory began."""

from __future__ import annotations

from datetime import date, datetime

from consolidator.database import Database
from consolidator.models.viewer import OWNER, Viewer
from consolidator.store.memory import daily
from consolidator.store.memory.daily import KINDS, MemoryKind, RememberedRow
from consolidator.store.memory.daily import WeekRow as WeekRow

RUN_KINDS = ("command", "first_run_fails", "commit_check")  # of lessons: how a command is run that works


async def find_first_fact(database: Database, *, viewer: Viewer = OWNER) -> datetime | None:
    """Return when memory came to believe its first fact. Raises Forbidden for who does not reach everything."""
    viewer.check_reads_all()
    async with database.connection() as conn:
        return await daily.find_first_fact(conn)


async def load_run_memory(
    database: Database, *, started_at: datetime, finished_at: datetime | None, limit: int = 10, viewer: Viewer = OWNER
) -> dict[MemoryKind, list[RememberedRow]]:
    """Return what came into memory from a run's beginning to its end, the best of each kind; no kind is empty.

    Raises Forbidden for a viewer who does not reach everything.
    """
    viewer.check_reads_all()
    end = finished_at or database.clock.now()
    async with database.connection() as conn:
        remembered = {
            kind: await daily.list_remembered(conn, kind, begin=started_at, end=end, limit=limit) for kind in KINDS
        }
    return {kind: rows for kind, rows in remembered.items() if rows}


async def count_by_day(database: Database, since: datetime, zone: str, *, viewer: Viewer = OWNER) -> dict[date, int]:
    """Return how much was learned on each day of a time zone. Raises Forbidden for who does not reach everything."""
    viewer.check_reads_all()
    async with database.connection() as conn:
        return await daily.list_days(conn, since, zone)


async def list_weeks(database: Database, since: datetime, *, viewer: Viewer = OWNER) -> list[WeekRow]:
    """Return what came of memory, week by week. Raises Forbidden for who does not reach everything."""
    viewer.check_reads_all()
    async with database.connection() as conn:
        return await daily.list_weeks(conn, since, RUN_KINDS)
