"""Which jobs of a night are due, and on which days one is."""

from __future__ import annotations

from datetime import date

from consolidator.database import Database
from consolidator.jobs.cron import WallClockTrigger
from consolidator.jobs.nightly import JOBS, Job, JobRunner
from consolidator.settings import Settings


async def list_due_jobs(database: Database, settings: Settings) -> list[Job]:
    """Return the jobs whose latest scheduled time has not been done, in the order of a night."""
    runner = JobRunner(database, settings)
    return [job for job in JOBS if await runner.due_at(job) is not None]


def due_days(settings: Settings, first: date, last: date) -> set[date]:
    """Return the days, the first and last among them, for which a consolidation is scheduled."""
    trigger = WallClockTrigger(settings.consolidation_cron, settings.timezone)
    return set(trigger.days_between(first, last))
