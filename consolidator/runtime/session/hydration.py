"""All that a surface needs to show a session as it is, read at one moment.

The messages come in pages from the end; everything else is what it is now, bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from consolidator.database import Connection
from consolidator.models.event import Event
from consolidator.models.lineage import CheckpointRow
from consolidator.models.payload import EventType
from consolidator.models.session import SeedRow, SessionFilter, SessionRow
from consolidator.runtime.session.fold import OpenCall
from consolidator.runtime.session.safe_points import read_open_state
from consolidator.runtime.session.scratchpad import Scratchpad, load_scratchpad
from consolidator.settings import Settings
from consolidator.store.sessions import checkpoints, seeds, sessions, tasks
from consolidator.store.sessions.lineage import load_lineage, read_latest
from consolidator.store.sessions.tasks import TaskRow
from consolidator.store.turns import context as views

MAX_MESSAGES = 500  # of a page
MAX_LISTED = 100  # seeds, children and checkpoints, the latest of each
MAX_OPEN_EVENTS = 1_000  # read for what is open, the latest
MESSAGES = (
    EventType.USER_MESSAGE,
    EventType.ASSISTANT_RESPONSE,
    EventType.TOOL_CALL,
    EventType.TOOL_RESULT,
    EventType.APPROVAL_REQUESTED,
    EventType.APPROVAL_GRANTED,
    EventType.APPROVAL_DENIED,
    EventType.ERROR,
)


@dataclass(frozen=True, slots=True)
class HydratedSession:
    """A session at one moment."""

    session: SessionRow  # state, totals, and which calls wait for a person
    seeds: list[SeedRow]  # the rendered system prompt, then the latest of the earlier thread
    seed_count: int
    messages: list[Event]  # what was said and done, in order; of a child also what it reads of its ancestors
    earlier_before: int | None  # earlier messages lie before this event; None at the beginning
    open_calls: list[OpenCall]
    answering: str | None  # id of the message that is being generated
    open_task: TaskRow | None
    scratchpad: Scratchpad
    children: list[SessionRow]  # the newest first
    checkpoints: list[CheckpointRow]  # the latest point first
    titles: Mapping[str, str] = field(default_factory=dict)  # of the session and its children, by id


async def hydrate_session(
    conn: Connection,
    settings: Settings,
    session: SessionRow,
    *,
    now: datetime,
    before: int | None = None,
    limit: int = 50,
) -> HydratedSession:
    """Return all that a surface needs of a session, with the latest `limit` messages before an event.

    `conn` is in a transaction with one snapshot, in which the session's row was read.
    """
    lineage = await load_lineage(conn, session.id, session)
    upto = session.head if before is None else min(session.head, before - 1)
    limit = min(limit, MAX_MESSAGES)
    latest = await read_latest(conn, lineage, MESSAGES, upto=upto, limit=limit + 1)
    messages = latest[-limit:]
    state = await read_open_state(conn, session, lineage, most=MAX_OPEN_EVENTS)
    own = await seeds.read_with_thread(conn, session)
    view = await views.load_view(conn, session.id)
    return HydratedSession(
        session=session,
        seeds=[*own[:1], *own[1:][-MAX_LISTED:]],
        seed_count=len(own),
        messages=messages,
        earlier_before=messages[0].seq if len(latest) > limit else None,
        open_calls=list(state.calls),
        answering=None if state.generation is None else state.generation.message_id,
        open_task=None if session.open_task is None else await tasks.get_open_task(conn, session.id),
        scratchpad=await load_scratchpad(conn, session.id, view),
        children=await sessions.list_page(
            conn, SessionFilter(parent=session.id, hidden=True), order="created", limit=MAX_LISTED, now=now
        ),
        checkpoints=await checkpoints.list_unexpired(conn, [session.id], now, limit=MAX_LISTED),
    )
