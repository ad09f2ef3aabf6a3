"""consolidator serve: do every night by itself, and serve memory over HTTP."""

from __future__ import annotations

import asyncio
import logging

import typer

from consolidator.cli.agents.wake import wake_at_start
from consolidator.cli.common import open_configured, run_async, stop_on_signals
from consolidator.service.database import describe_missing_fixes
from consolidator.service.nights.scheduler import serve_nights
from consolidator.service.request_limits import CONNECTIONS, STATEMENT_SECONDS

log = logging.getLogger("consolidator.serve")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve_command)


def serve_command() -> None:
    """Run as a service: import, consolidate and prune every night; GET /healthz shows its state.

    With nothing configured it imports the logs that agents leave on this machine. A missed night is caught up at start,
    and sessions that a crash interrupted go on.
    SIGTERM or SIGINT ends it with exit code 0: the current unit is finished or released, and the next start resumes.
    """

    from consolidator.mcp_server import HttpMount, mount_http  # a second of loading

    async def work() -> None:
        stop = stop_on_signals()
        async with open_configured() as (database, settings):
            if settings.health_port:
                url = f"http://127.0.0.1:{settings.health_port}"
                log.info("serving; health at %s/healthz, MCP at %s/mcp with the token of %s", url, url, settings.home)
            if missing_fixes := await describe_missing_fixes(database):
                log.warning("%s", missing_fixes)
            waking = asyncio.create_task(wake_at_start(database, settings))
            async with database.reserve(CONNECTIONS, statement_seconds=STATEMENT_SECONDS) as for_requests:
                mount = mount_http(for_requests, settings) if settings.health_port else HttpMount((), None)
                await serve_nights(database, settings, stop, mount.routes, mount.lifespan)
            waking.cancel()
            await asyncio.gather(waking, return_exceptions=True)

    run_async(work())
