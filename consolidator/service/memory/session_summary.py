"""A session's summary: its tools, errors, approvals and sub-agents, as a prompt would hold them."""

from __future__ import annotations

from typing import Any

from consolidator.database import Database
from consolidator.llm.redaction.redact import redact
from consolidator.memory.summary import SummaryFold, render_summary
from consolidator.store.calls import digests
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import load_lineage, read_lineage

EVENTS_PER_READ = 2000


async def summarize_session(database: Database, session_name: str) -> dict[str, Any]:
    """Return a session's summary as state and as text: what the nights folded, then the events since."""
    async with database.connection() as conn:
        session = await sessions.get(conn, await sessions.find_session_id(conn, session_name))
        lineage = await load_lineage(conn, session.id, session)
        stored = {} if lineage.ancestors else await digests.get_each(conn, [session.id])  # of its own events alone
        digest = stored.get(session.id)
        after = session.consolidated_to if digest else lineage.readable_after
        fold = SummaryFold.from_json(digest.summary) if digest else SummaryFold()
        while batch := await read_lineage(conn, lineage, after=after, upto=session.head, limit=EVENTS_PER_READ):
            for event in batch:
                fold.feed(event)
            after = batch[-1].seq
    state = fold.to_json()
    return {"session": session.id, "state": state, "text": redact(render_summary(state))}
