"""The service that does every night by itself."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from consolidator.database import Database
from consolidator.jobs.nightly import JobRunner
from consolidator.jobs.scheduler import Service
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
) -> None:
    """Run every job when it is due, and serve a health page and `routes` on a listening socket, until `stop` is set.

    The health page also shows what `report` returns.
    """
    runner = JobRunner(database, settings, stop, after_night=partial(send_night_digest, database, settings))
    await Service(runner, listener, routes, lifespan, report).serve()
