"""What the hook service does beside its answers, in processes of their own: imports sessions as they end, and nights.

A session is imported when its end is told, each once, the first one first. Nights are done where no `serve` runs, once
it is quiet, and before the service ends; the ledger decides what is due and that it is done once, whoever else runs
nights. No model is asked: where one is configured, its nights are left to `serve`, which has the credentials.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from consolidator.errors import ConsolidatorError
from consolidator.llm.redaction.redact import format_redacted_traceback, redact
from consolidator.service.clients.registry import CLIENTS
from consolidator.service.database import Database
from consolidator.service.hooks.payload import HookCall, parse_hook
from consolidator.service.hooks.usage import judge_fixes
from consolidator.service.nights.runs import list_due_jobs
from consolidator.settings import Settings

NICE = 10
MAX_ERROR = 500  # characters
MAX_WAITING = 64  # sessions; the nights import what comes on top
IMPORT_SECONDS = 600
MAX_OBJECT = 16 * 1024 * 1024  # bytes of a log that is one JSON object, and is read whole each time
QUIET_SECONDS = 30.0  # without a hook, before a night is done
CHECK_SECONDS = 60.0  # between looks at what is due
RETRY_SECONDS = 1800.0  # after a job that failed
JOB_SECONDS = 4 * 3600
log = logging.getLogger("consolidator.hooks")


async def run_command(*arguments: str, seconds: float) -> bool:
    """Run `consolidator ARGUMENTS` at low priority; tell whether it ended well, within `seconds`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-m", "consolidator", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=lambda: os.nice(NICE),
    )
    try:
        async with asyncio.timeout(seconds):
            _, errors = await process.communicate()
    except TimeoutError:
        log.warning("`consolidator %s` took more than %s seconds", " ".join(arguments), seconds)
        return False
    finally:
        if process.returncode is None:
            process.terminate()  # it hands its work back
            await process.wait()
    if process.returncode:
        message = redact(errors.decode("utf-8", "replace").strip())[-MAX_ERROR:]
        log.warning("`consolidator %s` failed: %s", " ".join(arguments), message)
    return not process.returncode


class TranscriptImports:
    """The sessions that wait for being imported: each once, the first one first."""

    def __init__(self, database: Database, imported: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._imported = imported  # called after each session
        self._waiting: dict[str, tuple[str, Path]] = {}  # session -> the format and the file of its log
        self._changed = asyncio.Event()
        self._is_importing = False
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether a session waits or is being imported."""
        return self._is_importing or bool(self._waiting)

    def add(self, call: HookCall) -> None:
        """Have a session imported, if its log is a file of ours."""
        if call.transcript is None or len(self._waiting) >= MAX_WAITING:
            return
        path = Path(call.transcript)
        try:
            status = path.stat()
        except OSError:
            return
        is_log = path.suffix == ".jsonl" or (path.suffix == ".json" and status.st_size <= MAX_OBJECT)
        is_log = is_log and path.is_absolute() and path.is_file()
        is_ours = CLIENTS[call.agent].log is not None  # found where the client keeps it, not named by a payload
        if (is_log or is_ours) and status.st_uid == os.geteuid():
            self._waiting[call.session_id] = (call.agent, path)
            self._changed.set()

    def add_order(self, order: bytes) -> None:
        """Have the session of a hook imported: a line with its client and event, then its payload."""
        head, _, payload = order.partition(b"\n")
        client, _, event = head.decode("utf-8", "replace").partition(" ")
        call = parse_hook(client, event, payload, "")
        if call is not None and call.moment == "import":
            self.add(call)

    async def run(self) -> None:
        """Import sessions until closed; what waits then is still imported."""
        while self._waiting or not self._is_closed:
            if not self._waiting:
                self._changed.clear()
                await self._changed.wait()
                continue
            session_id = next(iter(self._waiting))
            log_format, path = self._waiting.pop(session_id)
            self._is_importing = True
            try:
                await self._import(session_id, log_format, path)
            except Exception as error:  # noqa: BLE001 - the next session is imported all the same
                log.error("cannot import %s: %s", path, format_redacted_traceback(error))
            finally:
                self._is_importing = False

    async def close(self) -> None:
        """Let `run` end when nothing waits any more."""
        self._is_closed = True
        self._changed.set()

    async def _import(self, session_id: str, log_format: str, path: Path) -> None:
        """Import a session's log and those of its sub-agents, then judge the fixes that it was shown."""
        sub_agents = path.with_suffix("")
        paths = [str(path), *([str(sub_agents)] if sub_agents.is_dir() else [])]
        if not await run_command("import", log_format, *paths, seconds=IMPORT_SECONDS):
            return
        self._imported()
        judged = await judge_fixes(self._database, session_id)
        log.info("imported %s%s", path, f", {judged} fixes judged" if judged else "")


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
