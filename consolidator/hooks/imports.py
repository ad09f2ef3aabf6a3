"""Imports sessions as they end, one by one, in a process of its own: parsing a log must not delay an answer."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

from consolidator.hooks.commands import run_command
from consolidator.llm.redaction.redact import format_redacted_traceback
from consolidator.service.database import Database
from consolidator.service.hooks.payload import HookCall, parse_hook
from consolidator.service.hooks.usage import judge_fixes

MAX_WAITING = 64  # sessions; the nights import what comes on top
IMPORT_SECONDS = 600
MAX_OBJECT = 16 * 1024 * 1024  # bytes of a log that is one JSON object, and is read whole each time
log = logging.getLogger("consolidator.hooks")


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
        if is_log and path.is_absolute() and path.is_file() and status.st_uid == os.geteuid():
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
