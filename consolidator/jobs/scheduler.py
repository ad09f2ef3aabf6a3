"""The service: a scheduler that only ticks, a catch-up at start, and a health port on loopback.

What is owed is decided from the ledger, so a tick that comes late, twice, or on several replicas does no harm.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

import uvicorn
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from consolidator.errors import ConsolidatorError, DatabaseUnavailable, Interrupted
from consolidator.jobs import cron
from consolidator.jobs.model.model_report import model_line
from consolidator.jobs.nightly import JOBS, Nights
from consolidator.llm.redaction.redact import traced

log = logging.getLogger("consolidator.serve")
NOTHING = "NOTHING LEARNED"
POLL = 300  # seconds between looks at the batches that are out
LOOK = 30  # seconds between looks at what is owed, beside the ticks: a clock that jumps misses none


class _HealthServer(uvicorn.Server):
    """A server that leaves the process's signals to the service."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


@dataclass(slots=True)
class Service:
    """Serves until it is told to stop."""

    nights: Nights
    routes: Sequence[BaseRoute] = ()  # served beside the health page
    lifespan: Callable[[Starlette], AbstractAsyncContextManager[Any]] | None = None
    began: float = field(default_factory=time.monotonic)
    polled: float = 0.0  # when batches were looked at
    ticked: asyncio.Event = field(default_factory=asyncio.Event)
    last: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)  # of each job's last run that ended
    trouble: dict[str, str] = field(default_factory=dict)  # what kept a job from running; it is looked at again

    async def serve(self) -> None:
        """Catch up, then tick; return when the nights are told to stop."""
        settings = self.nights.settings
        scheduler = AsyncIOScheduler(timezone=UTC)
        for job in JOBS:
            trigger = cron.WallClock(self.nights.cron(job), settings.timezone)
            scheduler.add_job(self._tick, trigger, coalesce=True, misfire_grace_time=None, id=job)
        scheduler.start()
        port = self._port()
        server = self._health() if port else None
        answering = asyncio.create_task(server.serve(sockets=[port])) if server and port else None
        looking = asyncio.create_task(self._keep_looking())
        try:
            await self.nights.stop.wait()
        finally:
            log.info("stopping: the unit in hand is finished or handed back")
            scheduler.shutdown(wait=False)
            with suppress(Interrupted):
                await looking
            if server and answering:
                server.should_exit = True
                await answering

    async def _tick(self) -> None:
        """Wake the one who looks: work done in the scheduler's own task would be cut off when it shuts down."""
        self.ticked.set()

    async def _keep_looking(self) -> None:
        stopping = asyncio.create_task(self.nights.stop.wait())
        while not self.nights.stop.is_set():
            self.ticked.clear()
            await self.look()
            ticking = asyncio.create_task(self.ticked.wait())
            await asyncio.wait((stopping, ticking), timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
            ticking.cancel()

    async def look(self) -> None:
        """Do whatever is owed, in the order of a night."""
        for job in JOBS:
            if self.nights.stop.is_set():
                return
            await self._do(job, partial(self.nights.run_owed, job))
        if self.nights.settings.batch and time.monotonic() - self.polled >= POLL:
            self.polled = time.monotonic()
            await self._do("batches", self.nights.collect)

    async def _do(self, job: str, work: Callable[[], Awaitable[dict[str, Any] | None]]) -> None:
        try:
            done = await work()
            if done is None and job in self.failures:
                await self._ask_others(job)
        except Interrupted:
            log.info("%s interrupted; it goes on with the next start", job)
        except DatabaseUnavailable as error:
            self.trouble[job] = str(error)
            log.error("%s: %s; will look again", job, error)
        except ConsolidatorError as error:
            self.failures[job] = f"{job}: {error}"
            log.error("%s failed: %s", job, error)
        except Exception as error:  # noqa: BLE001 - the edge: a night that dies must not end all nights to come
            self.trouble[job] = f"{job}: {type(error).__name__}"
            if job in JOBS:
                self.failures[job] = self.trouble[job]  # also when its slot is tried no more
            log.error("%s failed, will look again: %s", job, traced(error))
        else:
            self.trouble.pop(job, None)
            if done is not None:
                self.last[job] = done
                told = summary(done)
                loud = done.get("status") == "failed" or told.startswith(NOTHING)
                self.failures.pop(job, None)
                if done.get("status") == "failed":
                    self.failures[job] = f"{job}: {told}"
                log.log(logging.WARNING if loud else logging.INFO, "%s: %s", job, told)

    async def _ask_others(self, job: str) -> None:
        """See what came of a job's last run, which may have been another replica's."""
        run = await self.nights.last_ended("consolidation" if job == "batches" else job)
        if run is None or run["status"] == "done":
            self.failures.pop(job, None)
        else:
            self.failures[job] = f"{job}: {run['error'] or summary({**run['report'], 'job': run['job']})}"

    def _port(self) -> socket.socket | None:
        """Return the health port, bound on loopback; None where it is turned off or somebody else has it."""
        number = self.nights.settings.health_port
        if not number:
            return None
        port = socket.socket()
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            port.bind(("127.0.0.1", number))
        except OSError as error:
            port.close()
            told = "serving without a health port: 127.0.0.1:%d: %s; CONSOLIDATOR_HEALTH_PORT chooses another"
            log.warning(told, number, error.strerror)
            return None
        return port

    def _health(self) -> uvicorn.Server:
        app = Starlette(routes=[Route("/healthz", self._healthz), *self.routes], lifespan=self.lifespan)
        lifespan: Literal["on", "off"] = "on" if self.lifespan else "off"
        return _HealthServer(uvicorn.Config(app, log_level="warning", lifespan=lifespan, timeout_graceful_shutdown=5))

    async def _healthz(self, _request: Request) -> JSONResponse:
        """Tell whether the database answers, what was done last, and what comes next."""
        now = self.nights.database.clock.now()
        try:
            async with self.nights.database.connection() as conn:
                await conn.execute("select 1")
            database = "ok"
        except ConsolidatorError as error:
            database = str(error)
        failure = next(iter([*self.trouble.values(), *self.failures.values()]), None)
        body = {
            "status": "ok" if database == "ok" and failure is None else "failing",
            "database": database,
            "failure": failure,
            "uptime_seconds": round(time.monotonic() - self.began),
            "next": {
                job: _iso(cron.upcoming(self.nights.cron(job), self.nights.settings.timezone, now)) for job in JOBS
            },
            "last": {job: summary(done) for job, done in self.last.items()},
        }
        return JSONResponse(body, status_code=200 if body["status"] == "ok" else 503)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def summary(done: dict[str, Any]) -> str:
    """Say in one line what a run did."""
    if done["job"] == "import":
        return (
            f"{done['events']} new events in {done['sessions']} sessions, {done['problem_count']} lines not understood"
        )
    if done["job"] == "retention":
        spared = ", ".join(f"{count} {why}" for why, count in done["spared"].items())
        return f"{done['events']} events pruned in {done['sessions']} sessions" + (
            f"; spared: {spared}" if spared else ""
        )
    told = (
        f"{done['seen']} events seen = {done['learned']} learned from + {done['nothing']} nothing to learn "
        f"+ {done['deferred']} deferred + {done['dead']} dead-lettered, in {done['units']} sessions"
    )
    changes = "; ".join(f"{agent}: {line}" for agent, line in done.get("memory", {}).items())
    if done["seen"] > done["deferred"] and not done["learned"]:
        told = f"{NOTHING} from any event: {told}"
    asked = None if isinstance(done.get("model"), str) else model_line(done)  # that there is no model is no news
    return ". ".join(part for part in (told, changes, asked) if part)
