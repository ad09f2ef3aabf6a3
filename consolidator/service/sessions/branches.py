"""Branches of a session: try something beside it, compare the two, send a steer that was tried, or drop it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from consolidator.database import Database
from consolidator.errors import Forbidden, NotFound
from consolidator.models.session import SessionFilter, SessionRow
from consolidator.runtime.rerun import branches as runtime
from consolidator.runtime.rerun.branches import BranchComparison, BranchRequest, branch_kind
from consolidator.runtime.turn.harness import Harness
from consolidator.service.sessions.access import find_session, get_session, load_session, may_speak_as
from consolidator.service.sessions.agents import pin_template
from consolidator.service.sessions.children import check_tools
from consolidator.service.sessions.listing import list_sessions
from consolidator.service.viewer import OWNER, Scope, Viewer
from consolidator.settings import Settings
from consolidator.store.sessions import sessions


async def create_branch(
    database: Database,
    settings: Settings,
    session_id: str,
    request: BranchRequest,
    *,
    driver_tools: Collection[str] | None = None,
    viewer: Viewer = OWNER,
) -> SessionRow:
    """Create a branch of a session, and return it; drivers answer what it begins with. The session is untouched.

    `driver_tools` names the tools of what is to drive it. Raises Forbidden, NotFound, and UsageError for tools that are
    missing there, for a point that is not safe and for a branch of a branch.
    """
    session = await _find_main(database, session_id, request, viewer)
    check_tools(driver_tools, session, request.overrides)
    request = await _pin(database, request, viewer)
    return await runtime.create_branch(database, settings, session.id, request, surface=viewer.name)


async def run_branch(
    harness: Harness,
    session_id: str,
    request: BranchRequest,
    *,
    is_stopping: Callable[[], bool] = lambda: False,
    surface: str | None = None,
    viewer: Viewer = OWNER,
) -> BranchComparison:
    """Try something in a branch of a session, such as a steer, to its end, and compare; the session is not held.

    The same request after a crash goes on with the branch that is there. Raises as `create_branch` does, and
    UsageError where no model or a tool of the session is missing here; the comparison shows what the log says, so
    it needs the scope `read`, too.
    """
    viewer.check_may("read")
    session = await _find_main(harness.database, session_id, request, viewer)
    surface, request = surface or viewer.name, await _pin(harness.database, request, viewer)
    return await runtime.run_branch(harness, session.id, request, surface=surface, is_stopping=is_stopping)


async def list_branches(
    database: Database, session_id: str, *, limit: int = 50, viewer: Viewer = OWNER
) -> list[SessionRow]:
    """Return a session's branches, the newest first. Raises Forbidden and NotFound."""
    session = await load_session(database, session_id, "read", viewer=viewer)
    branches = SessionFilter(parent=session.id, kind="branch")
    return (await list_sessions(database, branches, order="created", limit=limit, viewer=viewer)).sessions


async def compare_branch(
    database: Database, branch: str, *, main: str | None = None, viewer: Viewer = OWNER
) -> BranchComparison:
    """Compare a branch with its session, from the branch's point on; `main` is the session that it must be one of.

    The branch is named by its id or the beginning of it. Raises Forbidden, NotFound, and UsageError for no branch.
    """
    row = await _get_branch(database, viewer, branch, "read", main)
    return await runtime.compare_branch(database, row)


async def commit_steer(
    database: Database, branch: str, *, main: str | None = None, surface: str | None = None, viewer: Viewer = OWNER
) -> tuple[SessionRow, int]:
    """Send the steer of a pre_steer branch to its session, once; return the branch, which has ended, and the seq.

    Raises Forbidden, NotFound, UsageError for another branch and for one that was discarded, and SessionClosed.
    """
    row = await _get_branch(database, viewer, branch, "write", main)
    seq = await runtime.commit_steer(database, row.id, surface=surface or viewer.name)
    async with database.connection() as conn:
        return await sessions.get(conn, row.id), seq


async def discard_branch(
    database: Database, branch: str, *, main: str | None = None, viewer: Viewer = OWNER
) -> SessionRow:
    """End a branch, and return it; it can still be read. Raises Forbidden, NotFound, and UsageError for no branch."""
    row = await _get_branch(database, viewer, branch, "write", main)
    return await runtime.discard_branch(database, row.id)


async def _pin(database: Database, request: BranchRequest, viewer: Viewer) -> BranchRequest:
    return replace(request, overrides=await pin_template(database, request.overrides, viewer=viewer))


async def _find_main(database: Database, session_id: str, request: BranchRequest, viewer: Viewer) -> SessionRow:
    if not may_speak_as(viewer, request.speaker):
        raise Forbidden("this credential is for one peer, who is the speaker: leave speaker out")
    return await load_session(database, session_id, "write", viewer=viewer)


async def _get_branch(database: Database, viewer: Viewer, branch: str, scope: Scope, main: str | None) -> SessionRow:
    """Return a branch within the viewer's reach; with `main`, one of that session."""
    async with database.connection() as conn:
        if main is None:
            row = await find_session(conn, viewer, branch, scope)
        else:
            session = await get_session(conn, viewer, main, scope)
            row = await get_session(conn, viewer, branch, scope)
            if row.parent_id != session.id:
                raise NotFound(f"session {session.id} has no branch {branch!r}: GET .../branches lists them")
    branch_kind(row)
    return row
