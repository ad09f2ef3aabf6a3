"""What a session holds: its state and totals, what it began with, and all that a surface shows, at one moment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from consolidator.database import Database
from consolidator.llm.redaction.redact import redact
from consolidator.memory.summary import SummaryFold, render_summary
from consolidator.models.seed import SeedRow
from consolidator.models.session import SessionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.session import hydration
from consolidator.runtime.session.access import find_session, get_session
from consolidator.runtime.session.hydration import HydratedSession
from consolidator.service.log.events import read_events
from consolidator.service.sessions.listing import read_titles
from consolidator.settings import Settings
from consolidator.store.calls import digests
from consolidator.store.sessions import seeds, sessions, tasks
from consolidator.store.sessions.lineage import load_lineage
from consolidator.store.sessions.tasks import TaskRow


async def read_state(database: Database, session: str, *, viewer: Viewer = OWNER) -> tuple[SessionRow, TaskRow | None]:
    """Return a session, which has its state and totals, and the task that is open in it.

    `session` is an id or the beginning of one. Raises Forbidden and NotFound.
    """
    async with database.connection() as conn:
        row = await find_session(conn, viewer, session, "read")
        return row, await tasks.get_open_task(conn, row.id)


async def list_seeds(database: Database, session_id: str, *, viewer: Viewer = OWNER) -> list[SeedRow]:
    """Return what a session's model saw at the start, in order: the rendered system prompt, then the earlier thread.

    A child that reads its ancestor's thread has the ancestor's. Raises NotFound, and Forbidden.
    """
    async with database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "read")
        return await seeds.read_with_thread(conn, session)


async def hydrate_session(
    database: Database,
    settings: Settings,
    session_id: str,
    *,
    before: int | None = None,
    limit: int = 50,
    viewer: Viewer = OWNER,
) -> HydratedSession:
    """Return a session with titles, seeds, messages, open calls, notes, children and checkpoints, all of one moment.

    The messages are the latest `limit` before an event. Raises NotFound, and Forbidden.
    """
    async with database.snapshot() as conn:
        row = await get_session(conn, viewer, session_id, "read")
        now = database.clock.now()
        hydrated = await hydration.hydrate_session(conn, settings, row, now=now, before=before, limit=limit)
        return replace(hydrated, titles=await read_titles(conn, [row.id, *(child.id for child in hydrated.children)]))


async def summarize_session(database: Database, session_name: str) -> dict[str, Any]:
    """Return a session's summary as state and as text: what the nights folded, then the events since."""
    async with database.connection() as conn:
        session = await sessions.get(conn, await sessions.find_session_id(conn, session_name))
        lineage = await load_lineage(conn, session.id, session)
        stored = {} if lineage.ancestors else await digests.get_each(conn, [session.id])  # of its own events alone
    digest = stored.get(session.id)
    fold = SummaryFold.from_json(digest.summary) if digest else SummaryFold()
    async for event in read_events(database, session.id, after=session.consolidated_to if digest else None):
        fold.feed(event)
    state = fold.to_json()
    return {"session": session.id, "state": state, "text": redact(render_summary(state))}
