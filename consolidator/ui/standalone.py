"""Serves the page alone, where no `consolidator serve` runs: until a person stops it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

from consolidator.runtime.live.hub import FollowHub, open_hub
from consolidator.service.database import Database
from consolidator.service.nights.requested import RequestedRuns
from consolidator.settings import Settings
from consolidator.ui.app import mount_ui

MAX_CONNECTIONS = 64


class _Server(uvicorn.Server):
    """A server that leaves signal handling to the command, and tells when it answers."""

    def __init__(self, config: uvicorn.Config, opened: Callable[[], None]) -> None:
        super().__init__(config)
        self.opened = opened

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and tell so."""
        await super().startup(sockets)
        if self.started:
            self.opened()


async def serve_page(
    database: Database, settings: Settings, listener: socket.socket, stop: asyncio.Event, opened: Callable[[], None]
) -> None:
    """Serve the page on a listening socket until `stop` is set; call `opened` as soon as it answers."""
    runs = RequestedRuns(database, settings, stop)
    async with open_hub(database) as hub:
        await _serve(database, settings, listener, stop, opened, hub, runs)
    await runs.close()


async def _serve(
    database: Database,
    settings: Settings,
    listener: socket.socket,
    stop: asyncio.Event,
    opened: Callable[[], None],
    hub: FollowHub,
    runs: RequestedRuns,
) -> None:
    server = _Server(
        uvicorn.Config(
            Starlette(routes=mount_ui(database, settings, stopping=stop, hub=hub, runs=runs)),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=2,
        ),
        opened,
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    server.should_exit = True
    await serving
