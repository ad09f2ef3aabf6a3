"""Checkpoints: labels on safe points, from each of which a session can be restored until it expires.

A checkpoint is a position of the log, and what happened since the one before: a restore reads the log, which retention
keeps until then. Only of a past that was pruned before, it stores the fold (state, scratchpad, summary, compaction).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from ulid import ULID

from consolidator.database import Connection, Database
from consolidator.database.jsonb import unescape
from consolidator.errors import NotFound, UsageError
from consolidator.models.lineage import CheckpointRow, Lineage
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.models.viewer import OWNER, Scope, Viewer
from consolidator.runtime.lineage.children import ONE_LEVEL, ChildRequest, InheritedFold, create_child, fold_past
from consolidator.runtime.session.access import get_session
from consolidator.runtime.session.agent_defaults import NO_OVERRIDES, Overrides
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.safe_points import find_safe_point
from consolidator.settings import Settings
from consolidator.store.sessions import checkpoints as store
from consolidator.store.sessions import lineage as lineages
from consolidator.store.sessions.checkpoints import SpendSum

TIME_TO_LIVE = timedelta(hours=24)  # where the session's agent has none
FOR_EVER = timedelta.max
MAX_LABEL_CHARS = 200
_TOKENS = ("input_tokens", "output_tokens", "cached_tokens")
_MESSAGES = (EventType.USER_MESSAGE, EventType.ASSISTANT_RESPONSE)


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
    """Set a checkpoint after an event of a session, by default after the latest safe one, and return it.

    By default it lives as long as the session's agent says, or else a day; with FOR_EVER it never expires. Raises
    Forbidden, NotFound, and UsageError for a point that is not safe or not the session's own, for a label that is too
    long, and for a branch or a sub-agent, which has no children.
    """
    if label is not None and not 1 <= len(label) <= MAX_LABEL_CHARS:
        raise UsageError(f"a label has 1 to {MAX_LABEL_CHARS} characters, not {len(label)}")
    if time_to_live is not None and time_to_live <= timedelta(0):
        raise UsageError("a checkpoint's time to live is longer than nothing")

    now = database.clock.now()
    async with database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "write")
        if session.kind in ONE_LEVEL:
            raise UsageError(
                f"session {session.id} is a {session.kind}, from which nothing can be restored: set it in its parent"
            )
        lineage = await lineages.load_lineage(conn, session.id, session)
        seq = (await find_safe_point(conn, session, lineage, at)).seq
        fold = (await fold_past(conn, session, lineage, seq)).as_json() if lineage.is_truncated else {}
        totals = await _find_totals(conn, session, lineage, seq)
        before = await store.get_latest(conn, session.id, seq=seq)
        delta = {} if before is None else await _count_delta(conn, lineage, before, seq, totals)

    seconds = session.config.get("checkpoint_ttl_seconds")
    span = time_to_live or (TIME_TO_LIVE if seconds is None else timedelta(seconds=seconds))
    expires_at = None if span == FOR_EVER else now + span
    checkpoint = CheckpointRow(
        str(ULID()), session.id, seq, label, dict(metadata or {}), delta, {**fold, "totals": totals}, now,
        expires_at,
    )  # fmt: skip

    with boundary("commit checkpoint"):
        async with database.connection() as conn:
            await store.add(conn, checkpoint)
    return checkpoint


async def list_checkpoints(
    database: Database, session_id: str, *, limit: int = 100, viewer: Viewer = OWNER
) -> list[CheckpointRow]:
    """Return a session's checkpoints that have not expired, the latest point first. Raises Forbidden and NotFound."""
    async with database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "read")
        return await store.list_unexpired(conn, [session.id], database.clock.now(), limit=limit)


async def list_checkpoints_of_each(
    database: Database, session_ids: Sequence[str], *, limit: int = 100, viewer: Viewer = OWNER
) -> list[CheckpointRow]:
    """Return the checkpoints of several sessions that have not expired, the latest points first.

    Raises Forbidden for a viewer who does not reach everything.
    """
    viewer.check_reads_all()
    async with database.connection() as conn:
        return await store.list_unexpired(conn, session_ids, database.clock.now(), limit=limit)


async def get_checkpoint(database: Database, checkpoint_id: str, *, viewer: Viewer = OWNER) -> CheckpointRow:
    """Return a checkpoint that has not expired. Raises Forbidden and NotFound."""
    async with database.connection() as conn:
        return await _get_unexpired(conn, viewer, checkpoint_id, "read", database.clock.now())


