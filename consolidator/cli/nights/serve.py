"""consolidator serve: do every night by itself, drive sessions, and serve memory over HTTP."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consolidator.cli.agents.options import ToolOptions
from consolidator.cli.common import open_configured, read_settings, run_async, stop_on_signals
from consolidator.runtime.live.hub import open_hub
from consolidator.service.address import listen
from consolidator.service.clients.servers_text import INSTALL_MCP, is_mcp_installed
from consolidator.service.credentials import TOKEN_FILE
from consolidator.service.database import Database, describe_missing_fixes
from consolidator.service.nights.requested import RequestedRuns
from consolidator.service.nights.scheduler import open_driver, serve_nights
from consolidator.service.request_limits import CONNECTIONS, STATEMENT_SECONDS
from consolidator.service.tracing import export_spans
from consolidator.settings import Settings

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from consolidator.runtime.turn.harness import Harness

log = logging.getLogger("consolidator.serve")
STREAM_CONNECTIONS = 4  # for what streams read; none of requests' or nights'


def describe_service(settings: Settings) -> list[str]:
    """Return what the service will do, and where its page, its API and its token are: five lines."""
    url = f"http://{settings.http_host}:{settings.health_port}"
    jobs = {"import": settings.import_cron, "learn": settings.consolidation_cron, "prune": settings.retention_cron}
    times = ", ".join(f"{job} {_time_of(cron)}" for job, cron in jobs.items())
    engine = ", shared by DBOS" if settings.night_engine == "dbos" else ""
    return [
        f"nights  {times} ({settings.timezone}){engine}, those that were missed at once; "
        "sessions are driven all the time",
        f"page    {url}/ui, which `consolidator ui` opens; health {url}/healthz",
        f"API     {url}/v1, described at /v1/openapi.json, "
        f"{f'MCP {url}/mcp' if is_mcp_installed() else f'MCP after {INSTALL_MCP}'}",
        "tokens  `consolidator token create NAME` makes one for another program; the owner's is the file",
        f"        {settings.home / TOKEN_FILE}",
    ]


def _time_of(cron: str) -> str:
    """Return the time of day of a daily cron expression, and any other one as it is."""
    minute, hour, *rest = cron.split()
    is_daily = minute.isdigit() and hour.isdigit() and rest == ["*", "*", "*"]
    return f"{hour:0>2}:{minute:0>2}" if is_daily else f"by `{cron}`"


def serve_command(
    *,
    driver: ToolOptions,
    watch: Annotated[bool, typer.Option("--watch", help="Learn from a session within a minute of its end.")] = False,
) -> None:
    """Run as a service: import, consolidate and prune every night; GET /healthz shows its state.

    It ends with 2 where another process has its port. With nothing configured it imports the logs that agents leave on
    this machine. A missed night is caught up at start.
    Sessions with an open message, call or answer are driven as soon as that is so, with the tools given here; those
    that use others are left to other processes.
    SIGTERM or SIGINT ends it with exit code 0: the current unit and the current steps are finished or released, and
    the next start resumes.
    """
    run_async(_serve(driver, watch=watch))


async def _serve(driver: ToolOptions, *, watch: bool) -> None:
    stop = stop_on_signals()
    settings = read_settings()
    async with AsyncExitStack() as stack:
        listener = None
        if settings.health_port:  # before anything is told of it, or done
            listener = stack.enter_context(listen(settings.http_host, settings.health_port))

        stack.enter_context(export_spans())
        database, _ = await stack.enter_async_context(open_configured())
        toolbox = await stack.enter_async_context(driver.open())
        if settings.health_port:
            for line in describe_service(settings):
                log.info("%s", line)

        # The wheel's server listens to its owner alone; `db info` names the fixes it lacks.
        is_chosen = database.embedded is None or settings.postgres_bin is not None
        if is_chosen and (missing_fixes := await describe_missing_fixes(database)):
            log.warning("%s", missing_fixes)

        sessions = await stack.enter_async_context(open_driver(database, settings, toolbox))
        runs = RequestedRuns(database, settings, stop)
        routes: list[BaseRoute] = []
        lifespan = None
        if settings.health_port:
            routes, lifespan = await _mount(stack, database, settings, sessions.harness, stop, runs)

        driving = asyncio.create_task(sessions.run(stop))
        try:
            await serve_nights(
                database,
                settings,
                stop,
                listener,
                routes,
                lifespan,
                lambda: {"sessions": sessions.report()},
                watch=watch,
            )
        finally:
            stop.set()
            await asyncio.gather(driving, runs.close())


async def _mount(
    stack: AsyncExitStack,
    database: Database,
    settings: Settings,
    harness: Harness | None,
    stop: asyncio.Event,
    runs: RequestedRuns,
) -> tuple[list[BaseRoute], Any]:
    """Return the page, the API and the MCP server, on connections of their own, and what is open while they serve."""
    from consolidator.api.app import mount_api  # these are a second of loading
    from consolidator.api.metrics import count_process
    from consolidator.ui.app import mount_ui

    requests = database.reserve(CONNECTIONS, statement_seconds=STATEMENT_SECONDS)
    for_requests = await stack.enter_async_context(requests)
    streams = database.reserve(STREAM_CONNECTIONS, statement_seconds=STATEMENT_SECONDS)
    hub = await stack.enter_async_context(open_hub(await stack.enter_async_context(streams)))
    process = stack.enter_context(count_process())
    routes = [
        *mount_ui(for_requests, settings, stop, hub, runs, is_driving=True),
        *mount_api(for_requests, settings, harness, stop, hub, runs, process),
    ]
    if not is_mcp_installed():
        return routes, None
    from consolidator.mcp_server import mount_http

    mcp = mount_http(for_requests, settings)
    return [*routes, *mcp.routes], mcp.lifespan
