"""The driver of the service: sessions with something open are driven all the time, on connections of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from consolidator.database import Database
from consolidator.database.notifications import NotificationListener
from consolidator.llm.client import create_client
from consolidator.runtime.live.driver import SessionDriver
from consolidator.runtime.tools.tool import Tool, Toolbox
from consolidator.runtime.turn.harness import Harness
from consolidator.service.memory.recall import recall_for_message
from consolidator.settings import Settings

_CONNECTIONS_PER_SESSION = 2  # one for its work, one for its heartbeat
_STATEMENT_SECONDS = 60


@asynccontextmanager
async def open_driver(
    database: Database, settings: Settings, tools: Sequence[Tool] = ()
) -> AsyncIterator[SessionDriver]:
    """Yield a driver with these tools and the configured model; `run` drives until its event is set.

    Its sessions' connections are its own: it takes none of the nights'. With `drive_concurrency` 0 it drives nothing.
    """
    async with AsyncExitStack() as stack:
        client = create_client(settings)
        stack.push_async_callback(client.close)
        concurrency = settings.drive_concurrency
        own = database.reserve(1 + _CONNECTIONS_PER_SESSION * concurrency, statement_seconds=_STATEMENT_SECONDS)
        recall = partial(recall_for_message, database, settings)
        harness = Harness(await stack.enter_async_context(own), settings, client, Toolbox(tools), recall=recall)
        listener = NotificationListener(database)
        driver = SessionDriver(harness, listener, concurrency=concurrency)
        if concurrency:
            await stack.enter_async_context(listener)
        yield driver