async def restore_checkpoint(
    database: Database,
    settings: Settings,
    checkpoint_id: str | None,
    *,
    session_id: str | None = None,
    overrides: Overrides = NO_OVERRIDES,
    is_current: bool = False,
    driver_tools: Collection[str] | None = None,
    viewer: Viewer = OWNER,
) -> SessionRow:
    """Create a session that goes on from a checkpoint, and return it; the old one is untouched.

    With `session_id` from one of that session's: where no checkpoint is named, from the latest point. Raises NotFound
    for a checkpoint that is not there or has expired, and what `create_child` raises.
    """
    now = database.clock.now()
    async with database.connection() as conn:
        if session_id is None:
            checkpoint = await _get_unexpired(conn, viewer, checkpoint_id or "", "write", now)
        else:
            session = await get_session(conn, viewer, session_id, "write")
            points = await store.list_unexpired(conn, [session.id], now, limit=1)
            points = points if checkpoint_id is None else [await store.get(conn, checkpoint_id)]
            if not points or points[0].session_id != session.id or points[0].has_expired(now):
                raise NotFound(f"session {session.id!r} has no such checkpoint: POST .../checkpoint sets one")
            checkpoint = points[0]
    request = ChildRequest(
        kind="resume",
        at=checkpoint.seq,
        overrides=overrides,
        is_current=is_current,
        checkpoint_id=checkpoint.id,
        fold=InheritedFold.from_json(checkpoint.fold) if "state" in checkpoint.fold else None,
    )
    return await create_child(
        database, settings, checkpoint.session_id, request, driver_tools=driver_tools, viewer=viewer
    )


async def delete_checkpoint(database: Database, checkpoint_id: str, *, viewer: Viewer = OWNER) -> None:
    """Delete a checkpoint; sessions that were restored from it stay. Raises Forbidden and NotFound."""
    with boundary("commit checkpoint"):
        async with database.connection() as conn:
            await _get(conn, viewer, checkpoint_id, "write")
            if not await store.delete(conn, checkpoint_id):
                raise NotFound(store.MISSING.format(checkpoint_id))


async def _get(conn: Connection, viewer: Viewer, checkpoint_id: str, scope: Scope) -> CheckpointRow:
    """Return a checkpoint of a session within the viewer's reach; any other is not there."""
    viewer.check_may(scope)
    checkpoint = await store.get(conn, checkpoint_id)
    try:
        await get_session(conn, viewer, checkpoint.session_id, scope)
    except NotFound:
        raise NotFound(store.MISSING.format(checkpoint_id)) from None
    return checkpoint


async def _get_unexpired(
    conn: Connection, viewer: Viewer, checkpoint_id: str, scope: Scope, now: datetime
) -> CheckpointRow:
    checkpoint = await _get(conn, viewer, checkpoint_id, scope)
    if checkpoint.has_expired(now):
        raise NotFound(store.MISSING.format(checkpoint_id))
    return checkpoint


async def _count_delta(
    conn: Connection, lineage: Lineage, before: CheckpointRow, seq: int, totals: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what happened between the checkpoint before and a point."""
    counts = await lineages.count_events(conn, lineage, after=before.seq, upto=seq)
    tools: Counter[str] = Counter()
    for count in counts:
        if count.event_type == EventType.TOOL_CALL:
            tools[unescape(count.tool_name or "")] += count.events
    earlier = before.fold.get("totals") or {}
    tokens = {name: totals[name] - int(earlier.get(name) or 0) for name in _TOKENS}
    return {
        "since": before.id,
        "events": seq - before.seq,
        "messages": sum(count.events for count in counts if count.event_type in _MESSAGES),
        "tools": dict(sorted(tools.items())),
        **tokens,
        "cost": float(Decimal(totals["cost"]) - Decimal(earlier.get("cost") or 0)),
    }


async def _find_totals(conn: Connection, session: SessionRow, lineage: Lineage, seq: int) -> dict[str, Any]:
    """Return a session's totals at a point: those of its row, or at an earlier point the sum of its calls."""
    totals: SessionRow | SpendSum = session
    if seq < session.head:
        event = await lineages.find_event(conn, lineage, seq)
        at = session.last_event_at if event is None else event.created_at
        totals = await store.sum_spends(conn, session.id, at=at)
    return {**{name: getattr(totals, name) for name in _TOKENS}, "cost": str(totals.cost)}
