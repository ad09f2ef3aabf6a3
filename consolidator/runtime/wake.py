"""Wakes sessions: brings whatever is open to its end, by the one right thing for each. What restart, cron, retry call.

A session that somebody else drives is left to them; so is one whose tools this process does not have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from consolidator.errors import ConsolidatorError, SessionBusy, StaleEpoch, UsageError
from consolidator.llm.redaction.redact import redact, traced
from consolidator.runtime.boundaries import around
from consolidator.runtime.fold import Open
from consolidator.runtime.harness import Harness, StepResult, Usage
from consolidator.runtime.lease import held
from consolidator.runtime.step import Stepper
from consolidator.store.log import lease as store

log = logging.getLogger("consolidator.runtime")
_AGAIN = ("tool_calls", "interrupted")
_AT_ONCE = 4  # sessions woken beside each other


@dataclass(frozen=True, slots=True)
class Woken:
    """What waking a session came to; `left` says why it was left alone."""

    session_id: str
    result: StepResult | None = None
    left: str | None = None


@asynccontextmanager
async def driving(harness: Harness, session_id: str) -> AsyncIterator[Stepper]:
    """Take a session up to drive it; raise SessionBusy where another does, and UsageError where tools are missing."""
    async with held(harness.database, session_id, seconds=harness.settings.session_lease_seconds) as lease:
        lacking = harness.lacks(lease.row)
        if lacking:
            raise UsageError(f"session {session_id} works with tools that are not here: {', '.join(lacking)}")
        stepper = Stepper(harness, lease)
        await stepper.outlet.catch_up()
        yield stepper


async def step(harness: Harness, session_id: str) -> StepResult:
    """Take one step of a session; raise SessionBusy where another process drives it."""
    async with driving(harness, session_id) as stepper:
        result = await stepper.step()
        await _give_back(stepper, await stepper.known())
        return result


async def wake(harness: Harness, session_id: str) -> StepResult:
    """Step a session until it waits for a person or has nothing left to do; raise SessionBusy where another does."""
    async with driving(harness, session_id) as stepper:
        return await run(stepper)


async def run(stepper: Stepper) -> StepResult:
    """Step a session that is held to its end, and give it back; the result sums up what all steps took."""
    last: StepResult | None = None
    usage, ran = Usage(), 0
    while True:
        result = await stepper.step()
        usage, ran = usage + result.usage, ran + result.executed_tool_count
        if result.finish_reason in _AGAIN:
            last = result
            continue
        if result.finish_reason == "idle" and last is not None:
            result = last
        found = await stepper.known()
        if result.finish_reason == "stop" and not found.is_settled:
            last = result  # something came meanwhile
            continue
        await _give_back(stepper, found)
        return replace(result, usage=usage, executed_tool_count=ran)


async def _give_back(stepper: Stepper, found: Open) -> None:
    lease = stepper.lease
    waits = found.waiting and found.generation is None
    with around("commit settled"):
        async with stepper.harness.database.connection() as conn:
            await store.mark_settled(
                conn, lease.session_id, lease.epoch, settled=found.settled_to,
                delivered=stepper.outlet.delivered_to, pending=not (found.is_settled or waits), head=found.head,
            )  # fmt: skip
    lease.gave_back()


async def wake_all(harness: Harness) -> list[Woken]:
    """Wake every session in which something is open, a few at a time; one that fails does not keep the others."""
    async with harness.database.connection() as conn:
        waiting = await store.pending(conn)
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(session_id: str) -> Woken:
        async with turn:
            try:
                return Woken(session_id, await wake(harness, session_id))
            except (SessionBusy, StaleEpoch, UsageError) as error:
                return Woken(session_id, left=str(error))
            except ConsolidatorError as error:
                log.warning("session %s could not be woken: %s", session_id, error)
                return Woken(session_id, left=str(error))
            except Exception as error:  # noqa: BLE001 - of a hook, or of ours: it must not keep others asleep
                log.error("session %s could not be woken: %s", session_id, traced(error))
                return Woken(session_id, left=redact(f"{type(error).__name__}: {error}"))

    return list(await asyncio.gather(*(one(name) for name in waiting)))
