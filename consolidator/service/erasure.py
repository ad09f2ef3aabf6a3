"""A person's right to be forgotten: the one explicit, logged way round the append-only log.

What hangs from an erased session goes too, and so does what was derived from it; import does not bring it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from consolidator.database import Database
from consolidator.errors import NotFound
from consolidator.jobs.consolidation.merging import merge_agent
from consolidator.jobs.indexing.indexer import forget_turns, index_facts
from consolidator.models.source import ErasureRow
from consolidator.settings import Settings
from consolidator.store.log import sessions
from consolidator.store.memory import agent_locks, erasures, rederive, scopes
from consolidator.store.memory.erasures import FamilyMember

__all__ = ["ErasurePlan", "ErasureRow", "erase_sessions", "list_erasures", "plan_erasure"]


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """What would go, to be confirmed."""

    sessions: list[FamilyMember]
    named_ids: list[str]  # the sessions a person named, by id or by their peer
    peer: str | None = None

    @property
    def events(self) -> int:
        """How many events that are."""
        return sum(session.events for session in self.sessions)


async def plan_erasure(database: Database, *, session: str | None = None, peer: str | None = None) -> ErasurePlan:
    """Return what erasing a session or a peer means; raise NotFound where there is nothing of them."""
    async with database.connection() as conn:
        ids = (
            [await sessions.find(conn, session)] if session else await erasures.list_sessions_of_peer(conn, peer or "")
        )
        if not ids:
            raise NotFound(f"there is no session with peer {peer!r}")
        return ErasurePlan(await erasures.list_family(conn, ids), ids, peer)


async def erase_sessions(database: Database, settings: Settings, plan: ErasurePlan, *, reason: str) -> dict[str, Any]:
    """Erase the planned sessions, with what was derived from them, all or nothing; publish what is left."""
    now = database.clock.now()
    events = 0
    async with database.transaction() as conn:
        # A person may have thought for minutes: what hangs from these sessions now goes, not only what was shown.
        named = await erasures.list_sessions_of_peer(conn, plan.peer) if plan.peer else plan.named_ids
        agents = sorted({session.agent for session in await erasures.list_family(conn, named)})
        for agent in agents:
            await agent_locks.lock_agent(conn, agent)
        await sessions.lock(conn, [session.id for session in await erasures.list_family(conn, named)])
        doomed = await erasures.list_family(conn, named)
        for session in doomed:
            events += await erasures.erase_session(conn, session.id, reason=reason, now=now)
        # In the order of the nights, so that none waits for us in a circle.
        await scopes.touch(conn, sorted({(session.agent, session.project or "") for session in doomed}))
        for session in doomed:
            while await forget_turns(conn, session.agent, session.id):
                pass
        if plan.peer:
            await erasures.erase_corrections(conn, plan.peer)
        for agent in agents:
            await merge_agent(conn, agent, run_id=None, cause="erasure", now=now, settings=settings)
            await erasures.erase_retired_procedures(conn, agent)
            await rederive.delete_unsupported(conn, agent)
            await index_facts(conn, agent)
    return {"sessions": len(doomed), "events": events}


async def list_erasures(database: Database, *, limit: int = 50) -> list[ErasureRow]:
    """Return what was erased, when and why, the latest first."""
    async with database.connection() as conn:
        return await erasures.list_erasures(conn, limit=limit)
