"""Sub-agents: created by a call of their parent, driven to their end, and told of in the parent's log, each once.

A sub-agent is isolated: it sees its task and an explicit context. The call finds the sub-agent that it has already, so
that a call that is made again after a crash goes on with it. What it spends counts in its parent, against both caps.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

from consolidator.database import Connection, Database
from consolidator.errors import UsageError
from consolidator.llm.redaction.redact import redact
from consolidator.models.agent import AUTO
from consolidator.models.event import Event, NewEvent
from consolidator.models.payload import EventType
from consolidator.models.principal import Role
from consolidator.models.session import SessionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.lineage.children import ChildRequest, SpawnCall, create_child
from consolidator.runtime.session.access import get_session, load_session
from consolidator.runtime.session.agent_defaults import SPAWN_TOOL, SpawnedBy, SpawnRequest, SpawnResult
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.outcome import to_text, truncate
from consolidator.runtime.turn.harness import Harness, StepResult
from consolidator.store.log import events
from consolidator.store.sessions import lineage as store
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import UnfinishedChild
from consolidator.store.turns import spend

MAX_UNFINISHED = 16  # sub-agents of one session at the same time
_RESULT_BYTES = 1024 * 1024  # of all that a sub-agent did
_ABANDONED_BATCH = 100
_GOAL_LENGTH = 500  # characters of a task that the parent's log repeats
_TRIGGERS: dict[SpawnedBy, str] = {"agent": SPAWN_TOOL, "program": "spawn"}


async def find_failure(database: Database, child_id: str, result: StepResult) -> str | None:
    """Return why a sub-agent cannot go on after a wake: its model failed for good. None where it did not."""
    if result.finish_reason != "error":
        return None
    async with database.connection() as conn:
        return (await sessions.get(conn, child_id)).error or "the model could not be asked"


async def create_sub_agent(
    harness: Harness, parent_id: str, request: SpawnRequest, *, call_id: str, by: SpawnedBy, viewer: Viewer = OWNER
) -> SessionRow:
    """Return the sub-agent of a call; create it if the call has none. A driver or a wake of it does the task.

    Raises Forbidden, NotFound, and UsageError for a parent that may have no sub-agent, for tools that it lacks, and for
    a program's call that had another task before.
    """
    async with harness.database.connection() as conn:
        parent = await get_session(conn, viewer, parent_id, "write")
        existing = await store.find_called(conn, parent_id, call_id)
        if existing is not None:
            return await _get_called(conn, existing, request, by)
    settings = harness.settings
    routed = AUTO if settings.model else None
    goal = request.task if len(request.task) <= _GOAL_LENGTH else request.task[:_GOAL_LENGTH] + "…"

    def announce(child_id: str) -> NewEvent:
        data = {"child": child_id, "call_id": call_id, "goal": goal, "by": by, "mode": request.mode}
        return NewEvent(EventType.SUBAGENT_SPAWN, data, principal=(Role.AGENT if by == "agent" else Role.HARNESS).value)

    task = {"text": request.task, "mode": "message", "origin": "harness", "by": by}
    call = SpawnCall(
        call_id=call_id,
        trigger_type=_TRIGGERS[by],
        seeds=request.seeds(),
        config={"result_mode": request.mode, "unfinished": True},
        task=NewEvent(EventType.USER_MESSAGE, task, principal=Role.HARNESS.value),
        announce=announce,
        max_unfinished=MAX_UNFINISHED,
    )
    overrides = request.overrides(routed, _choose_tools(harness, parent, request))
    child_request = ChildRequest(kind="sub-agent", overrides=overrides, call=call)
    child = await create_child(
        harness.database, settings, parent_id, child_request, driver_tools=harness.tools.names, viewer=viewer
    )
    async with harness.database.connection() as conn:  # another process may have made the call meanwhile
        return await _get_called(conn, child.id, request, by)


async def _get_called(conn: Connection, child_id: str, request: SpawnRequest, by: SpawnedBy) -> SessionRow:
    """Return the sub-agent of a call. Raises UsageError where a program made the call before, with another task."""
    child = await sessions.get(conn, child_id)
    if by == "program":  # a model's call is in the log, with its one task
        first = await events.read(conn, child.id, limit=2)
        tasks = [event.data.get("text") for event in first if event.type is EventType.USER_MESSAGE]
        if tasks and tasks[0] != request.task:
            raise UsageError(
                f"call {child.trigger_id!r} has given another task, to sub-agent {child.id}: take another call_id"
            )
    return child


def _choose_tools(harness: Harness, parent: SessionRow, request: SpawnRequest) -> list[str]:
    """Return the tools of a sub-agent: none that asks a person, as it has nobody to ask, and none that spawns."""
    offered = harness.tools_of(parent)
    usable = [
        name for name in offered.names
        if name != SPAWN_TOOL and (tool := offered.get(name)) is not None
        and not tool.needs_approval and not tool.begins_procedure
    ]  # fmt: skip
    if request.tools is None:
        return usable
    if unknown := [name for name in request.tools if name not in usable]:
        raise UsageError(
            f"a sub-agent cannot have {', '.join(map(repr, unknown))}; it can have: {', '.join(usable) or 'no tools'}"
        )
    return list(dict.fromkeys(request.tools))


def is_unfinished(session: SessionRow) -> bool:
    """Tell whether a session is a sub-agent whose end is not in its parent's log yet."""
    return "unfinished" in session.config


