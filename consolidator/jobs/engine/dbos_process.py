"""DBOS in this process, while a run needs it: its tables, its event loop, and the workflows of processes that died.

DBOS runs workflows as tasks of this process's event loop. Without its cloud service it recovers only what a process of
the same name left behind; here each process has a new name, and a living one takes over what a dead one had.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import psycopg
import sqlalchemy
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.exc import SQLAlchemyError

from consolidator.database import Connection, Database, roles
from consolidator.errors import ConsolidatorError, DatabaseError, Interrupted
from consolidator.jobs.model.calls import BEFORE_CALL
from consolidator.llm.redaction.redact import format_redacted_traceback
from consolidator.process import owner_name
from consolidator.settings import Settings
from consolidator.store.nights import runs

log = logging.getLogger("consolidator.jobs")
T = TypeVar("T")
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

    async def do(self, name: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """Do a stage of a workflow in a task that knows nothing of DBOS; return its result.

        A stage that fails, or that ends because this process stops, never ends its workflow: it stays in the database
        for the process that goes on with it. A stage that is asked for again while it runs is not done twice.
        """
        task = self._stages.get(name)
        if task is None:
            task = asyncio.create_task(_call(work), context=self.context.copy())
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


async def _call(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


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
