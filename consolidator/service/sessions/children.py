"""What goes on from a session: checkpoints and what is restored from them, forks, and sub-agents with a task."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from consolidator.database import Connection, Database
from consolidator.errors import NotFound, UsageError
from consolidator.models.checkpoint import CheckpointRow
from consolidator.models.session import SessionRow
from consolidator.runtime.lineage import children
from consolidator.runtime.lineage.children import ChildRequest, create_child
from consolidator.runtime.session.agent_defaults import NO_OVERRIDES, Overrides, SpawnRequest, SpawnResult
from consolidator.runtime.turn.harness import Harness
from consolidator.runtime.turn.sub_agents import create_sub_agent, is_unfinished, read_result
from consolidator.runtime.turn.wake import spawn_sub_agent
from consolidator.service.sessions.access import get_session, load_session
from consolidator.service.sessions.agents import pin_template
from consolidator.service.viewer import OWNER, Scope, Viewer
from consolidator.settings import Settings
from consolidator.store.sessions import checkpoints as store


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
            "are (--tools)"
        )


async def fork_session(
    database: Database,
    settings: Settings,
    session_id: str,
    request: ChildRequest = ChildRequest(kind="fork"),  # noqa: B008 - it is frozen
    *,
    driver_tools: Collection[str] | None = None,
    viewer: Viewer = OWNER,
) -> SessionRow:
    """Create a session that reads another one's log up to the event `request.at` as its own past, and return it.

    By default it begins at the latest event after which nothing is open. At a person's message, the child has that
    message to answer. With `is_current` the session's key names the child from now on. Its conversation is its own,
    unless `same_conversation`. `driver_tools` names the tools of what is to drive it. Raises Forbidden, NotFound, and
    UsageError for tools that are missing there, and for an event that is not there or in the middle of a call or an
    answer, naming the nearest ones that are not.
    """
    session = await load_session(database, session_id, "write", viewer=viewer)
    check_tools(driver_tools, session, request.overrides)
    overrides = await pin_template(database, request.overrides, viewer=viewer)
    return await create_child(database, settings, session.id, replace(request, overrides=overrides))


async def create_checkpoint(
    database: Database,
    session_id: str,
    *,
    label: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    at: int | None = None,
    time_to_live: timedelta | None = None,
    viewer: Viewer = OWNER,
) -> CheckpointRow:
    """Set a checkpoint after the event `at` of a session, by default after the latest at which nothing is open.

    It expires after its time to live: by default what the session's agent says, or else a day; FOR_EVER is never.
    Raises Forbidden, NotFound, and UsageError for an unsafe point.
    """
    session = await load_session(database, session_id, "write", viewer=viewer)
    return await children.create_checkpoint(
        database, session.id, label=label, metadata=metadata, at=at, time_to_live=time_to_live
    )


async def list_checkpoints(
    database: Database, session_id: str, *, limit: int = 100, viewer: Viewer = OWNER
) -> list[CheckpointRow]:
    """Return a session's checkpoints that have not expired, the latest point first. Raises Forbidden and NotFound."""
    async with database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "read")
        rows = await store.list_of(conn, session.id, limit=limit)
    return [checkpoint for checkpoint in rows if not checkpoint.has_expired(database.clock.now())]


async def list_checkpoints_of_each(
    database: Database, session_ids: Sequence[str], *, limit: int = 100, viewer: Viewer = OWNER
) -> list[CheckpointRow]:
    """Return the checkpoints of several sessions that have not expired, the latest points first.

    Raises Forbidden for a viewer who does not reach everything.
    """
    viewer.check_may("read")
    viewer.check_unnarrowed()
    async with database.connection() as conn:
        rows = await store.list_of_each(conn, session_ids, limit=limit)
    return [checkpoint for checkpoint in rows if not checkpoint.has_expired(database.clock.now())]


async def get_checkpoint(database: Database, checkpoint_id: str, *, viewer: Viewer = OWNER) -> CheckpointRow:
    """Return a checkpoint that has not expired. Raises Forbidden and NotFound."""
    async with database.connection() as conn:
        checkpoint = await _get_checkpoint(conn, viewer, checkpoint_id, "read")
    if checkpoint.has_expired(database.clock.now()):
        raise store.not_found(checkpoint_id)
    return checkpoint


