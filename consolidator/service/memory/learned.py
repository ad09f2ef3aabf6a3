"""What the agents learned since a moment."""

from __future__ import annotations

from datetime import datetime

from consolidator.database import Database
from consolidator.store.log.projects import resolve_project
from consolidator.store.memory import learned
from consolidator.store.memory.learned import KINDS, LearnedNews

__all__ = ["KINDS", "LearnedNews", "load_learned"]


async def load_learned(
    database: Database,
    since: datetime | None = None,
    *,
    agent: str | None = None,
    project: str | None = None,
    limit: int = 10,
) -> LearnedNews | None:
    """Return what was learned since a moment, or else since the latest night that learned; None before the first."""
    async with database.connection() as conn:
        project = await resolve_project(conn, project, agent=agent)
        since = since or await learned.find_latest_night(conn)
        if since is None:
            return None
        return await learned.load_learned(conn, since, agent=agent, project=project, limit=limit)
