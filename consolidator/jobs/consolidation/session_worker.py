"""Works on sessions: reads their next events up to the safe point, learns, and commits, window by window.

A large night does it in several processes, so that it uses as many cores as there are. A process is given the names of
claimed sessions; it reads their events, learns, and commits by itself: nothing of any event passes between processes.
The claims stay with the process of the night, which renews them and, where a process dies, tries its sessions again as
after any other failure. When the night's process ends, the others end, too.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from consolidator.clock import FrozenClock
from consolidator.database import Connection, Database
from consolidator.errors import ConsolidatorError, DatabaseUnavailable, Interrupted, as_disk_full
from consolidator.jobs.consolidation import learning, session_window
from consolidator.jobs.consolidation.learning import FoldStates
from consolidator.jobs.consolidation.persistence import commit_windows, unpack_folds
from consolidator.jobs.consolidation.session_window import (
    SessionWindow,
    WatermarkMoved,
    learn_windows,
    load_background,
    safe_point_finder,
)
from consolidator.jobs.gather import gather, unless_stopped
from consolidator.jobs.ledger import LostClaim, Unit, session_title
from consolidator.llm.redaction.redact import redact
from consolidator.memory.facts.candidates import session_context
from consolidator.memory.procedures.digest import DIGEST_VERSION
from consolidator.models.digest import DigestRow
from consolidator.models.session import SessionRow
from consolidator.process import count_cores
from consolidator.settings import Settings
from consolidator.store.calls import digests
from consolidator.store.log import events
from consolidator.store.sessions import sessions

if TYPE_CHECKING:
    from consolidator.jobs.model.extraction import FactReader


@dataclass(slots=True)
class SessionWorker:
    """Consolidates sessions; without a `reader`, by rules alone."""

    database: Database
    settings: Settings
    salt: bytes
    stop: asyncio.Event
    reader: FactReader | None = None
    titles: dict[str, str] = field(default_factory=dict)  # gets what people call each session, by its id

    async def run(self, units: list[Unit]) -> None:
        """Consolidate sessions up to their safe points; one window of each of some of them is committed together."""
        waiting = units
        while waiting:
            with suppress(WatermarkMoved):
                done = await self._do_windows(waiting)
                waiting = [unit for unit in waiting if unit.name not in done]
            if waiting and self.stop.is_set():
                raise Interrupted("asked to stop between two windows of a session")

    async def count_unlearned(self, session: str) -> int:
        """Return how many events of a session wait to be learned from."""
        async with self.database.connection() as conn:
            return sum(row.head - row.consolidated_to for row in await sessions.get_each(conn, [session]))

    async def _do_windows(self, units: Sequence[Unit]) -> set[str]:
        """Read, learn and commit one window of each of the first sessions; return the sessions that are done."""
        now = self.database.clock.now()
        units, windows = await self._read_windows(units, now)
        if self.reader is not None:  # no connection is held while a model is asked
            await gather(*(self._extract(self.reader, window) for window in windows))
        await asyncio.to_thread(self._learn, windows)
        for row in (window.session for window in windows):
            self.titles[row.id] = session_title(row.agent, row.project)
        steps = [window.progress() for window in windows]
        existing = {step.unit for step in steps}
        steps += [unit.progress() for unit in units if unit.name not in existing]  # erased since they were added
        async with self.database.transaction(flushed=False) as conn:  # flushed with the end of the run
            read = [window for window in windows if window.events]
            await commit_windows(conn, read, units=units, steps=steps, now=now)
        return {step.unit for step in steps if step.done}

    async def _read_windows(self, units: Sequence[Unit], now: datetime) -> tuple[Sequence[Unit], list[SessionWindow]]:
        """Return the units to work on now, and the windows of those that still exist.

        Where a window ends does not depend on the other units: a model's answers are stored by what it was shown.
        """
        async with self.database.connection() as conn:
            existing = await sessions.get_each(conn, [unit.name for unit in units])
            rows = session_window.take_together(existing)
            later = {row.id for row in existing[len(rows) :]}
            spans = [events.Span(row.id, row.consolidated_to, row.head, row.ingest_bounds) for row in rows]
            next_events = await events.read_each(conn, spans, limit=session_window.WINDOW)
            stored = await digests.get_each(conn, [row.id for row in rows])
            folds = [await self._load_folds(conn, row, stored.get(row.id)) for row in rows]
            background = {} if self.reader is None else await load_background(conn, rows)
        windows = []
        find_safe_point = safe_point_finder(self.settings, now)
        for row, window, state in zip(rows, next_events, folds, strict=True):
            is_last = not window or window[-1].seq >= row.head
            upto = session_window.find_readable_end(row, window, find_safe_point)
            readable = [event for event in window if event.seq <= upto]
            windows.append(SessionWindow(row, readable, upto, is_last, state, background.get(row.id, [])))
        return [unit for unit in units if unit.name not in later], windows

    async def _extract(self, reader: FactReader, window: SessionWindow) -> None:
        """Have a model read a window; rules learn tonight also from what it can read only another night."""
        session = window.session
        if session.simulated or not window.events:
            return
        if max(session.extracted_to, session.pruned_to) < session.consolidated_to:
            window.read_to = session.consolidated_to  # the model has to read the events before the window first
            return
        read = await reader.read(session_context(session), window.events, window.background)
        if read.stopped_before is not None:
            window.read_to = read.stopped_before - 1
        window.read = read.limit_to(window.stamped_to)

    async def _load_folds(self, conn: Connection, session: SessionRow, row: DigestRow | None) -> FoldStates | None:
        """Return a session's folds, made again if another version stored them; None if that cannot be done."""
        if row is None or row.version == DIGEST_VERSION:
            return unpack_folds(row)
        if not session.is_whole:
            return None
        folds = FoldStates()
        async for result in learn_windows(conn, session, folds, self.salt, after=0, upto=session.consolidated_to):
            folds = result.folds
        return folds

    def _learn(self, windows: Sequence[SessionWindow]) -> None:
        for window in windows:
            folds = window.folds or FoldStates()
            result = learning.learn_window(session_context(window.session), folds, window.events, self.salt)
            if window.folds is None:  # its beginning is pruned: the digest of the older version stays as it is
                result.folds = FoldStates()
            if window.read is not None:
                result.add_read(window.read)
            window.learned = result


