"""Erasure: the one explicit, logged exception to the append-only log, for a person's right to be forgotten.

It removes sessions, their descendants, and what was derived from them. Importing does not bring them back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from consolidator.database import Database
from consolidator.errors import NotFound
from consolidator.jobs.indexing.indexer import forget_turns, index_facts
from consolidator.jobs.merging.agent_merge import merge_agent
from consolidator.jobs.merging.lesson_merge import lock_lessons
from consolidator.jobs.merging.warning_file import write_warnings
from consolidator.models.provenance import ErasureRow
from consolidator.runtime.turn.sub_agents import cancel_sub_agent
from consolidator.settings import Settings
from consolidator.store.calls import agent_locks, scopes
from consolidator.store.memory import erasures, lessons, rederive, store_items
from consolidator.store.memory.erasures import FamilyMember
from consolidator.store.sessions import lineage, sessions


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """What would be erased, for a person to confirm."""

    sessions: list[FamilyMember]
    named_ids: list[str]  # the sessions that a person named, by id or by peer
    peer: str | None = None  # set if they were named by peer

    @property
    def events(self) -> int:
        """How many events the sessions have."""
        return sum(session.events for session in self.sessions)


async def plan_erasure(database: Database, *, session: str | None = None, peer: str | None = None) -> ErasurePlan:
    """Return what erasing a session or a peer would remove; raise NotFound if there is no such session."""
    async with database.connection() as conn:
        ids = (
            [await sessions.find_session_id(conn, session)]
            if session
            else await erasures.list_sessions_of_peer(conn, peer or "")
        )
        if not ids:
            raise NotFound(f"there is no session with peer {peer!r}")
        return ErasurePlan(await erasures.list_family(conn, ids), ids, peer)


async def erase_sessions(database: Database, settings: Settings, plan: ErasurePlan, *, reason: str) -> dict[str, Any]:
    """Erase the planned sessions with what was derived from them, all or nothing, and merge what remains."""
    async with database.connection() as conn:
        at_work = await lineage.list_unfinished_among(conn, [session.id for session in plan.sessions])
    for sub_agent in at_work:  # its parent, which may stay, learns of its end and what it cost
        await cancel_sub_agent(database, sub_agent, "it was erased")
    now = database.clock.now()
    erased_events = 0
    async with database.transaction() as conn:
        # The plan may be minutes old: descendants that were added since are erased too.
        named_ids = await erasures.list_sessions_of_peer(conn, plan.peer) if plan.peer else plan.named_ids
        planned = await erasures.list_family(conn, named_ids)
        agents = sorted({name for session in planned for name in (session.agent, session.memory)})
        await agent_locks.lock_agents(conn, agents)
        await sessions.lock(conn, [session.id for session in await erasures.list_family(conn, named_ids)])
        family = await erasures.list_family(conn, named_ids)
        changed = await scopes.list_of_sessions(conn, [session.id for session in family])
        for session in family:
            erased_events += await erasures.erase_session(conn, session.id, reason=reason, now=now)
        # Lock in the same order as the nights do, so that there is no deadlock.
        await scopes.touch(conn, changed)
        for session in family:
            while await forget_turns(conn, session.memory, session.id):
                pass
        items = 0
        if plan.peer:
            await erasures.erase_corrections(conn, plan.peer)
            items = await store_items.erase_label(conn, plan.peer)
        await lock_lessons(conn, agents)
        for agent in agents:
            await merge_agent(conn, agent, run_id=None, cause="erasure", now=now, settings=settings)
            await erasures.erase_retired_procedures(conn, agent)
            await rederive.delete_unsupported(conn, agent)
            await index_facts(conn, agent)
        for scope in changed:
            await lessons.delete_retired(conn, scope.peer, scope.project)
    await write_warnings(database, settings.home)
    return {"sessions": len(family), "events": erased_events, "store_items": items}


async def list_erasures(database: Database, *, limit: int = 50) -> list[ErasureRow]:
    """Return what was erased, when and why, the latest first."""
    async with database.connection() as conn:
        return await erasures.list_erasures(conn, limit=limit)
