"""Sub-agents of a session: give one a task, wait for it or not, look what came of it."""

from __future__ import annotations

from dataclasses import replace

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.models.session import SessionRow
from consolidator.runtime.session.spawn_request import SpawnRequest, SpawnResult
from consolidator.runtime.turn.harness import Harness
from consolidator.runtime.turn.sub_agents import create_sub_agent, is_unfinished, read_result
from consolidator.runtime.turn.wake import spawn_sub_agent
from consolidator.service.sessions.access import load_session
from consolidator.service.viewer import OWNER, Viewer


async def spawn(
    harness: Harness, session_id: str, request: SpawnRequest, *, call_id: str, viewer: Viewer = OWNER
) -> SpawnResult:
    """Give a task to a sub-agent of a session, and return what came of it; a call's id has one sub-agent.

    Raises Forbidden, NotFound, and UsageError for a session that may have none and for what none could run with.
    """
    session = await load_session(harness.database, session_id, "write", viewer=viewer)
    return await spawn_sub_agent(harness, session.id, request, call_id=call_id)


async def start_sub_agent(
    database: Database,
    harness: Harness,
    session_id: str,
    request: SpawnRequest,
    *,
    call_id: str,
    viewer: Viewer = OWNER,
) -> tuple[SessionRow, SpawnResult | None]:
    """Create a sub-agent with its task, which a driver does from now on; a call's id has one.

    Returns it, and what came of it: None while it is at work. `database` may be one open transaction. Raises as
    `spawn` does.
    """
    session = await load_session(database, session_id, "write", viewer=viewer)
    in_transaction = replace(harness, database=database)
    child = await create_sub_agent(in_transaction, session.id, request, call_id=call_id, by="program")
    return child, None if is_unfinished(child) else await read_result(database, child.id)


async def read_sub_agent(
    database: Database, session_id: str, *, viewer: Viewer = OWNER
) -> tuple[SessionRow, SpawnResult | None]:
    """Return a sub-agent, and what came of it; None while it is at work.

    Raises Forbidden, NotFound, and UsageError for a session that is no sub-agent.
    """
    session = await load_session(database, session_id, "read", viewer=viewer)
    if session.kind != "sub-agent" or session.trigger_id is None:
        raise UsageError(f"session {session.id} is no sub-agent: only those have a result")
    return session, None if is_unfinished(session) else await read_result(database, session.id)
