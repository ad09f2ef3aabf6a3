"""Works on sessions: reads their next events up to the safe point, learns, and commits, window by window.

A large night does it in several processes, so that it uses as many cores as there are. A process is given the names of
claimed sessions; it reads their events, learns, and commits by itself: what passes between the processes are names, a
line of JSON each, and nothing of any event is written anywhere else. The claims stay with the process of the night,
which renews them and, where a process dies, tries its sessions again as after any other failure. When the night's
process ends, the others end, too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO

from consolidator.clock import FrozenClock
from consolidator.database import Connection, Database
from consolidator.errors import ConsolidatorError, DatabaseUnavailable, DiskFull, Interrupted, raise_if_disk_full
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
from consolidator.jobs.gather import gather
from consolidator.jobs.ledger import LostClaim, Unit, session_title
from consolidator.jobs.model.extraction import FactReader
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


MAX_LINE = 1 << 24  # bytes of a request or an answer: a few names and an error
STOP = "stop"


class LearningFailed(ConsolidatorError):
    """A process failed to learn from sessions, or died."""


ERRORS: dict[str, type[ConsolidatorError]] = {  # by what an answer calls them
    "interrupted": Interrupted,
    "lost": LostClaim,
    "full": DiskFull,
    "unavailable": DatabaseUnavailable,
    "failed": LearningFailed,
}


def main() -> None:
    """Serve requests until the other process closes the input."""
    # A Ctrl-C in a terminal and a service manager's stop reach all processes: the other one decides what ends when.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    silent = os.open(os.devnull, os.O_RDWR)
    os.dup2(silent, 1)
    os.dup2(silent, 2)  # a traceback may quote an event
    asyncio.run(_serve(answers))


async def _serve(answers: BinaryIO) -> None:
    lines = asyncio.StreamReader(limit=MAX_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    start = json.loads(await lines.readline())
    clock, stop = FrozenClock(datetime.fromisoformat(start["now"])), asyncio.Event()
    database = Database(start["dsn"], clock, pool_size=1)
    settings = Settings.model_construct(**start["settings"])
    worker = SessionWorker(database, settings, bytes.fromhex(start["salt"]), stop)
    _answer(answers, {"ready": True})
    requests: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    reading = asyncio.create_task(_read_requests(lines, requests, stop))  # the name keeps the task alive
    while True:
        request = await requests.get()
        clock.set(datetime.fromisoformat(request["now"]))
        units = [Unit(request["run"], "session", name, request["owner"], 1) for name in request["sessions"]]
        _answer(answers, {**await _learn_for_parent(worker, units), "titles": worker.titles})
        worker.titles.clear()
        assert not reading.done()


async def _read_requests(
    lines: asyncio.StreamReader, requests: asyncio.Queue[dict[str, Any]], stop: asyncio.Event
) -> None:
    """Pass requests on; end the process when the other one has ended, whatever it is doing."""
    try:
        while line := await lines.readline():
            request = json.loads(line)
            if request == STOP:
                stop.set()
            else:
                requests.put_nowait(request)
    finally:
        os._exit(0)  # the database rolls back what is not committed


async def _learn_for_parent(worker: SessionWorker, units: list[Unit]) -> dict[str, Any]:
    """Learn from sessions; return what went wrong as a kind and a message, nothing if all went well."""
    try:
        try:
            await worker.run(units)
        except Exception as error:
            raise_if_disk_full(error)
            raise
    except Exception as error:  # noqa: BLE001 - the edge: it is told to the other process, which records it
        kind = next((name for name, known in ERRORS.items() if isinstance(error, known)), None)
        if kind is None:
            return {"error": "failed", "message": redact(f"{type(error).__name__}: {error}")[:2000]}
        return {"error": kind, "message": str(error)}
    return {}


def _answer(answers: BinaryIO, answer: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # the other process has ended: the next read ends this one
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


log = logging.getLogger("consolidator.jobs")
MIN_EVENTS = 15_000  # for each process of a night: to start one costs about as much as to learn from 5,000 to 7,000
_MODULE = "consolidator.jobs.consolidation.session_worker"
_START_SECONDS = 120  # in which a process has to be ready
_END_SECONDS = 5  # in which it has to end when it is asked to


def count_processes(settings: Settings, events: int) -> int:
    """Return in how many processes a night with so many new events is learned from; 1 is this one alone."""
    return max(1, min(settings.learn_processes or count_cores(), events // MIN_EVENTS))


@dataclass(slots=True)
class LearnPool:
    """Up to as many processes as there are callers of `run` at the same time."""

    worker: SessionWorker  # of this process: it learns where no other process can be started
    _idle: list[asyncio.subprocess.Process] = field(default_factory=list)
    _running: set[asyncio.subprocess.Process] = field(default_factory=set)

    async def run(self, units: Sequence[Unit]) -> None:
        """Consolidate sessions in an idle process; raise what it raised there, LearningFailed if it died."""
        process = self._idle.pop() if self._idle else await self._start()
        if process is None:
            await self.worker.run(list(units))
            return
        try:
            answer = await self._ask(process, units)
        except BaseException:  # also a cancellation: nobody waits for what it does
            await self._kill(process)
            raise
        if answer is None:
            await self._kill(process)
            message = f"a process died ({_describe_exit(process)}) while it learned from {len(units)} sessions"
            log.warning("%s: they are tried again", message)
            raise LearningFailed(message)
        self._idle.append(process)
        self.worker.titles |= answer["titles"]
        if "error" in answer:
            raise ERRORS[answer["error"]](answer["message"])

    async def _start(self) -> asyncio.subprocess.Process | None:
        """Return a new process that is ready, None if none can be started."""
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", _MODULE,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=MAX_LINE,
            )  # fmt: skip
        except OSError as error:
            log.warning("no process to learn in can be started (%s): learning in this one", error)
            return None
        self._running.add(process)
        is_ready = None
        settings, dsn = self.worker.settings, self.worker.database.dsn
        times = {"quiet_minutes": settings.quiet_minutes}
        try:
            async with asyncio.timeout(_START_SECONDS):
                # The address goes through the pipe: others can see the arguments and the environment of a process.
                await _send(
                    process, {"dsn": dsn, "salt": self.worker.salt.hex(), "settings": times, "now": self._now()}
                )
                is_ready = await _receive(process)
        except TimeoutError:
            pass
        finally:
            if is_ready is None:
                await self._kill(process)
        if is_ready is None:
            log.warning("a process to learn in did not start (%s): learning in this one", _describe_exit(process))
            return None
        return process

    async def _ask(self, process: asyncio.subprocess.Process, units: Sequence[Unit]) -> dict[str, Any] | None:
        """Return the process's answer, None if it died; ask it to stop when this one is asked to."""
        names = [unit.name for unit in units]
        request = {"run": units[0].run_id, "owner": units[0].owner, "now": self._now(), "sessions": names}
        await _send(process, request)
        answering = asyncio.create_task(_receive(process))
        stopping = asyncio.create_task(self.worker.stop.wait())
        try:
            await asyncio.wait({answering, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                await _send(process, STOP)
            return await answering
        finally:
            answering.cancel()
            stopping.cancel()

    def _now(self) -> str:
        return self.worker.database.clock.now().isoformat()

    async def _kill(self, process: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        self._running.discard(process)

    async def close(self) -> None:
        """End the processes; what they have not committed is rolled back."""
        for process in self._running:
            if process.stdin is not None:
                process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                for process in self._running:
                    await process.wait()
        for process in list(self._running):
            await self._kill(process)


@asynccontextmanager
async def open_learn_pool(worker: SessionWorker) -> AsyncIterator[LearnPool]:
    """Yield a pool whose processes start when they are needed, and end with the block."""
    pool = LearnPool(worker)
    try:
        yield pool
    finally:
        await pool.close()


async def _send(process: asyncio.subprocess.Process, request: Any) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # it died: then there is no answer
        process.stdin.write(json.dumps(request).encode() + b"\n")
        await process.stdin.drain()


async def _receive(process: asyncio.subprocess.Process) -> dict[str, Any] | None:
    """Return the next answer, None if the process has ended without one."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line.endswith(b"\n"):
        return None
    answer: dict[str, Any] = json.loads(line)
    return answer


def _describe_exit(process: asyncio.subprocess.Process) -> str:
    code = process.returncode
    return "its state is unknown" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"


if __name__ == "__main__":
    main()
