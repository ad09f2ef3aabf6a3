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
from consolidator.settings import Settings
from consolidator.store.log import sessions
from consolidator.store.memory import digests, rederive
from consolidator.store.queries import Row


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """What would go, to be confirmed."""

    sessions: list[Row]
    named: list[str]  # the sessions a person named, by id or by their peer
    peer: str | None = None

    @property
    def events(self) -> int:
        """How many events that are."""
        return sum(session["events"] for session in self.sessions)


async def plan(database: Database, *, session: str | None = None, peer: str | None = None) -> ErasurePlan:
    """Return what erasing a session or a peer means; raise NotFound where there is nothing of them."""
    async with database.connection() as conn:
        ids = [await sessions.find(conn, session)] if session else await rederive.of_peer(conn, peer or "")
        if not ids:
            raise NotFound(f"there is no session with peer {peer!r}")
        return ErasurePlan(await rederive.family(conn, ids), ids, peer)


async def erase(database: Database, settings: Settings, planned: ErasurePlan, *, reason: str) -> dict[str, Any]:
    """Erase the planned sessions, with what was derived from them, all or nothing; publish what is left."""
    now = database.clock.now()
    events = 0
    async with database.transaction() as conn:
        # A person may have thought for minutes: what hangs from these sessions now goes, not only what was shown.
        named = await rederive.of_peer(conn, planned.peer) if planned.peer else planned.named
        agents = sorted({session["agent"] for session in await rederive.family(conn, named)})
        for agent in agents:
            await digests.lock_agent(conn, agent)
        await sessions.lock(conn, [session["id"] for session in await rederive.family(conn, named)])
        doomed = await rederive.family(conn, named)
        for session in doomed:
            events += await rederive.erase(conn, session["id"], reason=reason, now=now)
        # In the order of the nights, so that none waits for us in a circle.
        await digests.touch_scopes(conn, sorted({(one["agent"], one["project"] or "") for one in doomed}))
        for session in doomed:
            while await forget_turns(conn, session["agent"], session["id"]):
                pass
        if planned.peer:
            await rederive.erase_words(conn, planned.peer)
        for agent in agents:
            await merge_agent(conn, agent, run_id="erase", now=now, settings=settings)
            await rederive.forget_retired(conn, agent)
            await rederive.sweep(conn, agent)
            await index_facts(conn, agent)
    return {"sessions": len(doomed), "events": events}