async def find_restorable(
    database: Database, session_id: str, checkpoint_id: str | None = None, *, viewer: Viewer = OWNER
) -> CheckpointRow:
    """Return a session's checkpoint to restore: the one of this id, or that of the latest point.

    Raises Forbidden, and NotFound where the session has no such checkpoint, or it has expired.
    """
    now = database.clock.now()
    async with database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "write")
        if checkpoint_id is None:
            checkpoint = await store.get_last_unexpired(conn, session.id, now=now)
        else:
            checkpoint = await store.get(conn, checkpoint_id)
    if checkpoint is None or checkpoint.session_id != session.id or checkpoint.has_expired(now):
        raise NotFound(f"session {session.id!r} has no such checkpoint: POST .../checkpoint sets one")
    return checkpoint


async def restore_checkpoint(
    database: Database,
    settings: Settings,
    checkpoint_id: str,
    *,
    overrides: Overrides = NO_OVERRIDES,
    is_current: bool = False,
    driver_tools: Collection[str] | None = None,
    viewer: Viewer = OWNER,
) -> SessionRow:
    """Create a session that goes on from a checkpoint, and return it.

    `driver_tools` names the tools of what is to drive it. Raises Forbidden, NotFound, and UsageError, also for tools
    that are missing there.
    """
    async with database.connection() as conn:
        checkpoint = await _get_checkpoint(conn, viewer, checkpoint_id, "write")
        session = await get_session(conn, viewer, checkpoint.session_id, "write")
    check_tools(driver_tools, session, overrides)
    overrides = await pin_template(database, overrides, viewer=viewer)
    return await children.restore_checkpoint(
        database, settings, checkpoint.id, overrides=overrides, is_current=is_current
    )


async def delete_checkpoint(database: Database, checkpoint_id: str, *, viewer: Viewer = OWNER) -> None:
    """Delete a checkpoint; what was restored from it stays. Raises Forbidden and NotFound."""
    async with database.connection() as conn:
        checkpoint = await _get_checkpoint(conn, viewer, checkpoint_id, "write")
    await children.delete_checkpoint(database, checkpoint.id)


async def _get_checkpoint(conn: Connection, viewer: Viewer, checkpoint_id: str, scope: Scope) -> CheckpointRow:
    """Return a checkpoint of a session within the viewer's reach; any other is not there."""
    viewer.check_may(scope)
    checkpoint = await store.get(conn, checkpoint_id)
    try:
        await get_session(conn, viewer, checkpoint.session_id, scope)
    except NotFound:
        raise store.not_found(checkpoint_id) from None
    return checkpoint


async def spawn(
    harness: Harness, session_id: str, request: SpawnRequest, *, call_id: str, viewer: Viewer = OWNER
) -> SpawnResult:
    """Give a task to a sub-agent of a session, and return what came of it; a call's id has one sub-agent.

    Raises Forbidden, NotFound, and UsageError for a session that may have none and for what none could run with.
    """
    session = await load_session(harness.database, session_id, "write", viewer=viewer)
    return await spawn_sub_agent(harness, session.id, call_id, request)


async def start_sub_agent(
    database: Database,
    harness: Harness,
    session_id: str,
    request: SpawnRequest,
    *,
    call_id: str,
    viewer: Viewer = OWNER,
) -> tuple[SessionRow, SpawnResult | None]:
    """Create a sub-agent with its task, which a driver does from now on; a call's id has one.

    Returns it, and what came of it: None while it is at work. `database` may be one open transaction. Raises as
    `spawn` does.
    """
    session = await load_session(database, session_id, "write", viewer=viewer)
    in_transaction = replace(harness, database=database)
    child = await create_sub_agent(in_transaction, session.id, request, call_id=call_id, by="program")
    return child, None if is_unfinished(child) else await read_result(database, child.id)


async def read_sub_agent(
    database: Database, session_id: str, *, viewer: Viewer = OWNER
) -> tuple[SessionRow, SpawnResult | None]:
    """Return a sub-agent, and what came of it; None while it is at work.

    Raises Forbidden, NotFound, and UsageError for a session that is no sub-agent.
    """
    session = await load_session(database, session_id, "read", viewer=viewer)
    if session.kind != "sub-agent" or session.trigger_id is None:
        raise UsageError(f"session {session.id} is no sub-agent: only those have a result")
    return session, None if is_unfinished(session) else await read_result(database, session.id)
