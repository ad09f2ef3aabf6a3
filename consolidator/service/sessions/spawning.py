"""Sub-agents of a session: give one a task, list those at work."""

from __future__ import annotations

from consolidator.models.session import SessionRow
from consolidator.runtime.harness import Harness
from consolidator.runtime.spawn_request import RESULT_MODES, ResultMode, SpawnRequest, SpawnResult
from consolidator.runtime.sub_agents import list_unfinished
from consolidator.runtime.wake import spawn_sub_agent
from consolidator.service.sessions.access import get_session
from consolidator.service.viewer import OWNER, Viewer
from consolidator.store.log import sessions

__all__ = ["RESULT_MODES", "ResultMode", "SpawnRequest", "SpawnResult", "list_sub_agents_at_work", "spawn"]


async def spawn(
    harness: Harness, session_id: str, request: SpawnRequest, *, call_id: str, viewer: Viewer = OWNER
) -> SpawnResult:
    """Give a task to a sub-agent of a session, and return what came of it; a call's id has one sub-agent.

    Raises Forbidden, NotFound, and UsageError for a session that may have none and for what none could run with.
    """
    async with harness.database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "write")
    return await spawn_sub_agent(harness, session.id, request, call_id=call_id)


async def list_sub_agents_at_work(harness: Harness, session_id: str, *, viewer: Viewer = OWNER) -> list[SessionRow]:
    """Return the sub-agents of a session whose end its log does not have yet. Raises Forbidden and NotFound."""
    async with harness.database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "read")
    children = await list_unfinished(harness.database, session.id)
    async with harness.database.connection() as conn:
        return await sessions.get_each(conn, [child.id for child in children])
