"""What each day and each run brought, and which errors came again though a fix was known."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from consolidator.database import Database
from consolidator.service.viewer import OWNER, Viewer
from consolidator.store.memory import daily
from consolidator.store.memory.daily import KINDS, DayRow, MemoryKind, RememberedRow, RepeatedFailureRow

MAX_FAILURES = 20


@dataclass(frozen=True, slots=True)
class RecentDays:
    """The latest days, the newest first."""

    days: list[DayRow]
    failures: list[RepeatedFailureRow]  # the latest ones of these days


async def find_first_fact(database: Database, *, viewer: Viewer = OWNER) -> datetime | None:
    """Return when memory came to believe its first fact. Raises Forbidden for who does not reach everything."""
    viewer.check_may("read")
    viewer.check_unnarrowed()
    async with database.connection() as conn:
        return await daily.find_first_fact(conn)


async def load_days(database: Database, days: int, *, viewer: Viewer = OWNER) -> RecentDays:
    """Return what the latest days brought. Raises Forbidden for a viewer who does not reach everything."""
    viewer.check_may("read")
    viewer.check_unnarrowed()
    now = database.clock.now()
    since = (now - timedelta(days=days - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
    async with database.connection() as conn:
        return RecentDays(
            await daily.list_days(conn, since, now),
            await daily.list_repeated_failures(conn, since, MAX_FAILURES),
        )


async def load_run_memory(
    database: Database, *, started_at: datetime, finished_at: datetime | None, limit: int = 10, viewer: Viewer = OWNER
) -> dict[MemoryKind, list[RememberedRow]]:
    """Return what came into memory from a run's beginning to its end, the best of each kind; no kind is empty.

    Raises Forbidden for a viewer who does not reach everything.
    """
    viewer.check_may("read")
    viewer.check_unnarrowed()
    end = finished_at or database.clock.now()
    async with database.connection() as conn:
        remembered = {
            kind: await daily.list_remembered(conn, kind, begin=started_at, end=end, limit=limit) for kind in KINDS
        }
    return {kind: rows for kind, rows in remembered.items() if rows}
