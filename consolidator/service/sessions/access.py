"""Sessions within a viewer's reach, and who may speak in them."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Literal

from consolidator.database import Connection, Database
from consolidator.errors import Forbidden, NotFound, UsageError
from consolidator.models.event import Event
from consolidator.models.session import SessionRow
from consolidator.models.session_key import is_group
from consolidator.runtime.session.changes import check_driven_here, session_ended
from consolidator.runtime.session.safe_points import Recovery, find_recovery
from consolidator.runtime.turn import sessions as runtime
from consolidator.runtime.turn.sessions import MessageMode
from consolidator.service.viewer import OWNER, Scope, Viewer
from consolidator.store.facts.visibility import find_reached_sessions
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import load_lineage, read_lineage
from consolidator.store.turns import lease
from consolidator.store.turns.lease import AttentionRow


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


async def load_session_to_drive(database: Database, session_id: str, *, viewer: Viewer = OWNER) -> SessionRow:
    """Return the row of a session that is driven here. Raises NotFound, and SessionClosed for one that is only read."""
    session = await load_session(database, session_id, "write", viewer=viewer)
    check_driven_here(session)
    return session


async def find_session_id(database: Database, name: str) -> str:
    """Return the id of the session with an id, a foreign name, or the beginning of either; raise NotFound for none."""
    async with database.connection() as conn:
        return await sessions.find_session_id(conn, name)


async def send_message(
    database: Database,
    session_id: str,
    text: str,
    *,
    mode: MessageMode = "message",
    speaker: str | None = None,
    viewer: Viewer = OWNER,
) -> int:
    """Append a person's message, said by `user:NAME` of the credential, and return its seq; a driver answers it.

    Raises Forbidden for a speaker whom the credential may not name, UsageError for a blank message, and SessionClosed.
    """
    if not may_speak_as(viewer, speaker):
        raise Forbidden("this credential is for one peer, who is the speaker: leave speaker out")
    session = await load_session(database, session_id, "write", viewer=viewer)
    return await runtime.send_message(database, session.id, text, mode=mode, speaker=speaker, surface=viewer.name)


def may_speak_as(viewer: Viewer, speaker: str | None) -> bool:
    """Tell whether a speaker may be named: who speaks for one person names nobody else; a group has many speakers."""
    return speaker is None or viewer.peer is None or is_group(viewer.peer) or speaker == viewer.peer


async def stop_turn(database: Database, session_id: str, *, viewer: Viewer = OWNER) -> int | None:
    """Ask that what is under way in a session ends, as `user:NAME` of the credential.

    Returns the seq of that in the log; None where nothing is under way. Raises SessionClosed.
    """
    session = await load_session(database, session_id, "write", viewer=viewer)
    return await runtime.stop_turn(database, session.id, surface=viewer.name)


async def request_wake(database: Database, session_id: str, *, viewer: Viewer = OWNER) -> tuple[SessionRow, Recovery]:
    """Have a driver look at a session, though nothing new was said. Raises SessionClosed.

    Return its row, and what the driver will find.
    """
    async with database.transaction() as conn:
        session = await get_session(conn, viewer, session_id, "write")
        check_driven_here(session)
        if not await lease.mark_pending(conn, session.id, now=database.clock.now()):
            raise session_ended(session.id)
        return await sessions.get(conn, session.id), await find_recovery(conn, session)


async def list_attention(
    database: Database, *, after: tuple[datetime, str] | None = None, limit: int = 50, viewer: Viewer = OWNER
) -> list[AttentionRow]:
    """Return the sessions within reach in which calls wait for a person, the latest first.

    `after` is the last event's moment and the id of the session that a page ended with.
    """
    viewer.check_may("read")
    async with database.connection() as conn:
        return await lease.list_attention(
            conn, agent=viewer.agent, project=viewer.project, peer=viewer.peer, after=after, limit=limit
        )


async def decide_approval(
    database: Database,
    call_id: str,
    *,
    allow: bool,
    reason: str | None = None,
    session_id: str | None = None,
    viewer: Viewer = OWNER,
) -> str:
    """Allow or deny a call that waits for approval, and return its session's id.

    Raises NotFound if none within reach waits for it, and UsageError if calls of several sessions have this id and
    `session_id` names none of them.
    """
    session = await _find_session(database, call_id, session_id, viewer)
    return await runtime.decide_approval(
        database, call_id, allow=allow, reason=reason, surface=viewer.name, session_id=session
    )


async def resolve_call(
    database: Database,
    call_id: str,
    outcome: Literal["ok", "failed"],
    *,
    session_id: str | None = None,
    viewer: Viewer = OWNER,
) -> str:
    """Record how an uncertain call went, and return its session's id. Raises as `decide_approval` does."""
    session = await _find_session(database, call_id, session_id, viewer)
    return await runtime.resolve_call(database, call_id, outcome, surface=viewer.name, session_id=session)


async def _find_session(database: Database, call_id: str, session_id: str | None, viewer: Viewer) -> str:
    """Return the session within reach in which a call waits."""
    viewer.check_may("write")
    matching = []
    async with database.connection() as conn:
        for waiting_id in await lease.find_waiting_sessions(conn, call_id):
            if session_id in (None, waiting_id):
                try:
                    matching.append((await get_session(conn, viewer, waiting_id, "write")).id)
                except NotFound:
                    continue
    if not matching:
        raise runtime.no_waiting_call(call_id)
    if len(matching) > 1:
        raise UsageError(
            f"calls of several sessions are called {call_id!r}: name the session, of {', '.join(matching)}"
        )
    return matching[0]
