"""What people do in a session: send messages, steer, wake it. Whoever drives the session acts on it."""

from __future__ import annotations

from consolidator.database import Database
from consolidator.errors import Forbidden
from consolidator.models.session import SessionRow
from consolidator.models.session_key import is_group
from consolidator.runtime.session.changes import check_driven_here, session_ended
from consolidator.runtime.turn import sessions as runtime
from consolidator.runtime.turn.sessions import MessageMode
from consolidator.service.sessions.access import get_session, load_session
from consolidator.service.viewer import OWNER, Viewer
from consolidator.store.sessions import sessions
from consolidator.store.turns import lease


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


async def request_wake(database: Database, session_id: str, *, viewer: Viewer = OWNER) -> SessionRow:
    """Have a driver look at a session, though nothing new was said, and return its row. Raises SessionClosed."""
    async with database.transaction() as conn:
        session = await get_session(conn, viewer, session_id, "write")
        check_driven_here(session)
        if not await lease.mark_pending(conn, session.id, now=database.clock.now()):
            raise session_ended(session.id)
        return await sessions.get(conn, session.id)
