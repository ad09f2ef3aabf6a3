"""What a session works at and notes: its tasks, its scratchpad."""

from __future__ import annotations

from consolidator.database import Database
from consolidator.models.principal import Role, name_principal
from consolidator.runtime.session import scratchpad as runtime
from consolidator.runtime.session import tasks
from consolidator.runtime.session.scratchpad import Scratchpad, ScratchpadEdit
from consolidator.runtime.session.tasks import TaskOutcome
from consolidator.service.sessions.access import find_session, load_session
from consolidator.service.viewer import OWNER, Viewer
from consolidator.store.sessions import tasks as store
from consolidator.store.sessions.tasks import TaskRow as TaskRow


async def list_tasks(database: Database, session: str, *, limit: int = 50, viewer: Viewer = OWNER) -> list[TaskRow]:
    """Return the tasks of a session, the latest first, with how often people steered in each.

    `session` is an id or the beginning of one.
    """
    async with database.connection() as conn:
        row = await find_session(conn, viewer, session, "read")
        return await store.with_steers(conn, row, await store.list_tasks(conn, row.id, limit=limit))


async def start_task(
    database: Database, session_id: str, title: str, *, surface: str | None = None, viewer: Viewer = OWNER
) -> TaskRow:
    """Start a task in a session, as a person on a surface. Raises UsageError while another one is open."""
    principal = await _principal(database, session_id, surface, viewer)
    return await tasks.start_task(database, session_id, title, principal=principal)


async def finish_task(
    database: Database,
    session_id: str,
    outcome: TaskOutcome,
    *,
    note: str | None = None,
    task_id: str | None = None,
    surface: str | None = None,
    viewer: Viewer = OWNER,
) -> TaskRow:
    """End a session's open task, as a person. Raises UsageError if none is open, or another one than `task_id`."""
    principal = await _principal(database, session_id, surface, viewer)
    return await tasks.finish_task(database, session_id, outcome, note=note, task_id=task_id, principal=principal)


async def _principal(database: Database, session_id: str, surface: str | None, viewer: Viewer) -> str:
    """Return who acts, if the viewer may write to the session."""
    await load_session(database, session_id, "write", viewer=viewer)
    return name_principal(Role.USER, surface or viewer.name)


async def read_scratchpad(database: Database, session: str, *, viewer: Viewer = OWNER) -> Scratchpad:
    """Return a session's scratchpad and its version; `session` is an id or the beginning of one."""
    async with database.connection() as conn:
        session_id = (await find_session(conn, viewer, session, "read")).id
    return await runtime.read_scratchpad(database, session_id)


async def change_scratchpad(
    database: Database,
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
    await load_session(database, session_id, "write", viewer=viewer)
    return await runtime.change_scratchpad(
        database,
        session_id,
        edit,
        expected_seq=expected_seq,
        principal=name_principal(Role.USER, surface or viewer.name),
    )
