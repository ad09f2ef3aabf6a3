"""What model calls cost."""

from __future__ import annotations

from datetime import datetime

from consolidator.database import Database
from consolidator.runtime import cost
from consolidator.runtime.cost import COST_GROUPINGS, Cost

__all__ = ["COST_GROUPINGS", "Cost", "load_costs"]


async def load_costs(
    database: Database,
    by: str = "session",
    *,
    session_id: str | None = None,
    agent: str | None = None,
    since: datetime | None = None,
    limit: int | None = None,
) -> tuple[list[Cost], Cost]:
    """Return what model calls cost, summed by one of COST_GROUPINGS, and the sum of all."""
    async with database.connection() as conn:
        day = since.date() if since else None
        return await cost.load_costs(conn, by, session=session_id, agent=agent, since=day, limit=limit)
