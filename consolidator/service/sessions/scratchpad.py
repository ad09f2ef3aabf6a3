"""The scratchpad of a session: read it, and change it as a person."""

from __future__ import annotations

from consolidator.database import Database
from consolidator.models.principal import Role, name_principal
from consolidator.runtime.session import scratchpad as runtime
from consolidator.runtime.session.scratchpad import Scratchpad, ScratchpadEdit
from consolidator.service.sessions.access import find_session, get_session
from consolidator.service.viewer import OWNER, Viewer
from consolidator.settings import Settings


async def read_scratchpad(
    database: Database, settings: Settings, session: str, *, viewer: Viewer = OWNER
) -> Scratchpad:
    """Return a session's scratchpad and its version; `session` is an id or the beginning of one."""
    async with database.connection() as conn:
        session_id = (await find_session(conn, viewer, session, "read")).id
    return await runtime.read_scratchpad(database, session_id, limit=settings.scratchpad_max_chars)


async def change_scratchpad(
    database: Database,
    settings: Settings,
    session_id: str,
    edit: ScratchpadEdit,
    *,
    expected_seq: int | None = None,
    surface: str | None = None,
    viewer: Viewer = OWNER,
) -> Scratchpad:
    """Change a session's scratchpad, as a person on a surface; with `expected_seq`, only that version.

    Raises UsageError, with both sizes, for a text beyond the limit, and HeadConflict for another version.
    """
    async with database.connection() as conn:
        await get_session(conn, viewer, session_id, "write")
    return await runtime.change_scratchpad(
        database,
        session_id,
        edit,
        limit=settings.scratchpad_max_chars,
        expected_seq=expected_seq,
        principal=name_principal(Role.USER, surface or viewer.name),
    )
