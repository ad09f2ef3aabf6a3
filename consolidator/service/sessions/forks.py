"""Forks: a session that leaves another one at a message and goes on by itself; the original is untouched."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.models.session import SessionRow
from consolidator.runtime.lineage.children import ChildRequest, create_child
from consolidator.runtime.session.overrides import NO_OVERRIDES, Overrides
from consolidator.service.sessions.access import get_session
from consolidator.service.viewer import OWNER, Viewer
from consolidator.settings import Settings


def check_tools(driver_tools: Collection[str] | None, session: SessionRow, overrides: Overrides) -> None:
    """Raise UsageError for tools that a child of a session is to have, but not what drives sessions here.

    Where it is not known what that has (None), a session that was opened with tools has no child with others.
    """
    if driver_tools is not None:
        overrides.check_tools(driver_tools)
        return
    opened_with = session.config.get("tools")
    missing = [name for name in overrides.tools or () if opened_with is not None and name not in opened_with]
    if missing:
        raise UsageError(
            f"session {session.id} was opened without the tools {', '.join(missing)}: name others, or say where they "
            "are (--tools, --mcp-config, --mcp, --builtin)"
        )


async def fork_session(
    database: Database,
    settings: Settings,
    session_id: str,
    *,
    at: int | None = None,
    overrides: Overrides = NO_OVERRIDES,
    is_current: bool = False,
    expires_at: datetime | None = None,
    driver_tools: Collection[str] | None = None,
    viewer: Viewer = OWNER,
) -> SessionRow:
    """Create a session that reads another one's log up to the event `at` as its own past, and return it.

    By default it begins at the latest event after which nothing is open. At a person's message, the child has that
    message to answer. With `is_current` the session's key names the child from now on. `driver_tools` names the tools
    of what is to drive it. Raises Forbidden, NotFound, and UsageError for tools that are missing there, and for an
    event that is not there or in the middle of a call or an answer, naming the nearest ones that are not.
    """
    async with database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "write")
    check_tools(driver_tools, session, overrides)
    request = ChildRequest(kind="fork", at=at, overrides=overrides, is_current=is_current, expires_at=expires_at)
    return await create_child(database, settings, session.id, request)
