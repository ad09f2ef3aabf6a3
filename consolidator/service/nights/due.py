"""Which jobs of a night are due."""

from __future__ import annotations

from consolidator.database import Database
from consolidator.jobs.nightly import JOBS, Job, JobRunner
from consolidator.settings import Settings


async def list_due_jobs(database: Database, settings: Settings) -> list[Job]:
    """Return the jobs whose latest scheduled time has not been done, in the order of a night."""
    runner = JobRunner(database, settings)
    return [job for job in JOBS if await runner.due_at(job) is not None]
