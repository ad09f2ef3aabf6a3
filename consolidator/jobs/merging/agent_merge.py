"""Merges an agent: publishes what its sessions taught as procedures, solutions, lessons and facts.

It is made from digests, records and candidates, so their order does not matter and a merge can be repeated.
What several projects share belongs to the agent.
"""

from __future__ import annotations

from datetime import datetime

from consolidator.database import Connection
from consolidator.jobs.merging.lesson_merge import merge_lessons
from consolidator.jobs.merging.procedure_merge import merge_procedures
from consolidator.jobs.merging.reconciling import reconcile_agent
from consolidator.jobs.merging.solution_merge import merge_solutions
from consolidator.models.provenance import Cause, Changes, Provenance
from consolidator.settings import Settings
from consolidator.store.calls import scopes


async def merge_agent(
    conn: Connection, agent: str, *, run_id: str | None, now: datetime, settings: Settings, cause: Cause = "run"
) -> Changes:
    """Publish what has news for an agent, in the caller's transaction."""
    await scopes.lock_agents(conn, [agent])
    changes = Changes()
    provenance = Provenance(run_id, cause, now)
    published = await merge_procedures(conn, agent, provenance, changes, min_support=settings.min_support)
    await merge_solutions(conn, agent, provenance, changes, min_support=settings.min_support)
    await reconcile_agent(conn, agent, provenance, changes)
    await merge_lessons(conn, published, provenance, changes)
    return changes
