"""Bounds on what requests may cost: few are worked on at once, few wait, and none waits for long.

The nights use other connections of the database, and a few threads: a flood of slow questions fails no night.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from consolidator.jobs.serving import LOOPBACK, host_name
from consolidator.jobs.serving import BoundedServer as BoundedServer
from consolidator.settings import Settings

WORKED_ON = 4  # requests at once
CONNECTIONS = 4 * WORKED_ON  # to the database, for requests alone
STATEMENT_SECONDS = 30  # a statement of a request may take
RETRY_AFTER_SECONDS = 5


class Refused(Exception):
    """A request that is not worked on: a status, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = {"connection": "close"} if status == 413 else {}


@dataclass(slots=True)
class WorkPlaces:
    """The few places in which requests are worked on, and the short line of those that wait for one."""

    worked_on: int = WORKED_ON
    waiting: int = 16
    wait_seconds: float = 5
    request_seconds: float = 60
    _entered: int = 0
    _places: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.worked_on)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Hold a place. Raises Refused where too many wait, one waits too long, or the work takes too long."""
        if self._entered >= self.worked_on + self.waiting:
            raise Refused(503, "too many requests wait")
        self._entered += 1
        try:
            try:
                async with asyncio.timeout(self.wait_seconds):
                    await self._places.acquire()
            except TimeoutError:
                raise Refused(503, "too many requests are worked on") from None
            try:
                async with asyncio.timeout(self.request_seconds):
                    yield
            except TimeoutError:
                raise Refused(503, f"this took more than {self.request_seconds:g} seconds") from None
            finally:
                self._places.release()
        finally:
            self._entered -= 1


async def read_pieces(headers: Headers, receive: Receive, most: int, what: str = "a request") -> AsyncIterator[bytes]:
    """Yield the body of a request as it comes; the connection bounds how long it may take.

    Raises Refused for one that is cut off, or larger than `most` bytes: where it says so, before any of it is read.
    """
    too_large = Refused(413, f"{what} has at most {most} bytes")
    length, size, is_whole = headers.get("content-length", "0"), 0, False
    if not (length.isascii() and length.isdigit()):
        raise Refused(400, "Content-Length is no number")
    if len(length) > 12 or int(length) > most:
        raise too_large
    while not is_whole:
        message = await receive()
        if message["type"] != "http.request":
            raise Refused(400, "the body is cut off: nothing was written")
        piece = message.get("body", b"")
        size, is_whole = size + len(piece), not message.get("more_body", False)
        if size > most:
            raise too_large
        yield piece


@dataclass(slots=True)
class RequestLimits:
    """An ASGI application that passes on few requests at once, each with its whole body; answers 503 or 413 to others.

    It belongs behind whatever checks who asks, so that strangers take no place.
    """

    app: ASGIApp
    places: WorkPlaces = field(default_factory=WorkPlaces)
    body_bytes: int = 4 * 1024 * 1024

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def note_start(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            async with self.places.taken():
                pieces = read_pieces(Headers(scope=scope), receive, self.body_bytes)
                body = b"".join([piece async for piece in pieces])
                await self.app(scope, receive_again(body, receive), note_start)
        except Refused as refused:
            if started:
                raise
            headers = {"connection": "close"} | (
                {"retry-after": str(RETRY_AFTER_SECONDS)} if refused.status == 503 else {}
            )
            await JSONResponse({"error": str(refused)}, refused.status, headers)(scope, receive, send)


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
