"""What a session's model saw at the start."""

from __future__ import annotations

from consolidator.database import Database
from consolidator.models.seed import SeedRow
from consolidator.service.sessions.access import get_session
from consolidator.service.viewer import OWNER, Viewer
from consolidator.store.sessions import seeds


async def list_seeds(database: Database, session_id: str, *, viewer: Viewer = OWNER) -> list[SeedRow]:
    """Return what a session's model saw at the start, in order: the rendered system prompt, then the earlier thread.

    A child that reads its ancestor's thread has the ancestor's. Raises NotFound, and Forbidden.
    """
    async with database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "read")
        own = await seeds.read(conn, session.id)
        thread_of = session.config.get("seeds")
        if thread_of is None or thread_of == session.id:
            return own
        return [*own, *(seed for seed in await seeds.read(conn, thread_of) if seed.role != "system")]
