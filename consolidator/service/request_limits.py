"""Bounds on what requests may cost: few are worked on at once, few wait, and none waits for long.

The nights use other connections of the database, and a few threads: a flood of slow questions fails no night.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from consolidator.jobs.serving.connections import LOOPBACK as LOOPBACK
from consolidator.jobs.serving.connections import BoundedServer as BoundedServer
from consolidator.jobs.serving.connections import host_name as host_name
from consolidator.settings import Settings

WORKED_ON = 4  # requests at once
CONNECTIONS = 4 * WORKED_ON  # to the database, for requests alone
STATEMENT_SECONDS = 30  # a statement of a request may take
RETRY_AFTER_SECONDS = 5


@dataclass(slots=True)
class RequestLimits:
    """An ASGI application that passes on few requests at once, each with its whole body; answers 503 or 413 to others.

    It belongs behind whatever checks who asks, so that strangers take no place.
    """

    app: ASGIApp
    worked_on: int = WORKED_ON
    waiting: int = 16
    wait_seconds: float = 5
    request_seconds: float = 60
    body_bytes: int = 4 * 1024 * 1024
    _entered: int = 0
    _places: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.worked_on)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if self._entered >= self.worked_on + self.waiting:
            await self._refuse(503, "too many requests wait", scope, receive, send)
            return
        self._entered += 1
        try:
            await self._read_and_answer(scope, receive, send)
        finally:
            self._entered -= 1

    async def _read_and_answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._read_body(scope, receive)
        if body is None:
            await self._refuse(413, f"a request has at most {self.body_bytes} bytes", scope, receive, send)
            return
        try:
            async with asyncio.timeout(self.wait_seconds):
                await self._places.acquire()
        except TimeoutError:
            await self._refuse(503, "too many requests are worked on", scope, receive, send)
            return
        started = False

        async def note_start(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            async with asyncio.timeout(self.request_seconds):
                await self.app(scope, receive_again(body, receive), note_start)
        except TimeoutError:
            if started:
                raise
            await self._refuse(503, f"this took more than {self.request_seconds:g} seconds", scope, receive, send)
        finally:
            self._places.release()

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the body of a request; None if it is too long. The connection bounds how long it may take."""
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > self.body_bytes:
            return None
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return bytes(body)  # the client is gone: the application is told so when it asks
            body += message.get("body", b"")
            if len(body) > self.body_bytes:
                return None
            if not message.get("more_body", False):
                return bytes(body)

    async def _refuse(self, status: int, reason: str, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {"connection": "close"}
        if status == 503:
            headers["retry-after"] = str(RETRY_AFTER_SECONDS)
        await JSONResponse({"error": reason}, status_code=status, headers=headers)(scope, receive, send)


def receive_again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that has a body that was read, then what the client does next."""
    was_read = False

    async def receive_next() -> Message:
        nonlocal was_read
        if was_read:
            return await receive()
        was_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_next


def allowed_hosts(settings: Settings) -> Collection[str] | None:
    """Return the hosts by which a service may be called besides loopback's; None: any."""
    is_checked = ip_address(settings.http_host).is_loopback or settings.http_allowed_hosts
    return [name.lower() for name in (*settings.http_allowed_hosts, settings.http_host)] if is_checked else None


def is_called_rightly(headers: Headers, hosts: Collection[str] | None) -> bool:
    """Tell whether a request names one of these hosts, and none that another site was given (DNS rebinding)."""
    named = headers.getlist("host")
    name = host_name(named[0]) if len(named) == 1 else None
    return hosts is None or name in LOOPBACK or name in hosts


class PrefixRoute(BaseRoute):
    """Every path under a prefix, whatever characters it has; the path is left as it is."""

    def __init__(self, prefix: str, app: ASGIApp) -> None:
        self.prefix = prefix
        self.app = app

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Tell whether a path is under the prefix."""
        is_ours = scope["type"] == "http" and (scope["path"] + "/").startswith(self.prefix + "/")
        return (Match.FULL if is_ours else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        await self.app(scope, receive, send)
