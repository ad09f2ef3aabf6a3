"""What a session holds: its state and totals, what it began with, and all that a surface shows, at one moment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from consolidator.database import Database
from consolidator.llm.redaction.redact import redact
from consolidator.memory.summary import SummaryFold, render_summary
from consolidator.models.seed import SeedRow
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


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session's state as of an event."""

    session_id: str
    seq: int  # the last event
    status: str  # open | ended
    state: dict[str, Any]
    open_task: TaskRow | None
    turns: int
    compactions: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: Decimal  # USD


async def read_state(database: Database, session: str, *, viewer: Viewer = OWNER) -> SessionState:
    """Return a session's state; `session` is an id or the beginning of one. Raises NotFound."""
    async with database.connection() as conn:
        row = await find_session(conn, viewer, session, "read")
        open_task = await tasks.get_open_task(conn, row.id)
    return SessionState(
        row.id, row.head, row.status, row.state, open_task, row.turns, row.compactions, row.input_tokens,
        row.output_tokens, row.cached_tokens, row.cost,
    )  # fmt: skip


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
