"""Sessions within a viewer's reach: what every function that acts in a session asks first, where it acts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

from consolidator.database import Connection, Database
from consolidator.errors import NotFound, UsageError
from consolidator.models.event import Event
from consolidator.models.session import SessionRow
from consolidator.models.viewer import OWNER, Scope, Viewer
from consolidator.store.facts.visibility import find_reached_sessions
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import load_lineage, read_lineage

_PAGE = 500  # events read at once


async def get_session(conn: Connection, viewer: Viewer, session_id: str, scope: Scope) -> SessionRow:
    """Return the session of exactly this id.

    Raises Forbidden where the viewer lacks the scope, whether or not there is such a session; then NotFound for a
    session outside its reach, in the words for one that does not exist.
    """
    viewer.check_may(scope)
    session = await sessions.get(conn, session_id)
    if not await _reaches(conn, viewer, session):
        raise NotFound(sessions.MISSING.format(session_id))
    return session


async def find_session(conn: Connection, viewer: Viewer, name: str, scope: Scope) -> SessionRow:
    """Return the session of an id, a foreign name, or the beginning of either, as a person types it.

    For a viewer who may not abbreviate, of exactly this id.

    Raises Forbidden and NotFound as `get_session` does, and UsageError for a beginning of several, which only a viewer
    who reaches everything is told of.
    """
    viewer.check_may(scope)
    if not viewer.may_abbreviate:
        return await get_session(conn, viewer, name, scope)
    with suppress(NotFound):  # a whole id is found without looking at every session
        return await get_session(conn, viewer, name, scope)
    not_found = NotFound(f"no session is named or begins with {name!r}; `consolidator session list` lists them")
    try:
        session = await sessions.get(conn, await sessions.find_session_id(conn, name))
    except UsageError as error:  # it would name the sessions of others
        raise (not_found if viewer.is_narrowed else error) from error
    if not await _reaches(conn, viewer, session):
        raise not_found
    return session


async def check_reach(conn: Connection, viewer: Viewer, session_id: str, scope: Scope) -> None:
    """Raise Forbidden and NotFound as `get_session` does; who reaches everything is told by what follows."""
    viewer.check_may(scope)
    if viewer.is_narrowed:
        await get_session(conn, viewer, session_id, scope)


async def _reaches(conn: Connection, viewer: Viewer, session: SessionRow) -> bool:
    """Tell whether a session is within a viewer's reach; it is the person's who is the peer of its lineage's root."""
    if viewer.peer is not None and not await find_reached_sessions(conn, [session.id], peer=viewer.peer):
        return False
    return viewer.reaches(agent=session.agent, project=session.project, peer=viewer.peer)


async def load_session(
    database: Database, session_id: str, scope: Scope = "read", *, viewer: Viewer = OWNER
) -> SessionRow:
    """Return the session of exactly this id. Raises as `get_session` does."""
    async with database.connection() as conn:
        return await get_session(conn, viewer, session_id, scope)


async def load_events(
    database: Database,
    session_id: str,
    *,
    after: int | None = None,
    history: bool = False,
    limit: int = 100,
    viewer: Viewer = OWNER,
) -> tuple[SessionRow, list[Event]]:
    """Return a session's row, and its next events after a seq, by default from the beginning. Raises NotFound.

    With `history`, what a child reads of its ancestors' logs comes first.
    """
    async with database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "read")
        lineage = await load_lineage(conn, session.id, session)
        begin = after if history else max(session.base_seq if after is None else after, session.base_seq)
        return session, await read_lineage(conn, lineage, after=begin, upto=session.head, limit=limit)


async def read_past(
    database: Database, session_id: str, *, after: int | None = None, upto: int | None = None, limit: int = 2**62
) -> AsyncIterator[Event]:
    """Yield the first events of a session's past after a position, page by page; by default all that can be read."""
    async with database.connection() as conn:
        session = await sessions.get(conn, session_id)
        lineage = await load_lineage(conn, session_id, session)
    position = max(lineage.readable_after, lineage.begins_after if after is None else after)
    end = min(session.head, position + limit, session.head if upto is None else upto)
    while position < end:
        async with database.connection() as conn:
            page = await read_lineage(conn, lineage, after=position, upto=end, limit=_PAGE)
        for event in page:
            yield event
        position = page[-1].seq if page else end


async def find_session_id(database: Database, name: str) -> str:
    """Return the id of the session with an id, a foreign name, or the beginning of either; raise NotFound for none."""
    async with database.connection() as conn:
        return await sessions.find_session_id(conn, name)
