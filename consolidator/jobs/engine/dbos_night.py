"""A night as a workflow of DBOS: its sessions and merges are handed out in batches, by a queue that all replicas serve.

The ledger stays the book of the night. A batch names units; its replica claims them there, and what they learn is
committed with the claim. So a batch that is done twice, or goes on elsewhere, learns nothing twice.

DBOS runs workflows as tasks of this process's event loop. Without its cloud service it recovers only what a process of
the same name left behind; here each process has a new name, and a living one takes over what a dead one had.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NoReturn, TypeVar

import psycopg
import sqlalchemy
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.exc import SQLAlchemyError

from consolidator.database import Connection, Database, roles
from consolidator.errors import ConsolidatorError, DatabaseError, Interrupted, RunFailed
from consolidator.jobs.consolidation.pipeline import Night, Phase, open_night
from consolidator.jobs.ledger import Ledger
from consolidator.llm.redaction.redact import format_redacted_traceback
from consolidator.models.run import RunRow
from consolidator.process import owner_name
from consolidator.settings import Settings
from consolidator.store.nights import runs

SCHEMA = "consolidator_dbos"
VERSION = "1"  # of the workflows: processes with the same one take over from each other
POLL_SECONDS = 0.2  # between looks for work, and for results
WATCH_SECONDS = 1.0  # between looks for dead processes
FINISH_SECONDS = 10.0  # for workflows whose work is done to write that down
CONNECTIONS = 4
_engine_log = logging.getLogger("dbos")


@dataclass(slots=True)
class EngineProcess:
    """DBOS as it runs in this process."""

    database: Database
    settings: Settings
    stop: asyncio.Event
    executor: str = field(default_factory=owner_name)
    failure: BaseException | None = None  # why a stage could not be done here; another process may try it
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # set with `failure`
    context: Context = field(default_factory=copy_context)  # of whoever opened it, without DBOS's own variables
    _stages: dict[Hashable, asyncio.Task[Any]] = field(default_factory=dict)
    _workflows: set[asyncio.Task[Any]] = field(default_factory=set)
    _has_left: bool = False

    async def do(self, name: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do a stage of a workflow in a task that knows nothing of DBOS; return its result.

        A stage that fails, or that ends because this process stops, never ends its workflow: it stays in the database
        for the process that goes on with it. A stage that is asked for again while it runs is not done twice.
        """
        task = self._stages.get(name)
        if task is None:
            task = asyncio.create_task(work(), context=self.context.copy())
            self._stages[name] = task
            task.add_done_callback(lambda _: self._stages.pop(name, None))
        try:
            result: T = await asyncio.shield(task)
        except Exception as error:  # noqa: BLE001 - the edge: whoever runs the night raises it
            self.failure = self.failure or error
            self.ended.set()
            await wait_forever()
        if self.stop.is_set():
            await wait_forever()
        return result

    def join(self) -> None:
        """Count the current task as a workflow, which is cancelled when this process leaves."""
        task = asyncio.current_task()
        assert task is not None
        self._workflows.add(task)
        task.add_done_callback(self._workflows.discard)

    async def settle(self) -> None:
        """Wait until the stages under way have ended, which they do soon after `stop` is set."""
        if self._stages:
            await asyncio.wait(set(self._stages.values()))

    async def watch(self) -> None:
        """Hold this process's lock, and take over what dead processes left, until cancelled."""
        alive = await self._hold_lock()
        try:
            while True:
                await asyncio.sleep(WATCH_SECONDS)
                try:
                    if alive.closed or alive.broken:
                        alive = await self._hold_lock()
                    await alive.execute("select 1")  # a connection that says nothing for a lease is taken for frozen
                    await self._take_over(alive)
                except (ConsolidatorError, psycopg.Error, SQLAlchemyError) as error:
                    log.warning("looking for dead processes: %s", format_redacted_traceback(error))
        finally:
            await alive.close()

    async def _hold_lock(self) -> Connection:
        conn = await self.database.open_dedicated()
        await runs.hold(conn, self.executor, lease_seconds=self.settings.lease_seconds)
        return conn

    async def _take_over(self, conn: Connection) -> None:
        """Return the workflows of dead processes to their queues; their locks keep others from doing it, too."""
        pending = await DBOS.list_workflows_async(status="PENDING", load_input=False, load_output=False)
        for executor in {row.executor_id for row in pending if row.executor_id} - {self.executor}:
            if not await runs.try_lock(conn, executor, lease_seconds=self.settings.lease_seconds):
                continue
            try:
                for row in await DBOS.list_workflows_async(
                    status="PENDING", executor_id=executor, load_input=False, load_output=False
                ):
                    await DBOS.resume_workflow_async(row.workflow_id, queue_name=row.queue_name)
                    log.info("workflow %s is taken over from %s", row.workflow_id, executor)
            finally:
                await runs.unlock(conn, executor)

    async def finish(self) -> None:
        """Let the workflows of this process write down that they have ended."""
        if self._workflows and not self.stop.is_set():
            await asyncio.wait(set(self._workflows), timeout=FINISH_SECONDS)

    def connect(self) -> psycopg.Connection:
        """Open a connection for DBOS."""
        if self._has_left:  # ends its attempts, which go on for ever while the database is away
            raise DatabaseError("this process has left DBOS")
        return psycopg.connect(self.database.dsn, connect_timeout=15)

    async def leave(self) -> None:
        """Cancel the workflows of this process; they stay in the database for others."""
        self._has_left = True
        tasks = [*self._workflows, *self._stages.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def wait_forever() -> NoReturn:
    """Wait until cancelled."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError


_running: EngineProcess | None = None


def running() -> EngineProcess:
    """Return the engine of this process; whatever DBOS starts after it has ended is cancelled."""
    if _running is None:
        raise asyncio.CancelledError
    return _running


@asynccontextmanager
async def open_process(
    database: Database, settings: Settings, stop: asyncio.Event, queues: Sequence[str]
) -> AsyncIterator[EngineProcess]:
    """Run DBOS in this process, which takes work from these queues; wait if it runs already for another run."""
    global _running
    while _running is not None:
        if stop.is_set():
            raise Interrupted("asked to stop while another run of this process uses DBOS")
        await asyncio.sleep(WATCH_SECONDS)

    process = _running = EngineProcess(database, settings, stop)
    try:
        await upgrade_schema(database)
        engine = sqlalchemy.create_engine(
            "postgresql+psycopg://",
            creator=process.connect,
            pool_size=CONNECTIONS,
            max_overflow=CONNECTIONS,
            pool_pre_ping=True,
        )
        watching = asyncio.create_task(process.watch())
        try:
            _launch(engine, process.executor, queues)
            yield process
        finally:
            _quiet(logging.CRITICAL)  # it warns of each workflow that is cancelled
            watching.cancel()
            await asyncio.gather(watching, process.leave(), return_exceptions=True)
            # DBOS made its own pool of threads that of the loop, and is about to close it.
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(thread_name_prefix="asyncio"))
            await asyncio.to_thread(DBOS.destroy)
            engine.dispose()
    finally:
        _running = None


def _quiet(level: int) -> None:
    """Have DBOS log through this process's own handlers, from a level on."""
    if not _engine_log.handlers:  # else it adds one that writes to stderr in a form of its own
        _engine_log.addHandler(logging.NullHandler())
        _engine_log.addFilter(
            lambda line: not line.getMessage().startswith("Contention detected")
        )  # it waits, and goes on
    _engine_log.setLevel(level)


def _launch(engine: sqlalchemy.Engine, executor: str, queues: Sequence[str]) -> None:
    """Launch DBOS from the event loop's thread, so that it runs workflows on this loop."""
    config: DBOSConfig = {
        "name": "consolidator",
        "application_version": VERSION,
        "executor_id": executor,
        "system_database_engine": engine,
        "dbos_system_schema": SCHEMA,
        "sys_db_polling_concurrency": CONNECTIONS // 2,
        "run_migrations": False,
        "enable_otlp": False,
        "log_level": "WARNING",
        "serializer": DBOSPortableJSONSerializer(),
    }
    _quiet(logging.WARNING)
    DBOS(config=config)
    DBOS.listen_queues(queues)
    try:
        DBOS.launch()
    except Exception as error:
        raise DatabaseError(
            f"DBOS cannot use the schema {SCHEMA} ({type(error).__name__}): its owner makes it with `consolidator db "
            "upgrade` where CONSOLIDATOR_NIGHT_ENGINE=dbos is set"
        ) from error


async def upgrade_schema(database: Database) -> None:
    """Make or upgrade the tables of DBOS as the owner of the schema, if this process may be that."""
    if database.access == "owner" or database.owner_dsn != database.dsn:
        await asyncio.to_thread(_upgrade_schema, database.owner_dsn)


def _upgrade_schema(dsn: str) -> None:
    _quiet(logging.ERROR)  # it warns if the owner may not look whether the database exists
    with psycopg.connect(dsn, connect_timeout=15) as conn:
        role = roles.WRITER if roles.roles_exist(conn) else None
    DBOS.migrate(_as_url(dsn), schema=SCHEMA, application_role=role)


def _as_url(dsn: str) -> str:
    """Return a libpq address in the form that SQLAlchemy reads."""
    options = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value is not None}
    url = sqlalchemy.URL.create(
        "postgresql+psycopg",
        username=options.pop("user", None),
        password=options.pop("password", None),
        database=options.pop("dbname", None),
        query=options,
    )
    return url.render_as_string(hide_password=False)


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


async def run_night(ledger: Ledger) -> dict[str, Any]:
    """Do a run's night together with its other replicas; return the run's report when it has ended.

    Raises Interrupted when the ledger is asked to stop: other replicas go on, or the next start does.
    """
    run_id = ledger.run_id
    night_queue, batches = _night_queue(run_id), _batches_queue(run_id)
    async with (
        open_process(ledger.database, ledger.settings, ledger.stop, [night_queue, batches]) as process,
        open_night(ledger) as night,
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

    async def do(stage: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
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
    work = partial(night.ledger.work_on, phase.number, units, phase.work)
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
