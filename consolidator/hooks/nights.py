"""Does the nights where no `serve` runs: what is due, once it is quiet; and learns before the service ends.

The ledger decides what is due and that it is done once, whoever else runs nights. No model is asked: where one is
configured, its nights are left to `serve`, which has the credentials.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any

from consolidator.errors import ConsolidatorError
from consolidator.hooks.commands import run_command
from consolidator.llm.redaction.redact import format_redacted_traceback, redact
from consolidator.service.database import Database
from consolidator.service.nights.runs import list_due_jobs
from consolidator.settings import Settings

QUIET_SECONDS = 30.0  # without a hook, before anything is done
CHECK_SECONDS = 60.0  # between looks at what is due
RETRY_SECONDS = 1800.0  # after a job that failed
JOB_SECONDS = 4 * 3600
log = logging.getLogger("consolidator.hooks")


class IdleNights:
    """Runs the jobs that are due in processes of their own, one after the other."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._task: asyncio.Task[None] | None = None
        self._next_check = 0.0
        self._has_new_sessions = False

    @property
    def is_busy(self) -> bool:
        """Whether a job is being run."""
        return self._task is not None and not self._task.done()

    @property
    def wants_to_learn(self) -> bool:
        """Whether sessions were imported that nothing was learned from yet."""
        return self._has_new_sessions and self._settings.model is None

    def note_session(self) -> None:
        """Remember that a session was imported."""
        self._has_new_sessions = True

    def start_due(self) -> None:
        """Look in the background for what is due and do it, unless that was looked for a moment ago."""
        if self._settings.model is None and not self.is_busy and time.monotonic() >= self._next_check:
            self._next_check = time.monotonic() + CHECK_SECONDS
            self._task = asyncio.create_task(self._guard(self._run_due()))

    def start_learning(self) -> None:
        """Learn in the background from the sessions that were imported, so that the next one begins with it."""
        if self.wants_to_learn and not self.is_busy:
            self._has_new_sessions = False
            self._task = asyncio.create_task(self._guard(self._run("consolidation")))

    async def close(self) -> None:
        """End what is being done; it is handed back, and done by whoever comes next."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run_due(self) -> None:
        for job in await list_due_jobs(self._database, self._settings):
            await self._run(job)

    async def _run(self, job: str) -> None:
        if await run_command("run", job, seconds=JOB_SECONDS):
            log.info("%s done", job)
        else:
            self._next_check = time.monotonic() + RETRY_SECONDS

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ConsolidatorError as error:
            log.warning("a night could not be run: %s", redact(str(error)))
        except Exception as error:  # noqa: BLE001 - the edge: hooks are answered all the same
            log.error("a night could not be run: %s", format_redacted_traceback(error))
