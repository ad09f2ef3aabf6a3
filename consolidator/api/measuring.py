"""Measures requests: each is a span with its method, the template of its route and its status."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from consolidator.telemetry import open_span

_METHODS = ("GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS")
_STREAM = b"text/event-stream"


@dataclass(slots=True)
class MeasuredApp:
    """An ASGI application whose requests are spans; the outermost one, so that refusals count, too."""

    app: ASGIApp
    prefix: str  # before the templates of its routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request within a span."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "other"
        with open_span("request", method, {"http.request.method": method}) as span:

            async def note_start(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.attributes["http.response.status_code"] = message["status"]
                    kind = dict(message.get("headers", ())).get(b"content-type", b"")
                    if kind.startswith(_STREAM):
                        span.attributes["consolidator.stream"] = True
                await send(message)

            try:
                await self.app(scope, receive, note_start)
            finally:
                route = getattr(scope.get("route"), "path_format", None)
                if route is not None:
                    route = self.prefix + route
                    span.attributes["http.route"] = route
                    span.name = f"{method} {route}"
