"""Wakes sessions: steps them until nothing is open. A restart, cron and a retry all call this.

It skips a session that another process drives, and one whose tools this process does not have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from consolidator.errors import ConsolidatorError, SessionBusy, StaleEpoch, UsageError
from consolidator.llm.redaction.redact import format_redacted_traceback, redact
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.session.agent_defaults import SPAWN_TOOL, SpawnedBy, SpawnRequest, SpawnResult
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.budget import Usage
from consolidator.runtime.session.changes import check_driven_here
from consolidator.runtime.session.fold import OpenState
from consolidator.runtime.session.lease import Lease, hold_session
from consolidator.runtime.session.safe_points import Recovery, find_recovery
from consolidator.runtime.turn.harness import Harness, StepResult, waits_for_driver
from consolidator.runtime.turn.step import SessionStepper
from consolidator.runtime.turn.sub_agents import (
    cancel_sub_agent,
    create_sub_agent,
    find_failure,
    finish_abandoned,
    finish_sub_agent,
    is_unfinished,
    list_unfinished,
    read_result,
)
from consolidator.store.sessions import sessions
from consolidator.store.turns import lease as store
from consolidator.telemetry import open_span

log = logging.getLogger("consolidator.runtime")
_CONTINUE_REASONS = ("tool_calls", "interrupted")  # finish reasons after which there is more to do at once
_MAX_CONCURRENT = 4  # sessions
_POLL_SECONDS = 0.2  # between two looks at a sub-agent that another process drives


@dataclass(frozen=True, slots=True)
class WakeResult:
    """What came of waking a session: a result, or why it was skipped."""

    session_id: str
    result: StepResult | None = None
    skip_reason: str | None = None
    recovery: Recovery | None = None  # what the log ended in, and what was done about it


async def find_row(harness: Harness, session_id: str) -> Recovery:
    """Return which row of the recovery table a wake of a session applies now."""
    async with harness.database.connection() as conn:
        session = await sessions.get(conn, session_id)
        return await find_recovery(conn, session, has_sender=harness.find_sender(session) is not None)


@asynccontextmanager
async def drive_session(
    harness: Harness, session_id: str, *, lease: Lease | None = None
) -> AsyncIterator[SessionStepper]:
    """Hold a session to drive it, by a lease or a new one.

    Raises SessionBusy if another process does, and UsageError if tools are missing or another harness drives it.
    """
    seconds = harness.settings.session_lease_seconds
    async with hold_session(harness.database, session_id, seconds=seconds, lease=lease) as lease:
        check_driven_here(lease.session)
        missing = harness.missing_tools(lease.session.config)
        if missing:
            raise UsageError(f"session {session_id} uses tools that are missing here: {', '.join(missing)}")
        error = lease.session.error
        if error is not None and waits_for_driver(error):
            async with harness.database.connection() as conn:
                await store.clear_missing(conn, session_id, error)
        stepper = SessionStepper(harness, lease, partial(spawn_sub_agent, harness, session_id, by="agent"))
        await stepper.deliver_backlog()
        yield stepper


async def step_session(harness: Harness, session_id: str) -> StepResult:
    """Take one step of a session. Raises SessionBusy if another process drives it."""
    async with drive_session(harness, session_id) as stepper:
        result = await stepper.step()
        await _release_settled(stepper, await stepper.open_state())
        return result


async def wake_session(
    harness: Harness, session_id: str, *, lease: Lease | None = None, is_stopping: Callable[[], bool] = lambda: False
) -> StepResult:
    """Step a session until it waits for a person or nothing is open. Raises SessionBusy if it is driven elsewhere.

    No step begins once `is_stopping`: the session is released then, and whoever wakes it next goes on.
    """
    async with drive_session(harness, session_id, lease=lease) as stepper:
        agent = stepper.lease.session.agent
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
            "gen_ai.conversation.id": session_id,
        }
        with open_span("agent", f"invoke_agent {agent}", attributes) as span:
            result = await run_until_settled(stepper, is_stopping=is_stopping)
            span.attributes["consolidator.outcome"] = result.finish_reason
    if is_unfinished(stepper.lease.session) and not is_stopping():
        error = await find_failure(harness.database, session_id, result)
        await finish_sub_agent(harness.database, session_id, error=error)
    for child_id in stepper.sub_agents_to_wake:  # of programs that have ended, perhaps
        if not is_stopping():
            with suppress(SessionBusy, StaleEpoch, UsageError):
                await wake_session(harness, child_id, is_stopping=is_stopping)
    return result


async def spawn_sub_agent(
    harness: Harness,
    parent_id: str,
    call_id: str,
    request: SpawnRequest,
    *,
    by: SpawnedBy = "program",
    viewer: Viewer = OWNER,
) -> SpawnResult:
    """Create the sub-agent of a call, or find it, drive it to its end, and return what came of its task.

    Raises Forbidden, NotFound, and UsageError for a parent that may have no sub-agent and for tools that it lacks.
    """
    child = await create_sub_agent(harness, parent_id, request, call_id=call_id, by=by, viewer=viewer)
    async with harness.sub_agent_slots:
        while is_unfinished(child):
            error: str | None = None
            try:
                result = await wake_session(harness, child.id)
            except (SessionBusy, StaleEpoch):
                pass
            except ConsolidatorError as refusal:  # it cannot go on from here
                error = str(refusal)
            else:
                error = await find_failure(harness.database, child.id, result)
            if not await finish_sub_agent(harness.database, child.id, error=error):
                await asyncio.sleep(_POLL_SECONDS)  # another process drives it
            async with harness.database.connection() as conn:
                child = await sessions.get(conn, child.id)
    return await read_result(harness.database, child.id)


async def _review_sub_agents(stepper: SessionStepper, state: OpenState) -> None:
    """Cancel the sub-agents whose call was stopped, and note those that a program was to drive."""
    database, lease = stepper.harness.database, stepper.lease
    open_calls = {call.call_id for call in state.calls}
    for child in await list_unfinished(database, lease.session_id):
        if child.trigger_type != SPAWN_TOOL:  # no call of the model waits for its result
            stepper.sub_agents_to_wake.append(child.id)
        elif child.trigger_id not in open_calls:
            await cancel_sub_agent(database, child.id, "its parent stopped it", parent_epoch=lease.epoch)


async def run_until_settled(stepper: SessionStepper, *, is_stopping: Callable[[], bool] = lambda: False) -> StepResult:
    """Step a held session until nothing is left to do, and release it. The result sums up all steps."""
    last: StepResult | None = None
    usage, executed_count = Usage(), 0
    while True:
        result = await stepper.step()
        usage, executed_count = usage + result.usage, executed_count + result.executed_tool_count
        if result.finish_reason in _CONTINUE_REASONS and not is_stopping():
            last = result
            continue
        if result.finish_reason == "idle" and last is not None:
            result = last
        state = await stepper.open_state()
        if result.finish_reason in ("stop", "budget") and state.needs_model and not is_stopping():
            last = result  # another event came meanwhile
            await stepper.delivery.record()
            continue
        pending = await _release_settled(stepper, state, reviewed=False)
        if pending is None:
            await _review_sub_agents(stepper, state)
            pending = await _release_settled(stepper, await stepper.open_state())
        return replace(result, usage=usage, executed_tool_count=executed_count, is_settled=pending is False)


async def _release_settled(stepper: SessionStepper, state: OpenState, *, reviewed: bool = True) -> bool | None:
    """Release the session together with its marks, and record what was delivered last.

    Return whether it stays pending; None if it is not released, since sub-agents must be reviewed before.
    """
    lease, delivery = stepper.lease, stepper.delivery
    waits_for_person = state.waits_for_person and state.generation is None
    with boundary("commit settled"):
        async with stepper.harness.database.connection(for_step=True) as conn:
            pending = await store.release_settled(
                conn,
                lease.session_id,
                lease.epoch,
                settled=state.settled_to,
                delivered=delivery.delivered_to,
                pending=not (state.is_settled or waits_for_person),
                head=state.head,
                reviewed=reviewed,
                channel=delivery.channel,
                **delivery.unrecorded or {},
            )
    delivery.unrecorded = None
    lease.is_released = pending is not None
    if reviewed and pending is None:
        raise store.stale(lease.session_id, lease.epoch)
    return pending


async def wake_all(harness: Harness) -> list[WakeResult]:
    """Wake every pending session, a few concurrently. One that fails does not stop the others.

    Sub-agents that a killed process left without an end get one.
    """
    await finish_abandoned(harness.database)
    async with harness.database.connection() as conn:
        session_ids = await store.list_pending(conn)
    semaphore = asyncio.Semaphore(_MAX_CONCURRENT)

    async def wake(session_id: str) -> WakeResult:
        async with semaphore:
            try:
                recovery = await find_row(harness, session_id)
                return WakeResult(session_id, await wake_session(harness, session_id), recovery=recovery)
            except (SessionBusy, StaleEpoch, UsageError) as error:
                return WakeResult(session_id, skip_reason=str(error))
            except ConsolidatorError as error:
                reason = redact(str(error))
                log.warning("session %s could not be woken: %s", session_id, reason)
                return WakeResult(session_id, skip_reason=reason)
            except Exception as error:  # noqa: BLE001 - of a hook or of ours: it must not stop the others
                log.error("session %s could not be woken: %s", session_id, format_redacted_traceback(error))
                return WakeResult(session_id, skip_reason=redact(f"{type(error).__name__}: {error}"))

    return list(await asyncio.gather(*(wake(session_id) for session_id in session_ids)))
