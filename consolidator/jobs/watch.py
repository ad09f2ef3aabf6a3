"""Learns within minutes: from each session whose log stands still, by rules, in runs like the nights' own.

However a log is cut, memory is the same (I8), so a night after these runs changes nothing that needs no model; a model
reads the sessions at night. Logs that agents left before the watch began are the import's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from consolidator.errors import ConsolidatorError
from consolidator.formats.base import Format
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.jobs.nightly import JobRunner, configured_sources
from consolidator.llm.redaction.redact import format_redacted_traceback
from consolidator.store.sessions import sessions

LOOK_SECONDS = 5.0
STILL_SECONDS = 15  # without a change of a log or an event of a session, before it is read
_RULES_ONLY = {"model": None, "extract_model": None, "embed_model": None, "find_model": False, "batch": False}
log = logging.getLogger("consolidator.serve")


@dataclass(slots=True)
class Watch:
    """Looks for what is new until its runner is asked to stop."""

    runner: JobRunner
    _read: dict[str, int] = field(default_factory=dict)  # session -> its head when it was learned from
    _files: dict[Path, int] | None = None  # log -> the time of its last change that was imported

    async def run(self) -> None:
        """Look every few seconds; whatever goes wrong is tried again with the next look."""
        quiet = {"quiet_minutes": STILL_SECONDS / 60}
        settings = self.runner.settings.model_copy(update=_RULES_ONLY | quiet)
        self.runner = replace(self.runner, settings=settings, trigger="watch")
        while not self.runner.stop.is_set():
            try:
                await self.look()
            except ConsolidatorError as error:
                log.warning("watch: %s", error)
            except Exception as error:  # noqa: BLE001 - the edge: the nights go on
                log.error("watch: %s", format_redacted_traceback(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(self.runner.stop.wait(), LOOK_SECONDS)

    async def look(self) -> None:
        """Import the logs that have changed and stand still, then learn from the sessions that do."""
        database = self.runner.database
        changed = await asyncio.to_thread(self._find_changed)
        if changed:
            sources = [ImportSource(path, log_format) for path, log_format, _ in changed]
            await import_sources(database, sources, stop=self.runner.stop, lenient=True)
            self._files = (self._files or {}) | {path: changed_at for path, _, changed_at in changed}
        async with database.connection() as conn:
            due = await sessions.list_due(conn)
            rows = await sessions.get_each(conn, [row.id for row in due])
        still_since = database.clock.now() - timedelta(seconds=STILL_SECONDS)
        ended = [
            row
            for row in rows
            if self._read.get(row.id) != row.head and (row.status == "ended" or row.last_event_at <= still_since)
        ]
        if ended:
            report = await self.runner.run_now("consolidation", only=[row.id for row in ended])
            self._read |= {row.id: row.head for row in ended}
            log.info("watch: learned from %d events of %d sessions", report["learned"], len(ended))

    def _find_changed(self) -> list[tuple[Path, Format | None, int]]:
        """Return the logs that have changed since the last look and are written to no more, with the time of that."""
        known, changed, now = self._files, [], time.time()
        for source in configured_sources(self.runner.settings):
            for path, log_format in source.files():
                with suppress(OSError):
                    changed_at = path.stat().st_mtime_ns
                    if known is None or (known.get(path) != changed_at and now - changed_at / 1e9 >= STILL_SECONDS):
                        changed.append((path, log_format, changed_at))
        if known is None:
            self._files = {path: changed_at for path, _, changed_at in changed}
            return []
        return changed
