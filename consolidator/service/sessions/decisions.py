"""What waits for a person, and a person's decisions about it: grants, denials, and how an uncertain call went."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from consolidator.database import Database
from consolidator.errors import NotFound, UsageError
from consolidator.runtime.turn import sessions as runtime
from consolidator.service.sessions.access import get_session
from consolidator.service.viewer import OWNER, Viewer
from consolidator.store.turns import lease
from consolidator.store.turns.lease import AttentionRow


async def list_attention(
    database: Database, *, after: tuple[datetime, str] | None = None, limit: int = 50, viewer: Viewer = OWNER
) -> list[AttentionRow]:
    """Return the sessions within reach in which calls wait for a person, the latest first.

    `after` is the last event's moment and the id of the session that a page ended with.
    """
    viewer.check_may("read")
    async with database.connection() as conn:
        return await lease.list_attention(
            conn, agent=viewer.agent, project=viewer.project, peer=viewer.peer, after=after, limit=limit
        )


async def decide_approval(
    database: Database,
    call_id: str,
    *,
    allow: bool,
    reason: str | None = None,
    session_id: str | None = None,
    viewer: Viewer = OWNER,
) -> str:
    """Allow or deny a call that waits for approval, and return its session's id.

    Raises NotFound if none within reach waits for it, and UsageError if calls of several sessions have this id and
    `session_id` names none of them.
    """
    found = await _find_session(database, call_id, session_id, viewer)
    return await runtime.decide_approval(
        database, call_id, allow=allow, reason=reason, surface=viewer.name, session_id=found
    )


async def resolve_call(
    database: Database,
    call_id: str,
    outcome: Literal["ok", "failed"],
    *,
    session_id: str | None = None,
    viewer: Viewer = OWNER,
) -> str:
    """Record how an uncertain call went, and return its session's id. Raises as `decide_approval` does."""
    found = await _find_session(database, call_id, session_id, viewer)
    return await runtime.resolve_call(database, call_id, outcome, surface=viewer.name, session_id=found)


async def _find_session(database: Database, call_id: str, session_id: str | None, viewer: Viewer) -> str:
    """Return the session within reach in which a call waits."""
    viewer.check_may("write")
    found = []
    async with database.connection() as conn:
        for each in await lease.find_waiting_sessions(conn, call_id):
            if session_id in (None, each):
                try:
                    found.append((await get_session(conn, viewer, each, "write")).id)
                except NotFound:
                    continue
    if not found:
        raise runtime.no_waiting_call(call_id)
    if len(found) > 1:
        raise UsageError(f"calls of several sessions are called {call_id!r}: name the session, of {', '.join(found)}")
    return found[0]
