"""A night as a workflow of DBOS: its sessions and merges are handed out in batches, by a queue that all replicas serve.

The ledger stays the book of the night. A batch names units; its replica claims them there, and what they learn is
committed with the claim. So a batch that is done twice, or goes on elsewhere, learns nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from dbos import DBOS, SetWorkflowID

from consolidator.errors import Interrupted, RunFailed
from consolidator.jobs.consolidation.pipeline import Night, Phase, open_night
from consolidator.jobs.engine import dbos_process
from consolidator.jobs.engine.dbos_process import POLL_SECONDS, EngineProcess, open_process, running
from consolidator.jobs.ledger import Ledger
from consolidator.models.run import RunRow
from consolidator.store.nights import runs

log = logging.getLogger("consolidator.jobs")
T = TypeVar("T")
STATUS_SECONDS = 0.5  # between looks at whether the night has ended
ASK_SECONDS = 10.0  # for DBOS to say how its workflow is
PLANNED = 4096  # units that are handed out before the next are looked up
BATCH = 64  # units of a batch, at most
KEPT = timedelta(days=7)  # how long DBOS shows what it did
_ENDED = ("done", "failed")
_STOPPED = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")  # states of workflows
_nights: dict[str, Night] = {}  # this process's part in each night, by run


async def run_night(ledger: Ledger, *, started: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Do a run's night together with its other replicas; return the run's report when it has ended.

    Raises Interrupted when the ledger is asked to stop: other replicas go on, or the next start does.
    """
    run_id = ledger.run_id
    night_queue, batches = _night_queue(run_id), _batches_queue(run_id)
    queues = [night_queue, batches, dbos_process.QUEUE]
    async with (
        open_process(ledger.database, ledger.settings, ledger.stop, queues) as process,
        dbos_process.limited_calls(process),
        open_night(ledger, started=started) as night,
    ):
        process.context = copy_context()
        _nights[run_id] = night
        try:
            await DBOS.register_queue_async(
                batches,
                worker_concurrency=ledger.settings.workers,
                polling_interval_sec=POLL_SECONDS,
                on_conflict="always_update",
            )
            await DBOS.register_queue_async(night_queue, on_conflict="always_update")
            run = await _begin_workflow(ledger) or await _wait_for_end(process, ledger)
            await process.finish()
        finally:
            del _nights[run_id]
    return {**run.report, "status": run.status} | ({"error": run.error} if run.error else {})


def _night_queue(run_id: str) -> str:
    return f"night-{run_id}"


def _batches_queue(run_id: str) -> str:
    return f"batches-{run_id}"


@DBOS.workflow(name="night", max_recovery_attempts=None)
async def _do_night(run_id: str) -> None:
    process, night = running(), _nights[run_id]
    process.join()

    async def do(stage: str, work: Callable[[], Awaitable[T]]) -> T:
        result: T = await DBOS.run_step_async({"name": stage}, process.do, (run_id, stage), work)
        return result

    phases = {phase.name: phase for phase in night.list_phases()}
    for name in await do("begin", partial(_begin, night)):
        await do(f"add {name}", phases[name].add_units)
        count = 0
        while planned := await do(f"plan {name}", partial(_plan, night.ledger, phases[name])):
            handles = []
            for units in planned:
                count += 1
                with SetWorkflowID(f"night-{run_id}-{name}-{count}"):
                    handles.append(
                        await DBOS.enqueue_workflow_async(_batches_queue(run_id), _do_batch, run_id, name, units)
                    )
            for handle in handles:
                await handle.get_result(polling_interval_sec=POLL_SECONDS)
    await do("finish", partial(_finish, night))


@DBOS.workflow(name="batch", max_recovery_attempts=None)
async def _do_batch(run_id: str, name: str, units: list[str]) -> None:
    process, night = running(), _nights[run_id]
    process.join()
    phase = next(phase for phase in night.list_phases() if phase.name == name)
    work = partial(night.ledger.work_on, phase.number, units, phase.work, phase.count_unlearned)
    await process.do((run_id, name, *units), work)


async def _begin(night: Night) -> list[str]:
    """Begin the night; return the names of its phases."""
    await _forget_old(night.ledger)
    await night.begin()
    return [phase.name for phase in night.list_phases()]


async def _plan(ledger: Ledger, phase: Phase) -> list[list[str]]:
    """Return the next units of a phase in batches, many enough for several replicas; none when all have ended."""
    units = await ledger.list_unfinished(phase.number, limit=PLANNED)
    size = max(1, min(BATCH, len(units) // 16))
    return [units[start : start + size] for start in range(0, len(units), size)]


async def _finish(night: Night) -> None:
    await night.finish()


async def _begin_workflow(ledger: Ledger) -> RunRow | None:
    """Begin the run's workflow, unless it has begun; return the run if it has ended meanwhile.

    A workflow that ended without the run, such as one that a person cancelled, begins anew.
    """
    name = _night_queue(ledger.run_id)
    status = await DBOS.get_workflow_status_async(name)
    if status is not None and status.status in _STOPPED:
        run = await _load_run(ledger)
        if run.status in _ENDED:
            return run
        rows = await DBOS.list_workflows_async(workflow_id_prefix=name, load_input=False, load_output=False)
        await DBOS.delete_workflows_async([row.workflow_id for row in rows])
    with SetWorkflowID(name):
        await DBOS.enqueue_workflow_async(name, _do_night, ledger.run_id)
    log.info("shared by DBOS, as the workflow %s", name)
    return None


async def _load_run(ledger: Ledger) -> RunRow:
    async with ledger.database.connection() as conn:
        return await runs.get(conn, ledger.run_id)


async def _wait_for_end(process: EngineProcess, ledger: Ledger) -> RunRow:
    """Wait until the ledger says that the run has ended, and return it."""
    while True:
        run = await _load_run(ledger)
        if run.status in _ENDED:
            return run
        if process.failure is not None:
            raise process.failure
        if ledger.stop.is_set():
            await process.settle()
            raise Interrupted("asked to stop: finished units are kept, the rest go on with the next run")
        with suppress(TimeoutError):  # without the database DBOS would ask for ever, and the ledger says so
            async with asyncio.timeout(ASK_SECONDS):
                status = await DBOS.get_workflow_status_async(_night_queue(ledger.run_id))
            if status is not None and status.status in _STOPPED and (await _load_run(ledger)).status not in _ENDED:
                raise RunFailed(f"DBOS has stopped the night ({status.status}); run it again, and it begins anew")
        with suppress(TimeoutError):
            async with asyncio.timeout(STATUS_SECONDS):
                await process.ended.wait()


async def _forget_old(ledger: Ledger) -> None:
    """Delete what DBOS keeps of older nights, and the queues of those that have ended."""
    async with ledger.database.connection() as conn:
        for queue in await DBOS.list_queues_async():
            kind, _, run_id = queue.name.partition("-")
            if kind in ("night", "batches") and run_id != ledger.run_id and not await runs.is_unfinished(conn, run_id):
                await DBOS.delete_queue_async(queue.name)
    before = (datetime.now(UTC) - KEPT).isoformat()
    while old := await DBOS.list_workflows_async(end_time=before, limit=1000, load_input=False, load_output=False):
        await DBOS.delete_workflows_async([row.workflow_id for row in old])
