"""The service: checks for due jobs, a catch-up at start, and a health page.

The ledger decides which jobs are due, so a check that comes late, twice, or on several replicas does no harm.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import psycopg
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from consolidator.errors import ConsolidatorError, DatabaseUnavailable, Interrupted, as_disk_full
from consolidator.formats.base import Format
from consolidator.jobs import cron
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.jobs.nightly import JOBS, JobRunner, configured_sources, model_line
from consolidator.jobs.serving import (
    LOOPBACK,
    BoundedConfig,
    BoundedServer,
    ConnectionLimits,
    counted_repetitions,
    host_name,
)
from consolidator.llm.redaction.redact import format_redacted_traceback
from consolidator.models.audience import pluralize
from consolidator.store.sessions import sessions

log = logging.getLogger("consolidator.serve")
NOTHING_LEARNED = "NOTHING LEARNED"
BATCH_POLL_SECONDS = 300  # between polls of submitted batches
HEALTH_SECONDS = 5.0  # for the database to answer a health check
HEALTH_KEPT_SECONDS = 1.0  # an answer serves the checks that come so soon after it
CHECK_SECONDS = 30  # between checks for due jobs, also where none is due so soon: the clock may jump to one


@dataclass(slots=True)
class Service:
    """Runs due jobs and answers health checks until its runner is asked to stop."""

    runner: JobRunner
    listener: socket.socket | None = None  # of the health page and the routes; None: there are none
    routes: Sequence[BaseRoute] = ()  # served beside the health page
    lifespan: Callable[[Starlette], AbstractAsyncContextManager[Any]] | None = None
    report: Callable[[], Mapping[str, Any]] = dict  # shown on the health page, too
    limits: ConnectionLimits = field(default_factory=lambda: ConnectionLimits().within_open_files())
    started_at: float = field(default_factory=time.monotonic)
    batches_polled_at: float = 0.0  # time.monotonic()
    checking: asyncio.Lock = field(default_factory=asyncio.Lock)
    checked_at: float = -HEALTH_KEPT_SECONDS  # time.monotonic()
    database_state: str = "ok"
    last_results: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)  # by job: why its last run failed
    checked: set[str] = field(default_factory=set)  # jobs whose last run, before this start, was looked at
    errors: dict[str, str] = field(default_factory=dict)  # by job: why its last attempt raised; it is tried again

    async def serve(self) -> None:
        """Run the jobs that are due, now and whenever one falls due; return when the runner is asked to stop."""
        async with counted_repetitions():
            await self._serve()

    async def _serve(self) -> None:
        self._list_next(self.runner.database.clock.now())  # raises for a setting that is no time, before it listens
        app = Starlette(
            routes=[Route("/healthz", self._answer_check), Route("/readyz", self._answer_check), *self.routes],
            lifespan=self.lifespan,
        )
        lifespan: Literal["on", "off"] = "on" if self.lifespan else "off"
        config = BoundedConfig(app, self.limits, lifespan=lifespan, timeout_graceful_shutdown=5)
        server = BoundedServer(config) if self.listener else None

        serving = asyncio.create_task(server.serve(sockets=[self.listener])) if server and self.listener else None
        running = asyncio.create_task(self._run_loop())

        try:
            await self.runner.stop.wait()
        finally:
            log.info("stopping: the current units are finished or handed back")
            with suppress(Interrupted):
                await running
            if server and serving:
                server.should_exit = True
                await serving

    async def _run_loop(self) -> None:
        stop = self.runner.stop
        while not stop.is_set():
            following = self._list_next(self.runner.database.clock.now())  # also one that falls due meanwhile
            await self.run_due_jobs()

            now = self.runner.database.clock.now()
            waits = [(due - now).total_seconds() for due in following.values() if due is not None]
            with suppress(TimeoutError):
                async with asyncio.timeout(min([CHECK_SECONDS, *waits])):
                    await stop.wait()

    def _list_next(self, now: datetime) -> dict[str, datetime | None]:
        """Return when each job is due next."""
        zone = self.runner.settings.timezone
        return {job: cron.next_due(self.runner.cron_expression(job), zone, now) for job in JOBS}

    async def run_due_jobs(self) -> None:
        """Run the jobs that are due, in the order of a night."""
        for job in JOBS:
            if self.runner.stop.is_set():
                return
            await self._run_job(job, partial(self.runner.run_due, job))
        if self.runner.settings.batch and time.monotonic() - self.batches_polled_at >= BATCH_POLL_SECONDS:
            self.batches_polled_at = time.monotonic()
            await self._run_job("batches", self.runner.collect_batches)

    async def _run_job(self, job: str, work: Callable[[], Awaitable[dict[str, Any] | None]]) -> None:
        try:
            report = await work()
            if report is None and (job in self.failures or (job in JOBS and job not in self.checked)):
                # Another replica may have done the last run.
                run = await self.runner.find_last_ended("consolidation" if job == "batches" else job)
                if run is None or run.status == "done":
                    self.failures.pop(job, None)
                else:
                    self.failures[job] = f"{job}: {run.error or summarize({**run.report, 'job': run.job})}"
            self.checked.add(job)
        except Interrupted:
            log.info("%s interrupted; the next start resumes it", job)
        except DatabaseUnavailable as error:
            self.errors[job] = str(error)
            log.error("%s: %s; will be tried again", job, error)
        except ConsolidatorError as error:
            self.failures[job] = f"{job}: {error}"
            log.error("%s failed: %s", job, error)
        except Exception as error:  # noqa: BLE001 - the edge: a job that dies must not end the service
            if (full := as_disk_full(error)) is not None:
                self.errors[job] = str(full)
                log.error("%s: %s; will be tried again", job, full)
                return
            self.errors[job] = f"{job}: {type(error).__name__}"
            if job in JOBS:
                self.failures[job] = self.errors[job]  # also if it is not tried again
            log.error("%s failed, will be tried again: %s", job, format_redacted_traceback(error))
        else:
            self.errors.pop(job, None)
            if report is not None:
                self._record_result(job, report)

    def _record_result(self, job: str, report: dict[str, Any]) -> None:
        self.last_results[job] = report
        failed, line = report.get("status") == "failed", summarize(report)
        if failed:
            self.failures[job] = f"{job}: {report.get('error') or line}"
        else:
            self.failures.pop(job, None)
        level = logging.WARNING if failed or line.startswith(NOTHING_LEARNED) else logging.INFO
        log.log(level, "%s: %s", job, line)

    async def _check_database(self) -> str:
        """Return "ok", or why the database does not answer."""
        try:
            async with asyncio.timeout(HEALTH_SECONDS), self.runner.database.connection() as conn:
                await conn.execute("select 1")
        except TimeoutError:
            return f"no answer in {HEALTH_SECONDS:g} seconds"
        except (ConsolidatorError, psycopg.Error) as error:
            return str(error)
        return "ok"

    async def _answer_check(self, request: Request) -> JSONResponse:
        """Answer with the service's state, at /readyz with 503 if the database does not answer or something is failing.

        Who calls this service by another's name, as a page may, gets its status alone.
        """
        settings, state = self.runner.settings, await self._describe_state()
        is_refused = request.url.path == "/readyz" and state["status"] != "ok"
        ours = {*LOOPBACK, settings.http_host, *map(str.lower, settings.http_allowed_hosts)}
        if host_name(request.headers.get("host", "")) not in ours:
            state = {"status": state["status"]}
        return JSONResponse(state, status_code=503 if is_refused else 200)

    async def _describe_state(self) -> dict[str, Any]:
        """Return whether the database answers, what fails, what ran last, and what runs next."""
        now = self.runner.database.clock.now()
        async with self.checking:  # many checks at once ask the database once
            if time.monotonic() - self.checked_at >= HEALTH_KEPT_SECONDS:
                self.database_state = await self._check_database()
                self.checked_at = time.monotonic()
        database = self.database_state
        failure = next(iter([*self.errors.values(), *self.failures.values()]), None)
        return {
            "status": "ok" if database == "ok" and failure is None else "failing",
            "database": database,
            "failure": failure,
            "uptime_seconds": round(time.monotonic() - self.started_at),
            "next": {job: due and due.isoformat() for job, due in self._list_next(now).items()},
            "last": {job: summarize(report) for job, report in self.last_results.items()},
            **self.report(),
        }


def summarize(report: dict[str, Any]) -> str:
    """Return one line about what a run did."""
    if report["job"] == "import":
        return (
            f"{pluralize(report['events'], 'new event')} in {pluralize(report['sessions'], 'session')}, "
            f"{pluralize(report['problem_count'], 'line')} not understood"
        )
    if report["job"] == "retention":
        line = f"{pluralize(report['events'], 'event')} pruned in {pluralize(report['sessions'], 'session')}"
        if report.get("expired"):
            line += f", {pluralize(report['expired'], 'expired session')} ended"
        spared = ", ".join(f"{count} {reason}" for reason, count in report["spared"].items())
        return f"{line}; spared: {spared}" if spared else line
    line = (
        f"{pluralize(report['seen'], 'event')} seen = {report['learned']} learned from "
        f"+ {report['nothing']} nothing to learn + {report['deferred']} deferred + {report['dead']} dead-lettered, "
        f"in {pluralize(report['units'], 'session')}"
    )
    if report["seen"] > report["deferred"] and not report["learned"]:
        line = f"{NOTHING_LEARNED} from any event: {line}"
    changes = "; ".join(f"{agent}: {change}" for agent, change in report.get("memory", {}).items())
    model = (
        None if isinstance(report.get("model"), str) else model_line(report)
    )  # no model configured: not worth a word
    return ". ".join(part for part in (line, changes, model) if part)


LOOK_SECONDS = 5.0
STILL_SECONDS = 15  # without a change of a log or an event of a session, before it is read
_RULES_ONLY = {"model": None, "extract_model": None, "embed_model": None, "find_model": False, "batch": False}


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
        times, changed, now = self._files, [], time.time()
        for source in configured_sources(self.runner.settings):
            for path, log_format in source.files():
                with suppress(OSError):
                    changed_at = path.stat().st_mtime_ns
                    if times is None or (times.get(path) != changed_at and now - changed_at / 1e9 >= STILL_SECONDS):
                        changed.append((path, log_format, changed_at))
        if times is None:
            self._files = {path: changed_at for path, _, changed_at in changed}
            return []
        return changed