async def finish_sub_agent(database: Database, child_id: str, *, error: str | None = None) -> bool:
    """End a sub-agent in which nothing is open, and log that in its parent, once; False if it is at work yet.

    With an `error`, which it cannot go on from, it ends in any case.
    """
    async with database.connection() as conn:
        child = await sessions.get(conn, child_id)
        if not is_unfinished(child):
            return True
        has_answer = error is None and _last_answer(await _read_tail(conn, child)) is not None
    if error is None and _is_at_work(child):
        return False
    if not has_answer:
        error = error or child.error or "it ended without an answer"
    with boundary("commit sub-agent"):
        async with database.transaction() as conn:
            return await _log_end(conn, database, child, error, is_expected=error is None or not _is_at_work(child))


def _is_at_work(child: SessionRow) -> bool:
    return child.status == "open" and (child.pending or child.lease_owner is not None)


async def _log_end(
    conn: Connection, database: Database, seen: SessionRow, error: str | None, *, is_expected: bool
) -> bool:
    """Log the end of a sub-agent in both sessions, unless that was done; False if it has gone on since it was seen."""
    assert seen.parent_id is not None
    await sessions.lock(conn, [seen.id, seen.parent_id])
    child, now = await sessions.get(conn, seen.id), database.clock.now()
    if not is_unfinished(child):
        return True
    if is_expected and child.head != seen.head:
        return False
    await spend.settle_open(conn, child.id, now)
    child = await sessions.get(conn, child.id)
    data: dict[str, Any] = {
        "child": child.id,
        "call_id": child.trigger_id,
        "status": "ok" if error is None else "error",
    }
    data |= {} if error is None else {"reason": redact(error)}
    data["usage"] = {"input": child.input_tokens, "cached": child.cached_tokens, "output": child.output_tokens}
    data["cost"] = f"{child.cost:f}"
    complete = NewEvent(EventType.SUBAGENT_COMPLETE, data, principal=Role.HARNESS.value)
    parent = await sessions.get(conn, seen.parent_id)
    await events.append(conn, parent.id, [complete], now=now, open_task=parent.open_task)
    if child.status == "open":
        ended = NewEvent(EventType.SESSION_END, {"reason": error or "its task is done"}, principal=Role.HARNESS.value)
        await events.append(conn, child.id, [ended], now=now, open_task=child.open_task)
    if error is not None and child.error is None:
        await sessions.set_error(conn, child.id, redact(error))
    await sessions.retire(conn, child.id, hide=False)
    await store.finish(conn, child.id)
    return True


async def cancel_sub_agent(database: Database, child_id: str, reason: str, *, parent_epoch: int | None = None) -> None:
    """End a sub-agent whatever it does, and fence whoever drives it; what it had reserved counts as spent.

    With `parent_epoch`, only if that is still the epoch of the parent's lease.
    """
    with boundary("commit sub-agent"):
        async with database.transaction() as conn:
            child = await sessions.get(conn, child_id)
            assert child.parent_id is not None
            await sessions.lock(conn, [child.id, child.parent_id])
            parent = await sessions.get(conn, child.parent_id)
            if parent_epoch is None or parent.lease_epoch == parent_epoch:
                await _log_end(conn, database, child, reason, is_expected=False)


