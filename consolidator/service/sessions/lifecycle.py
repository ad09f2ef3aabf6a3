"""The life of a session: created with all that its agent and its caller say, opened by its key, ended."""

from __future__ import annotations

from dataclasses import replace

from consolidator.database import Connection, Database
from consolidator.errors import NotFound
from consolidator.models.principal import Role, name_principal
from consolidator.models.session import SessionRow
from consolidator.runtime.session import creation
from consolidator.runtime.session.changes import check_driven_here
from consolidator.runtime.session.creation import SessionRequest
from consolidator.runtime.turn import sessions
from consolidator.service.sessions.access import find_session, get_session, load_session
from consolidator.service.sessions.agents import pin_template
from consolidator.service.viewer import OWNER, OWNER_NAME, Viewer
from consolidator.settings import Settings
from consolidator.store.sessions import sessions as session_store


async def create_session(
    database: Database,
    settings: Settings,
    request: SessionRequest,
    *,
    agent: str | None = None,
    channel: str | None = None,
    peer: str | None = None,
    key: str | None = None,
    viewer: Viewer = OWNER,
) -> SessionRow:
    """Create a session, within the viewer's reach; what its caller leaves open is its agent's.

    A `key` names it from now on, and it continues that conversation. Raises Forbidden, NotFound for the conversation of
    a session out of reach, and UsageError for what no session could run with, or another agent, project or peer than
    the credential's.
    """
    viewer.check_may("write")
    if key is not None:
        named_agent, _, named_peer = creation.parse_key(key)
        viewer.narrow(agent=named_agent, peer=named_peer or "")
    reach = viewer.narrow(agent=agent, project=request.project, peer=peer)
    async with database.connection() as conn:
        await _check_conversation(conn, viewer, request.conversation_id)
    request = await pin_template(database, request, viewer=viewer)
    return await creation.create_session(
        database,
        settings,
        replace(request, project=reach.project or None),
        agent=agent if key is not None else reach.agent,
        channel=channel,
        peer=peer if key is not None else reach.peer or None,
        key=key,
        principal=_operator(viewer),
    )


async def open_session(
    database: Database, settings: Settings, key: str, request: SessionRequest, *, viewer: Viewer = OWNER
) -> SessionRow:
    """Return the session that a key names now, within the viewer's reach; create it if there is none.

    What the request names is set on a session that exists. Raises as `create_session` does.
    """
    viewer.check_may("write")
    agent, _, peer = creation.parse_key(key)
    reach = viewer.narrow(agent=agent, project=request.project, peer=peer or "")
    async with database.connection() as conn:
        await _check_conversation(conn, viewer, request.conversation_id)
        current = await session_store.get_current(conn, key)
        if current is not None:
            try:
                await get_session(conn, viewer, current.id, "write")
            except NotFound as error:  # it would name a session that is not the viewer's
                raise NotFound("this key names a session that this credential does not reach: take another") from error
    request = await pin_template(database, request, viewer=viewer)
    return await creation.open_session(
        database, settings, key, replace(request, project=reach.project or None), principal=_operator(viewer)
    )


async def end_session(
    database: Database, name: str, *, reason: str | None = None, hide: bool = False, viewer: Viewer = OWNER
) -> SessionRow:
    """End a session: its key names none then. With `hide` it is not listed either; nothing is deleted.

    Raises NotFound, Forbidden, and UsageError for a session that another harness drives.
    """
    async with database.connection() as conn:
        session = await find_session(conn, viewer, name, "write")
    check_driven_here(session)
    await sessions.end_session(
        database, session.id, reason=reason or "ended by the user", hide=hide, principal=_operator(viewer)
    )
    return await load_session(database, session.id, "write", viewer=viewer)


async def _check_conversation(conn: Connection, viewer: Viewer, conversation_id: str | None) -> None:
    """Raise NotFound for the conversation of a session that is not within the viewer's reach; other names are free."""
    if conversation_id is not None and await session_store.get_each(conn, [conversation_id]):
        await get_session(conn, viewer, conversation_id, "write")


def _operator(viewer: Viewer) -> str:
    """Return who configures: the machine's owner, or a credential by its name."""
    return name_principal(Role.OPERATOR, None if viewer.name == OWNER_NAME else viewer.name)
