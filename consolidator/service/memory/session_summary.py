"""A session's summary: its tools, errors, approvals and sub-agents, as a prompt would hold them."""

from __future__ import annotations

from typing import Any

from consolidator.database import Database
from consolidator.llm.redaction.redact import redact
from consolidator.memory.summary import SummaryFold, render_summary
from consolidator.store.log import events, sessions
from consolidator.store.memory import digests

EVENTS_PER_READ = 2000


async def summarize_session(database: Database, session_name: str) -> dict[str, Any]:
    """Return a session's summary as state and as text: what the nights folded, then the events since."""
    async with database.connection() as conn:
        session = await sessions.get(conn, await sessions.find_session_id(conn, session_name))
        digest = (await digests.get_each(conn, [session.id])).get(session.id)
        after = session.consolidated_to if digest else session.pruned_to
        fold = SummaryFold.from_json(digest.summary) if digest else SummaryFold()
        while batch := await events.read(
            conn, session.id, after=after, limit=EVENTS_PER_READ, bounds=session.ingest_bounds
        ):
            for event in batch:
                fold.feed(event)
            after = batch[-1].seq
    state = fold.to_json()
    return {"session": session.id, "state": state, "text": redact(render_summary(state))}
