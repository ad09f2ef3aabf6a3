"""The door of the page: host, login, form tokens and bounds before anything else, and headers on each answer."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from consolidator.errors import ConsolidatorError, Forbidden, NotFound, UsageError
from consolidator.llm.redaction.redact import format_redacted_traceback, redact
from consolidator.service.request_limits import Refused, WorkPlaces, is_called_rightly, read_pieces
from consolidator.ui.logins import Logins

log = logging.getLogger("consolidator.ui")
PREFIX = "/ui"
MAX_FORM_BYTES = 64 * 1024
MAX_FORM_FIELDS = 32
WORKED_ON, WAITING = 4, 64  # requests
REQUEST_SECONDS = 30.0
STREAMS = 16  # open at once; they have no end of their own
STREAM_END = "/live"  # of a path that is answered by a stream
_FORM = "application/x-www-form-urlencoded"
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
OPEN_PATHS = (f"{PREFIX}/login", f"{PREFIX}/service")  # which need no login
STATIC = f"{PREFIX}/static/"


class PageProblem(Exception):
    """What is wrong with a request: shown as a page with its status."""

    def __init__(self, status: int, title: str, advice: str) -> None:
        super().__init__(title)
        self.status, self.title, self.advice = status, title, advice


def cookie_name(headers: Headers) -> str:
    """Return the name of the login's cookie: browsers keep cookies by host, and each port is another server's."""
    port = urlsplit(f"//{headers.get('host', '')}").port
    return f"consolidator_ui_{port or 80}"


@dataclass(slots=True)
class PageGuard:
    """An ASGI application that lets requests through that a logged-in person made from the page itself.

    `state` of what it lets through has `login`, and `form`: the fields of a form that was sent.
    """

    app: ASGIApp
    logins: Logins
    show_problem: Any  # (request, PageProblem) -> Response
    hosts: Collection[str] | None  # by which it may be called besides loopback's; None: any
    _streams: int = 0
    _places: WorkPlaces = field(
        default_factory=lambda: WorkPlaces(WORKED_ON, WAITING, REQUEST_SECONDS, REQUEST_SECONDS)
    )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Nothing that goes wrong leaves this function."""
        if scope["type"] != "http":
            return
        started = False
        is_static = str(scope["path"]).startswith(STATIC)

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers["cache-control"] = "private, max-age=3600" if is_static else "no-store"
            await send(message)

        scope.setdefault("state", {}).update(login=None, form={})
        request = Request(scope, receive)
        try:
            await self._answer(scope, request, send_guarded)
        except Exception as error:  # noqa: BLE001 - the edge: a request that fails must not end the service
            problem = to_problem(request, error)
            if started:
                log.warning("%s %s ended in mid-answer: %s", request.method, scope["path"][:200], redact(str(error)))
            else:
                response: Response = self.show_problem(request, problem)
                await response(scope, receive, send_guarded)

    async def _answer(self, scope: Scope, request: Request, send: Send) -> None:
        if not is_called_rightly(request.headers, self.hosts):
            advice = "Open it at 127.0.0.1, or name this host in CONSOLIDATOR_HTTP_ALLOWED_HOSTS."
            raise PageProblem(421, "This service is not called by that name", advice)
        path = scope["path"]
        if path.startswith(STATIC):
            await self.app(scope, request.receive, send)
            return
        if path.endswith(STREAM_END):
            await self._stream(scope, request, send)
            return
        async with self._places.taken():
            await self._log_in_and_answer(scope, request, send)

    async def _stream(self, scope: Scope, request: Request, send: Send) -> None:
        if self._streams >= STREAMS:
            raise PageProblem(503, "Too many sessions are watched", "Close another page of a session, then reload.")
        self._streams += 1
        try:
            await self._log_in_and_answer(scope, request, send)
        finally:
            self._streams -= 1

    async def _log_in_and_answer(self, scope: Scope, request: Request, send: Send) -> None:
        if scope["path"] not in OPEN_PATHS:
            login = self.logins.find(request.cookies.get(cookie_name(request.headers), ""))
            if login is None:
                advice = "Type `consolidator ui` in a terminal: it prints a link that works once."
                raise PageProblem(401, "You are not logged in here", advice)
            request.state.login = login
            if request.method not in ("GET", "HEAD"):
                origin = request.headers.get("origin")
                if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
                    raise PageProblem(403, "This form was sent by another site", "Nothing was changed.")
                request.state.form = form = await _read_form(request)
                if not login.is_form_token(form.pop("form_token", "")):
                    advice = "Go back, load the page again, and send the form once more. Nothing was changed."
                    raise PageProblem(403, "This form is not from this page, or it is too old", advice)
        await self.app(scope, request.receive, send)


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form, the last of each name. Raises PageProblem, and Refused for too much."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise PageProblem(415, "This is no form of the page", "Nothing was changed.")
    pieces = read_pieces(request.headers, request.receive, MAX_FORM_BYTES, "a form")
    body = b"".join([piece async for piece in pieces])
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS))
    except ValueError:
        raise PageProblem(400, "This form cannot be read", "Nothing was changed.") from None


def to_problem(request: Request, error: Exception) -> PageProblem:
    """Return what a person is shown of an error, and log what the person cannot mend."""
    if isinstance(error, PageProblem):
        return error
    if isinstance(error, Refused):
        title = f"{str(error)[0].upper()}{str(error)[1:]}"
        return PageProblem(error.status, title, "Send less, ask for a shorter list, or try again in a moment.")
    if isinstance(error, NotFound):
        return PageProblem(404, "There is nothing here", str(error))
    if isinstance(error, Forbidden):
        return PageProblem(403, "This is not allowed", str(error))
    if isinstance(error, UsageError):
        return PageProblem(400, "This cannot be done", str(error))
    if isinstance(error, ConsolidatorError):
        log.warning("%s %s: %s", request.method, request.url.path[:200], redact(str(error)))
        return PageProblem(500, "This went wrong", str(error))
    log.error("%s %s failed: %s", request.method, request.url.path[:200], format_redacted_traceback(error))
    return PageProblem(500, "This went wrong", "The service's log says more.")
