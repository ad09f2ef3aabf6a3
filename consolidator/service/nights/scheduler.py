"""What `serve` runs: the nights' scheduler, and the driver of sessions with something open."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from consolidator.database import Database
from consolidator.database.notifications import NotificationListener
from consolidator.jobs.nightly import JobRunner
from consolidator.jobs.scheduler import Service, Watch
from consolidator.llm.client import create_client
from consolidator.runtime.live.driver import SessionDriver
from consolidator.runtime.tools.procedure_tool import load_procedures
from consolidator.runtime.tools.tool import Tool, Toolbox
from consolidator.runtime.turn.harness import Harness
from consolidator.service.memory.recall import recall_for_message
from consolidator.service.memory.telling.guarding import guard_call
from consolidator.service.nights.night_digest import send_night_digest
from consolidator.settings import Settings


async def serve_nights(
    database: Database,
    settings: Settings,
    stop: asyncio.Event,
    listener: socket.socket | None = None,
    routes: Sequence[BaseRoute] = (),
    lifespan: Callable[[Starlette], AbstractAsyncContextManager[Any]] | None = None,
    report: Callable[[], Mapping[str, Any]] = dict,
    *,
    watch: bool = False,
) -> None:
    """Run every job when it is due, and serve a health page and `routes` on a listening socket, until `stop` is set.

    The health page also shows what `report` returns. With `watch` learn from sessions as they end, too.
    """
    runner = JobRunner(database, settings, stop, after_night=partial(send_night_digest, database, settings))
    watching = asyncio.create_task(Watch(runner).run()) if watch else None
    try:
        await Service(runner, listener, routes, lifespan, report).serve()
    finally:
        if watching is not None:
            stop.set()
            await watching


_DRIVEN_AT_ONCE = 4  # sessions
_CONNECTIONS_PER_SESSION = 2  # one for its work, one for its heartbeat
_STATEMENT_SECONDS = 60


@asynccontextmanager
async def open_driver(
    database: Database, settings: Settings, tools: Sequence[Tool] = ()
) -> AsyncIterator[SessionDriver]:
    """Yield a driver with these tools and the configured model; `run` drives until its event is set.

    Its sessions' connections are its own: it takes none of the nights'.
    """
    async with AsyncExitStack() as stack:
        client = create_client(settings)
        stack.push_async_callback(client.close)
        own = database.reserve(1 + _CONNECTIONS_PER_SESSION * _DRIVEN_AT_ONCE, statement_seconds=_STATEMENT_SECONDS)
        recall = partial(recall_for_message, database, settings)
        procedures = await load_procedures(database)
        own_database = await stack.enter_async_context(own)
        guard = partial(guard_call, database)
        harness = Harness(own_database, settings, client, Toolbox(tools), procedures, recall=recall, guard=guard)
        listener = NotificationListener(database)
        driver = SessionDriver(harness, listener, concurrency=_DRIVEN_AT_ONCE)
        await stack.enter_async_context(listener)
        yield driver
