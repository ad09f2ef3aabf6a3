"""Lists sessions page by page, and shows what one holds: its totals, its state, and what its next context takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, get_args

from consolidator.database import Connection, Database
from consolidator.errors import ModelError, UsageError
from consolidator.llm.redaction.redact import redact
from consolidator.memory.text.title import title_of
from consolidator.models.principal import is_persons_word
from consolidator.models.session import SeedRow, SessionCursor, SessionFilter, SessionOrder, SessionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.session.access import find_session, get_session, load_session
from consolidator.service.log.events import read_events
from consolidator.settings import Settings
from consolidator.store.calls import digests
from consolidator.store.log import events
from consolidator.store.log.events import OutlineRow as OutlineRow
from consolidator.store.memory import learned
from consolidator.store.memory.learned import TaughtRow as TaughtRow
from consolidator.store.sessions import seeds, sessions, tasks
from consolidator.store.sessions import sessions as session_store
from consolidator.store.sessions.lineage import load_lineage
from consolidator.store.sessions.projects import resolve_project
from consolidator.store.sessions.sessions import cursor_of, list_page
from consolidator.store.sessions.tasks import TaskRow

if TYPE_CHECKING:
    from consolidator.runtime.session.hydration import HydratedSession

SessionStatus = Literal["ended", "running", "waiting", "pending", "failed", "idle"]
_FAMILY = 60  # sessions of a lineage that are shown
STATUSES: tuple[SessionStatus, ...] = get_args(SessionStatus)


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Some sessions, and where the next page begins; None on the last one."""

    sessions: list[SessionRow]
    next: SessionCursor | None
    titles: Mapping[str, str]  # by session: its first words, where the log has them


@dataclass(frozen=True, slots=True)
class ContextUse:
    """What a session's next context takes, without its tools and what memory recalls."""

    tokens: int
    budget: int  # tokens that a context of this session may take
    window: int | None  # tokens of the model's window, where it is known
    strategy: str
    model: str | None

    @property
    def share(self) -> float | None:
        """The share of the model's window; None if that is not known."""
        return None if self.window is None else self.tokens / self.window


@dataclass(frozen=True, slots=True)
class SessionDetails:
    """A session, what it is doing, and what its next context takes."""

    session: SessionRow
    status: SessionStatus
    context: ContextUse | None  # None where the context cannot be built: a prompt larger than the budget
    title: str | None = None  # its first words


async def list_sessions(
    database: Database,
    filters: SessionFilter = SessionFilter(),
    *,
    order: SessionOrder = "latest",
    after: SessionCursor | None = None,
    limit: int = 50,
    viewer: Viewer = OWNER,
) -> SessionPage:
    """Return the sessions that a filter selects, within the viewer's reach, page by page.

    `order`: `latest` (what happened last first), `created` (the newest first), `runs` (the oldest first, as the runs of
    a thread came). Raises Forbidden, and UsageError where a project's name is not clear.
    """
    viewer.check_may("read")
    reach, project = viewer.narrow(agent=filters.agent, peer=filters.peer), filters.project
    async with database.connection() as conn:
        if viewer.project is None:
            project = await resolve_project(conn, project, agent=reach.agent, peer=reach.peer)
        rows = await list_page(
            conn,
            replace(filters, agent=reach.agent, project=viewer.narrow(project=project).project),
            person=viewer.peer,
            order=order,
            after=after,
            limit=limit + 1,
            now=database.clock.now(),
        )
        page = rows[:limit]
        titles = await read_titles(conn, [row.id for row in page])
    return SessionPage(page, cursor_of(page[-1], order) if len(rows) > limit else None, titles)


@dataclass(frozen=True, slots=True)
class Outline:
    """What a session did, and what came of it."""

    session: SessionRow
    rows: list[OutlineRow]
    taught: list[TaughtRow]


async def load_outline(database: Database, session_id: str, *, limit: int, viewer: Viewer = OWNER) -> Outline:
    """Return what a session did in its first events, and what it is evidence of. Raises NotFound and Forbidden."""
    viewer.check_unnarrowed()
    async with database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "read")
        span = events.Span(session.id, session.base_seq, session.head, session.ingest_bounds)
        rows = await events.read_outline(conn, span, limit=limit)
        return Outline(session, rows, await learned.list_taught(conn, session, limit=100))


