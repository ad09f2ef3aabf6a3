"""Builds the HTTP API: the FastAPI application with its routes and errors, behind its guard."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from importlib.metadata import version
from ipaddress import ip_address
from typing import Any

import psycopg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from consolidator.api import openapi, problems
from consolidator.api.call import REPEATED_HEADER, ApiServices
from consolidator.api.guard import ApiGuard, Places, RequestRates, WrongTokens
from consolidator.api.metrics import PATH as METRICS_PATH
from consolidator.api.metrics import MeasuredApp, MetricsPage, ProcessMetrics
from consolidator.api.problems import Problem, problem_response
from consolidator.api.routes import agents, branches, children, context, events, memory, messages, nights, sessions
from consolidator.errors import ConsolidatorError, as_disk_full
from consolidator.llm.redaction.redact import redact
from consolidator.runtime.live.hub import FollowHub
from consolidator.runtime.turn.harness import Harness
from consolidator.service.credentials import BearerTokens, open_tokens
from consolidator.service.database import Database
from consolidator.service.nights.requested import RequestedRuns
from consolidator.service.sessions.reruns import RequestedReruns
from consolidator.settings import Settings

log = logging.getLogger("consolidator.api")
PREFIX = "/v1"
_OPENAPI_PATH, _DOCS_PATH = f"{PREFIX}/openapi.json", f"{PREFIX}/docs"
_ROUTERS = (
    children.bundle_router,
    sessions.router,
    messages.router,
    events.router,
    context.router,
    children.router,
    branches.router,
    messages.work_router,
    messages.call_router,
    agents.router,
    memory.router,
    nights.router,
)


def build_app(
    database: Database,
    settings: Settings,
    harness: Harness | None = None,
    *,
    tokens: BearerTokens | None = None,
    stopping: asyncio.Event | None = None,
    hub: FollowHub | None = None,
    runs: RequestedRuns | None = None,
) -> FastAPI:
    """Return the application over an open database; `harness` is that of the driver in this process, if it has one.

    It expects the guard before it, which `mount_api` puts there. `stopping` ends its streams, which follow by `hub`;
    `runs` does the runs that are asked for.
    """
    app = FastAPI(
        title="consolidator",
        version=version("consolidator"),
        openapi_url=_OPENAPI_PATH,
        docs_url=_DOCS_PATH if settings.http_docs else None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
    )
    for router in _ROUTERS:
        app.include_router(router, prefix=PREFIX)
    app.add_exception_handler(Problem, _answer_problem)
    app.add_exception_handler(ConsolidatorError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http_error)
    for kind in (psycopg.Error, UnicodeEncodeError, OSError):
        app.add_exception_handler(kind, _answer_database_error)
    app.add_exception_handler(Exception, _answer_failure)
    stopping = stopping or asyncio.Event()
    app.state.services = ApiServices(
        database,
        settings,
        harness,
        tokens or open_tokens(database, settings.home),
        stopping,
        runs or RequestedRuns(database, settings, stopping),
        RequestedReruns(database, settings),
        hub,
    )
    app.openapi = _describe_once(app)  # type: ignore[method-assign]
    return app


def mount_api(
    database: Database,
    settings: Settings,
    harness: Harness | None,
    stopping: asyncio.Event,
    hub: FollowHub,
    runs: RequestedRuns,
    process: ProcessMetrics,
) -> list[BaseRoute]:
    """Return the routes of the API and of /metrics, for the server of `consolidator serve`."""
    app = build_app(database, settings, harness, stopping=stopping, hub=hub, runs=runs)
    services: ApiServices = app.state.services
    is_loopback = ip_address(settings.http_host).is_loopback
    hosts = [name.lower() for name in (*settings.http_allowed_hosts, settings.http_host)]
    streams = Places(settings.http_streams)
    guard = partial(
        ApiGuard,
        tokens=services.tokens,
        rates=RequestRates(settings.http_requests_per_second),
        streams=streams,
        wrong_tokens=WrongTokens(settings.http_wrong_tokens_per_minute),
        stopping=stopping,
        hosts=hosts if is_loopback or settings.http_allowed_hosts else None,
    )
    guarded: ASGIApp = MeasuredApp(
        guard(
            app,
            open_paths=(_OPENAPI_PATH, _DOCS_PATH) if settings.http_docs else (_OPENAPI_PATH,),
            lines_paths=(f"{PREFIX}/sessions/import",),
            lines_bytes=settings.http_import_max_mb * 1024 * 1024,
        ),
        PREFIX,
    )
    page = MetricsPage(database, process, streams, hub)
    metrics = guard(page, open_paths=(METRICS_PATH,) if settings.metrics_public else ())
    if settings.http_cors_origins:
        guarded = CORSMiddleware(
            guarded,
            allow_origins=settings.http_cors_origins,
            allow_methods=("GET", "POST", "PATCH", "DELETE"),
            allow_headers=("authorization", "content-type", "idempotency-key", "last-event-id"),
            expose_headers=("location", "retry-after", REPEATED_HEADER),
        )
    return [_PrefixRoute(PREFIX, guarded), _PrefixRoute(METRICS_PATH, metrics)]


class _PrefixRoute(BaseRoute):
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


def _operation_id(route: APIRoute) -> str:
    return route.name


def _describe_once(app: FastAPI) -> Any:
    document: dict[str, Any] = {}

    def describe() -> dict[str, Any]:
        if not document:
            document.update(openapi.describe(app))
        return document

    return describe


async def _answer_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem_response(error.kind, str(error), request.url.path, headers=error.headers)


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ConsolidatorError)
    kind = problems.find_kind(error)
    if kind.status >= 500:
        log.warning("%s %s: %s", request.method, request.url.path[:200], redact(str(error)))
    return problem_response(kind, problems.describe(error), request.url.path)


async def _answer_failure(request: Request, error: Exception) -> Response:
    """Answer an error of the service itself, which is raised on to the guard: it logs it."""
    return problem_response(problems.INTERNAL, problems.INTERNAL.title, request.url.path)


async def _answer_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    wrong = [
        {"where": ".".join(str(part) for part in each["loc"]), "message": str(each["msg"])} for each in error.errors()
    ][:50]
    first = "; ".join(f"{each['where']}: {each['message']}" for each in wrong[:3])
    return problem_response(problems.INVALID, first, request.url.path, errors=wrong)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = problems.BY_STATUS.get(error.status_code, problems.INTERNAL)
    headers = dict(error.headers or {})
    if kind is problems.METHOD_NOT_ALLOWED:
        headers = {"allow": ", ".join(sorted(_allowed_methods(request)))}
    return problem_response(kind, str(error.detail), request.url.path, headers=headers)


def _allowed_methods(request: Request) -> set[str]:
    """Return the methods of every route of a request's path; the router names those of the first one alone."""
    path = request.url.path.removeprefix(PREFIX)
    routes = (route for router in _ROUTERS for route in router.routes if isinstance(route, APIRoute))
    return {method for route in routes if route.path_regex.match(path) for method in route.methods or ()}


async def _answer_database_error(request: Request, error: Exception) -> Response:
    """Answer what the database refused: a character that no name can hold, or a full disk."""
    if isinstance(error, (psycopg.DataError, UnicodeEncodeError)):
        detail = "a name or an id holds a character that none can hold"
        return problem_response(problems.INVALID, detail, request.url.path)
    if as_disk_full(error) is not None:
        return problem_response(problems.DISK_FULL, problems.DISK_FULL.title, request.url.path)
    if isinstance(error, psycopg.OperationalError):
        return problem_response(problems.UNAVAILABLE, "the database cannot answer now", request.url.path)
    raise error
