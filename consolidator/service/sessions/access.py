"""The one way to a session for whoever is not the owner: what lies outside a credential's reach is not there."""

from __future__ import annotations

from contextlib import suppress

from consolidator.database import Connection
from consolidator.errors import NotFound, UsageError
from consolidator.models.session import SessionRow
from consolidator.service.viewer import Scope, Viewer
from consolidator.store.facts.visibility import find_reached_sessions
from consolidator.store.sessions import sessions


async def get_session(conn: Connection, viewer: Viewer, session_id: str, scope: Scope) -> SessionRow:
    """Return the session of exactly this id.

    Raises Forbidden where the viewer lacks the scope, whether or not there is such a session; then NotFound for a
    session outside its reach, in the words for one that does not exist.
    """
    viewer.check_may(scope)
    session = await sessions.get(conn, session_id)
    if not await _reaches(conn, viewer, session):
        raise sessions.not_found(session_id)
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


async def _reaches(conn: Connection, viewer: Viewer, session: SessionRow) -> bool:
    """Tell whether a session is within a viewer's reach; it is the person's who is the peer of its lineage's root."""
    if viewer.peer is not None and not await find_reached_sessions(conn, [session.id], peer=viewer.peer):
        return False
    return viewer.reaches(agent=session.agent, project=session.project, peer=viewer.peer)