async def read_titles(conn: Connection, ids: Sequence[str]) -> dict[str, str]:
    """Return the titles of sessions: the first words that a person said in each, else that anybody did."""
    messages: dict[str, list[tuple[bool, str]]] = defaultdict(list)
    for message in await session_store.list_first_messages(conn, ids):
        is_persons = is_persons_word(message.principal, message.data)
        words = f"said: {message.first_words}" if message.is_statement else message.first_words
        messages[message.session_id].append((not is_persons, words))
    ordered = {session: [text for _, text in sorted(texts, key=itemgetter(0))] for session, texts in messages.items()}
    titles = {session: title_of(texts, redact) for session, texts in ordered.items()}
    return {session: title for session, title in titles.items() if title is not None}


async def list_children(
    database: Database, session_id: str, *, after: SessionCursor | None = None, limit: int = 50, viewer: Viewer = OWNER
) -> SessionPage:
    """Return the sessions that came of a session, the newest first, page by page. Raises NotFound, and Forbidden."""
    parent = await load_session(database, session_id, "read", viewer=viewer)
    children = SessionFilter(parent=parent.id, hidden=True)
    return await list_sessions(database, children, order="created", after=after, limit=limit, viewer=viewer)


async def list_branches(
    database: Database, session_id: str, *, limit: int = 50, viewer: Viewer = OWNER
) -> list[SessionRow]:
    """Return a session's branches, the newest first. Raises Forbidden and NotFound."""
    session = await load_session(database, session_id, "read", viewer=viewer)
    branches = SessionFilter(parent=session.id, kind="branch")
    return (await list_sessions(database, branches, order="created", limit=limit, viewer=viewer)).sessions


async def list_family(database: Database, session_id: str, *, viewer: Viewer = OWNER) -> SessionPage:
    """Return the sessions of a session's lineage within the viewer's reach, its own among them, the newest first.

    Raises NotFound, and Forbidden.
    """
    session = await load_session(database, session_id, "read", viewer=viewer)
    family = SessionFilter(root=session.root_id, hidden=True)
    page = await list_sessions(database, family, order="created", limit=_FAMILY, viewer=viewer)
    if any(row.id == session.id for row in page.sessions):
        return page
    return SessionPage([*page.sessions, session], page.next, page.titles)


async def show_session(
    database: Database, settings: Settings, name: str, *, with_context: bool = True, viewer: Viewer = OWNER
) -> SessionDetails:
    """Return a session by its id, its foreign name, or the beginning of either. Raises NotFound, and Forbidden."""
    async with database.connection() as conn:
        session = await find_session(conn, viewer, name, "read")
        titles = await read_titles(conn, [session.id])
    status = session_status(session, database.clock.now())
    use = await _measure_context(database, settings, session) if with_context else None
    return SessionDetails(session, status, use, titles.get(session.id))


def session_status(session: SessionRow, now: datetime) -> SessionStatus:
    """Return what a session is doing.

    `ended`; `running` (a harness holds it); `waiting` (for a person's decision); `pending` (something is to be
    answered); `failed` (its last turn ended in an error); `idle`.
    """
    if session.status == "ended":
        return "ended"
    if session.lease_owner is not None and session.lease_until is not None and session.lease_until > now:
        return "running"
    if session.attention:
        return "waiting"
    if session.pending:
        return "pending"
    return "failed" if session.error else "idle"


async def _measure_context(database: Database, settings: Settings, session: SessionRow) -> ContextUse | None:
    from consolidator.llm.prices import context_window  # a list of sessions needs no context
    from consolidator.runtime.session.routing import compared_model
    from consolidator.service.sessions.context import PreviewOptions, preview_context

    try:
        context, _ = await preview_context(database, settings, session.id, PreviewOptions(with_recall=False))
    except (UsageError, ModelError):
        return None
    model = compared_model(settings, session) or settings.model
    window = session.context_window or (context_window(model) if model else None)
    return ContextUse(context.tokens, context.budget, window, context.strategy, model)


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
    from consolidator.runtime.session import hydration

    async with database.snapshot() as conn:
        row = await get_session(conn, viewer, session_id, "read")
        now = database.clock.now()
        hydrated = await hydration.hydrate_session(conn, settings, row, now=now, before=before, limit=limit)
        return replace(hydrated, titles=await read_titles(conn, [row.id, *(child.id for child in hydrated.children)]))


async def summarize_session(database: Database, session_name: str) -> dict[str, Any]:
    """Return a session's summary as state and as text: what the nights folded, then the events since."""
    from consolidator.memory.summary import SummaryFold, render_summary

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
