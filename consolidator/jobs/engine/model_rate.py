"""One rate of model calls over all processes: each call waits for its turn in a queue that DBOS limits.

A turn is a workflow that does nothing; the call follows it. A process that dies between the two has lost a turn, and no
call is made without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dbos import DBOS

from consolidator.database import Database
from consolidator.errors import Interrupted
from consolidator.jobs.engine.dbos_process import POLL_SECONDS, EngineProcess, open_process, running
from consolidator.jobs.model.calls import BEFORE_CALL
from consolidator.settings import Settings

QUEUE = "model-calls"
WINDOW_SECONDS = 2  # the rate holds in each window of about this length


def limiter(calls_per_minute: int) -> tuple[int, float]:
    """Return a rate as a number of calls in a number of seconds."""
    calls = max(1, calls_per_minute * WINDOW_SECONDS // 60)
    return calls, 60 * calls / calls_per_minute


@DBOS.workflow(name="model_call", max_recovery_attempts=None)
async def _turn() -> None:
    running().join()


@asynccontextmanager
async def limited_calls(process: EngineProcess) -> AsyncIterator[None]:
    """Have each model call of this task, and of those it starts, wait for its turn, if there is a rate."""
    rate = process.settings.model_calls_per_minute
    if rate is None:
        yield
        return
    calls, seconds = limiter(rate)
    await DBOS.register_queue_async(
        QUEUE,
        limiter={"limit": calls, "period": seconds},
        polling_interval_sec=POLL_SECONDS,
        on_conflict="always_update",
    )

    async def wait_for_turn() -> None:
        handle = await DBOS.enqueue_workflow_async(QUEUE, _turn)
        turn = asyncio.create_task(handle.get_result(polling_interval_sec=POLL_SECONDS))
        stopping = asyncio.create_task(process.stop.wait())
        try:
            await asyncio.wait((turn, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not turn.done():
                raise Interrupted("asked to stop while model calls wait for their turn")
            await turn
        finally:
            turn.cancel()
            stopping.cancel()

    token = BEFORE_CALL.set(wait_for_turn)
    try:
        yield
    finally:
        BEFORE_CALL.reset(token)


@asynccontextmanager
async def limited_run(database: Database, settings: Settings) -> AsyncIterator[None]:
    """Hold the rate for model calls outside of a night, such as those of a backfill."""
    async with open_process(database, settings, asyncio.Event(), [QUEUE]) as process, limited_calls(process):
        yield
