"""What came into memory while a run worked."""

from __future__ import annotations

from datetime import datetime

from consolidator.database import Database
from consolidator.service.viewer import OWNER, Viewer
from consolidator.store.memory import run_memory
from consolidator.store.memory.run_memory import KINDS, MemoryKind, RememberedRow


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
        found = {
            kind: await run_memory.list_remembered(conn, kind, begin=started_at, end=end, limit=limit) for kind in KINDS
        }
    return {kind: rows for kind, rows in found.items() if rows}
