"""Runs that a program asks for: they go on in this process after the answer, which names the run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from consolidator.errors import ConsolidatorError, Interrupted, RequestUnderWay
from consolidator.jobs.ledger import ON_RUN, JobContext
from consolidator.llm.redaction.redact import format_redacted_traceback, redact

log = logging.getLogger("consolidator.api")
ANSWER_SECONDS = 20.0  # until a request is answered without the run's id: the run waits for another replica's


@dataclass(slots=True)
class RequestedRuns(JobContext):
    """Does one run at a time, on the connections of the nights, until `stop` is set."""

    _task: asyncio.Task[Any] | None = field(default=None)

    @property
    def is_busy(self) -> bool:
        """Whether a run that was asked for is under way."""
        return self._task is not None and not self._task.done()

    async def start(self, work: Callable[[], Awaitable[Any]]) -> str | None:
        """Start a run and return its id; None where it ended without one, or waits for another replica.

        Raises what the work raises before its run begins, and RequestUnderWay while another run is under way.
        """
        if self.is_busy:
            raise RequestUnderWay("a run that was asked for is still under way: ask again when it has ended")
        begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._task = task = asyncio.create_task(_announce(work, begun))
        await asyncio.wait((task, begun), timeout=ANSWER_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if task.done() and not begun.done():
            await task
        else:
            task.add_done_callback(_log_failure)
        return begun.result() if begun.done() else None

    async def close(self) -> None:
        """Wait until the run under way has stopped; `stop` is set before."""
        if self._task is not None:
            await asyncio.wait((self._task,))


async def _announce(work: Callable[[], Awaitable[Any]], begun: asyncio.Future[str]) -> Any:
    """Do the work; tell the id of its first run when that begins."""

    def tell(run_id: str) -> None:
        if not begun.done():
            begun.set_result(run_id)

    ON_RUN.set(tell)  # in this task's own context
    return await work()


def _log_failure(task: asyncio.Task[Any]) -> None:
    """Log how a run ended that nobody waits for; the ledger has it, too."""
    if task.cancelled():
        return
    error = task.exception()
    if isinstance(error, Interrupted):
        log.info("a requested run was interrupted; the same request resumes it")
    elif isinstance(error, ConsolidatorError):
        log.error("a requested run failed: %s", redact(str(error)))
    elif error is not None:
        log.error("a requested run failed: %s", format_redacted_traceback(error))
