"""PostgreSQL's notifications, heard on one connection of the process: it is opened again when it is lost.

A notification may be lost with the connection, so handlers are called after every connecting, and look for themselves.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psycopg
from psycopg import sql

from consolidator.database.connections import Database
from consolidator.database.partitions import Connection
from consolidator.errors import ConsolidatorError

log = logging.getLogger("consolidator.database")
CHECK_SECONDS = 30.0  # without a notification, until the connection is asked whether it is alive
ANSWER_SECONDS = 10.0  # for its answer
MAX_RETRY_SECONDS = 5.0  # between two attempts to connect


@dataclass(frozen=True, slots=True)
class Subscription:
    """Who hears of a channel: `on_payload` of each notification, `on_connected` after each connecting."""

    channel: str
    on_payload: Callable[[str], None]
    on_connected: Callable[[], None]


class NotificationListener:
    """Hears the channels of its subscriptions while it is open: `async with NotificationListener(database, [...])`.

    Handlers are called in the event loop; they only note what to look at.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._subscriptions: list[Subscription] = []
        self._task: asyncio.Task[None] | None = None
        self.connected = asyncio.Event()

    def subscribe(
        self, channel: str, on_payload: Callable[[str], None], on_connected: Callable[[], None] = lambda: None
    ) -> None:
        """Hear of a channel; call it before the listener is opened."""
        self._subscriptions.append(Subscription(channel, on_payload, on_connected))

    async def __aenter__(self) -> NotificationListener:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                connection = await self._database.open_dedicated()
                try:
                    for channel in dict.fromkeys(each.channel for each in self._subscriptions):
                        await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
                    self.connected.set()
                    failures = 0
                    for subscription in self._subscriptions:
                        subscription.on_connected()
                    await self._hear(connection)
                finally:
                    self.connected.clear()
                    with suppress(psycopg.Error, OSError):
                        await connection.close()
            except (ConsolidatorError, psycopg.Error, OSError, TimeoutError) as error:
                log.log(
                    logging.INFO if failures else logging.WARNING,
                    "notifications are not heard, sessions are polled meanwhile: %s",
                    type(error).__name__,
                )
            failures += 1
            await asyncio.sleep(min(0.05 * 2**failures, MAX_RETRY_SECONDS) * random.uniform(0.5, 1))

    async def _hear(self, connection: Connection) -> None:
        """Call handlers until the connection is lost."""
        while True:
            async for notification in connection.notifies(timeout=CHECK_SECONDS):
                for subscription in self._subscriptions:
                    if subscription.channel == notification.channel:
                        subscription.on_payload(notification.payload)
            async with asyncio.timeout(ANSWER_SECONDS):
                await connection.execute("select 1")