class LearningFailed(ConsolidatorError):
    """A process failed to learn from sessions, or died."""


log = logging.getLogger("consolidator.jobs")
MIN_EVENTS = 15_000  # for each process of a night: to start one costs about as much as to learn from 5,000 to 7,000
_START_SECONDS = 120  # in which a process has to be ready
_PASSED_ON = (Interrupted, LostClaim, DatabaseUnavailable)  # errors that the night treats each in its own way
_runner: asyncio.Runner  # of a process that learns: one event loop for all that it is asked
_worker: SessionWorker  # of a process that learns
_script_lock = threading.Lock()


def count_processes(settings: Settings, events: int) -> int:
    """Return in how many processes a night with so many new events is learned from; 1 is this one alone."""
    return max(1, min(settings.learn_processes or count_cores(), events // MIN_EVENTS))


def _begin_process(dsn: str, salt: bytes, quiet_minutes: int) -> None:
    """Make this process one that learns for its parent."""
    global _runner, _worker
    # A Ctrl-C in a terminal and a service manager's stop reach all processes: the parent decides what ends when.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    silent = os.open(os.devnull, os.O_RDWR)
    os.dup2(silent, 1)
    os.dup2(silent, 2)  # a traceback may quote an event
    threading.Thread(target=_end_with_parent, daemon=True).start()
    settings = Settings.model_construct(quiet_minutes=quiet_minutes)
    _runner = asyncio.Runner()
    database = Database(dsn, FrozenClock(datetime.now().astimezone()), pool_size=2)
    _worker = SessionWorker(database, settings, salt, asyncio.Event())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(0)  # whatever it is doing: the database rolls back what is not committed


def _learn_for_parent(units: list[Unit], now: datetime) -> tuple[dict[str, str], ConsolidatorError | None]:
    """Learn from sessions; return their titles, and what went wrong, of which no traceback leaves this process."""
    error: ConsolidatorError | None = None
    try:
        _worker.database.clock = FrozenClock(now)
        _runner.run(_worker.run(units))
    except _PASSED_ON as failure:
        error = type(failure)(str(failure))
    except Exception as failure:  # noqa: BLE001 - the edge: the parent records it
        error = as_disk_full(failure) or LearningFailed(redact(f"{type(failure).__name__}: {failure}")[:2000])
    titles = dict(_worker.titles)
    _worker.titles.clear()
    return titles, error


@contextmanager
def _hidden_script() -> Iterator[None]:
    """Start processes that do not run this one's script again, as they would where it has no `__main__` guard."""
    main = sys.modules["__main__"]
    with _script_lock:  # a second that hid it at once would put back what is hidden
        spec, file = main.__spec__, main.__dict__.pop("__file__", None)
        main.__spec__ = None
        try:
            yield
        finally:
            main.__spec__ = spec
            if file is not None:
                main.__file__ = file


@dataclass(frozen=True, slots=True)
class _Process:
    """A process that learns, in a pool of its own: when it dies, the others go on."""

    pool: ProcessPoolExecutor
    pid: int

    def kill(self) -> None:
        """End it, whatever it is doing."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


@dataclass(slots=True)
class LearnPool:
    """Up to as many processes as there are callers of `run` at the same time."""

    worker: SessionWorker  # of this process: it learns where no other process can be started
    _idle: list[_Process] = field(default_factory=list)
    _pools: list[ProcessPoolExecutor] = field(default_factory=list)

    async def run(self, units: Sequence[Unit]) -> None:
        """Consolidate sessions in an idle process; raise what it raised there, LearningFailed if it died."""
        process = self._idle.pop() if self._idle else await self._start()
        if process is None:
            await self.worker.run(list(units))
            return

        loop, now = asyncio.get_running_loop(), self.worker.database.clock.now()
        answering = loop.run_in_executor(process.pool, _learn_for_parent, list(units), now)
        message = "asked to stop while sessions were learned from"
        try:
            titles, error = await unless_stopped(answering, self.worker.stop, message)
        except BrokenProcessPool:
            message = f"a process died while it learned from {len(units)} sessions"
            log.warning("%s: they are tried again", message)
            raise LearningFailed(message) from None
        except BaseException:  # also a cancellation: nobody waits for what it does
            process.kill()
            raise

        self._idle.append(process)
        self.worker.titles |= titles
        if error is not None:
            raise error

    async def _start(self) -> _Process | None:
        """Return a new process that is ready, None if none can be started."""
        worker = self.worker
        pool = ProcessPoolExecutor(
            1,
            multiprocessing.get_context("spawn"),  # what it is given goes through a pipe: nobody else sees the address
            _begin_process,
            (worker.database.dsn, worker.salt, worker.settings.quiet_minutes),
        )
        self._pools.append(pool)
        try:
            async with asyncio.timeout(_START_SECONDS):
                with _hidden_script():
                    ready = asyncio.get_running_loop().run_in_executor(pool, os.getpid)
                return _Process(pool, await ready)
        except (BrokenProcessPool, OSError) as error:
            log.warning("no process to learn in can be started (%s): learning in this one", error)
            return None

    async def aclose(self) -> None:
        """End the processes; what they have not committed is rolled back."""
        for process in self._idle:
            process.kill()
        for pool in self._pools:
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)
