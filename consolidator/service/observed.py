"""The state of the whole service for whoever watches it: nights, queue, what waits. A bounded look, never a history."""

from __future__ import annotations

from dataclasses import dataclass

from consolidator.database import Database
from consolidator.service.viewer import OWNER, Viewer
from consolidator.store import observed
from consolidator.store.observed import DrivingQueue, LastRun, WaitingWork

JOBS = ("import", "consolidation", "retention", "backfill", "retry")
MAX_COUNTED = 10_000  # of anything: a count that reaches it means so many or more


@dataclass(frozen=True, slots=True)
class ServiceState:
    """What is watched from outside, as of now."""

    runs: list[LastRun]
    queue: DrivingQueue
    queue_age_seconds: float  # of the session in the queue that was quiet for longest; 0 where it is empty
    waiting: WaitingWork


async def load_service_state(database: Database, *, viewer: Viewer = OWNER) -> ServiceState:
    """Return the state of the service. Raises Forbidden for a viewer who may not read, or not everything."""
    viewer.check_may("read")
    viewer.check_unnarrowed()
    now = database.clock.now()
    async with database.connection() as conn:
        queue = await observed.load_queue(conn, now=now, limit=MAX_COUNTED)
        return ServiceState(
            runs=await observed.load_last_runs(conn, JOBS),
            queue=queue,
            queue_age_seconds=0.0 if queue.since is None else max(0.0, (now - queue.since).total_seconds()),
            waiting=await observed.load_waiting(conn, limit=MAX_COUNTED),
        )