async def finish_abandoned(database: Database) -> None:
    """Log the end of the sub-agents that a crash left without one: they or their parent have ended, or are done.

    A process that ends a session, or drives a sub-agent to its end, does that itself a moment later. Bounded batches.
    """
    last = ""
    while True:
        async with database.connection() as conn:
            page = await store.list_abandoned(conn, last, _ABANDONED_BATCH)
        for child in page:
            if child.parent_ended:
                await cancel_sub_agent(database, child.id, "its parent ended")
            elif child.ended:
                await cancel_sub_agent(database, child.id, await _read_end(database, child.id))
            else:
                await finish_sub_agent(database, child.id)
        if len(page) < _ABANDONED_BATCH:
            return
        last = page[-1].id


async def _read_end(database: Database, child_id: str) -> str:
    """Return why a sub-agent ended, as its log says."""
    async with database.connection() as conn:
        log = await _read_tail(conn, await sessions.get(conn, child_id))
    reasons = [str(event.data.get("reason")) for event in log if event.type is EventType.SESSION_END]
    return reasons[-1] if reasons and reasons[-1] != "expired" else "its time to live was over"


async def list_unfinished(database: Database, parent_id: str) -> list[UnfinishedChild]:
    """Return the sub-agents of a session that are at work."""
    async with database.connection() as conn:
        return await store.list_unfinished(conn, parent_id)


async def cancel_sub_agents(database: Database, parent_id: str) -> None:
    """End all sub-agents of a session that ends."""
    for child in await list_unfinished(database, parent_id):
        await cancel_sub_agent(database, child.id, "its parent ended")


async def read_sub_agent(
    database: Database, session_id: str, *, viewer: Viewer = OWNER
) -> tuple[SessionRow, SpawnResult | None]:
    """Return a sub-agent, and what came of it; None while it is at work.

    Raises Forbidden, NotFound, and UsageError for a session that is no sub-agent.
    """
    session = await load_session(database, session_id, viewer=viewer)
    if session.kind != "sub-agent" or session.trigger_id is None:
        raise UsageError(f"session {session.id} is no sub-agent: only those have a result")
    return session, None if is_unfinished(session) else await read_result(database, session.id)


async def read_result(database: Database, child_id: str) -> SpawnResult:
    """Return what came of a sub-agent that has ended."""
    async with database.connection() as conn:
        child = await sessions.get(conn, child_id)
        is_full = child.config.get("result_mode") == "full"
        log = await (events.read(conn, child.id) if is_full else _read_tail(conn, child))
    answer = _last_answer(log)
    status: Literal["ok", "error"] = "ok" if child.error is None and answer is not None else "error"
    text = truncate(_render(log), _RESULT_BYTES) if is_full else answer or ""
    reason = None if status == "ok" else child.error or "it ended without an answer"
    return SpawnResult(
        child.id, str(child.trigger_id), status, text, reason, child.input_tokens, child.output_tokens,
        Decimal(child.cost),
    )  # fmt: skip


async def _read_tail(conn: Connection, child: SessionRow) -> list[Event]:
    return await events.read(conn, child.id, after=max(child.head - _TAIL_EVENTS, 0))


_TAIL_EVENTS = 20  # after the last answer there are only the ends of a task and of the session


def _last_answer(log: list[Event]) -> str | None:
    """Return the answer that a log ends with; None if it ends with a call or an error."""
    notice = ""
    for event in reversed(log):
        if event.type is EventType.ASSISTANT_RESPONSE:
            return f"{event.data['text']}{notice}" if event.data.get("finish") != "interrupted" else None
        if event.data.get("kind") == "cut" and event.type is EventType.ERROR:
            notice = f"\n\n[{event.data.get('message')}]"
            continue
        if event.type in (EventType.TOOL_CALL, EventType.TOOL_RESULT, EventType.ERROR, EventType.USER_MESSAGE):
            return None
    return None


def _render(log: list[Event]) -> str:
    """Return all that a sub-agent said and did, in order."""
    lines: list[str] = []
    for event in log:
        data = event.data
        if event.type is EventType.ASSISTANT_RESPONSE and data["text"]:
            lines.append(str(data["text"]))
        elif event.type is EventType.TOOL_CALL:
            lines.append(f"[call {data.get('tool')}: {to_text(data.get('arguments'))}]")
        elif event.type is EventType.TOOL_RESULT:
            lines.append(f"[{data.get('status')}: {to_text(data.get('content') or '')}]")
        elif event.type is EventType.ERROR:
            lines.append(f"[error: {data.get('message')}]")
    return "\n\n".join(lines)
