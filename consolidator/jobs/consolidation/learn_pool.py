"""Learns from sessions in several processes, so that a night uses as many cores as there are.

A process is given the names of claimed sessions. It reads their events, learns, and commits by itself: what passes
between the processes are names, so that nothing has to be copied. The claims stay with this process, which renews them
and, where a process dies, tries its sessions again as after any other failure.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from consolidator.jobs.consolidation.learn_process import ERRORS, MAX_LINE, STOP, LearningFailed
from consolidator.jobs.consolidation.session_worker import SessionWorker
from consolidator.jobs.ledger import Unit
from consolidator.process import count_cores
from consolidator.settings import Settings

log = logging.getLogger("consolidator.jobs")
MIN_EVENTS = 15_000  # for each process of a night: to start one costs about as much as to learn from 5,000 to 7,000
_MODULE = "consolidator.jobs.consolidation.learn_process"
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
