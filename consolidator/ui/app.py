"""Builds the page's application: its navigation, routes and static files behind its guard, for `serve` and for `ui`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from importlib.resources import files

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from consolidator.errors import ConsolidatorError
from consolidator.runtime.live.hub import FollowHub, open_hub
from consolidator.service.credentials import load_token, prove_token
from consolidator.service.database import Database
from consolidator.service.nights.requested import RequestedRuns
from consolidator.service.request_limits import BoundedServer, PrefixRoute, allowed_hosts
from consolidator.settings import Settings
from consolidator.ui.guard import PREFIX, PageGuard, PageProblem, cookie_name, to_problem
from consolidator.ui.logins import LOGIN_SECONDS, Logins
from consolidator.ui.pages.attention import ATTENTION
from consolidator.ui.pages.facts import FACTS, RULES
from consolidator.ui.pages.helped import HELPED
from consolidator.ui.pages.nights import NIGHTS, SYSTEM
from consolidator.ui.pages.procedures import PROCEDURES, SOLUTIONS
from consolidator.ui.pages.projects import BRIEF, PROJECTS, RECALL, SEARCH
from consolidator.ui.pages.sessions import COMPARE, SESSIONS
from consolidator.ui.pages.today import TODAY
from consolidator.ui.view import PageModule, PageRequest, PageServices, Section, redirect, route

SECTIONS: tuple[Section, ...] = (
    Section("Today", (TODAY, HELPED, ATTENTION)),
    Section("Memory", (PROJECTS, BRIEF, FACTS, SOLUTIONS, PROCEDURES, RULES, RECALL)),
    Section("Sessions", (SESSIONS, COMPARE)),
    Section("System", (NIGHTS, SYSTEM)),
)
PAGES: tuple[PageModule, ...] = tuple(page for section in SECTIONS for page in section.pages)
ROUTES = tuple(route for page in (*PAGES, SEARCH) for route in page.routes)


def mount_ui(
    database: Database,
    settings: Settings,
    stopping: asyncio.Event,
    hub: FollowHub,
    runs: RequestedRuns,
    *,
    is_driving: bool = False,
) -> list[BaseRoute]:
    """Return the routes of the page, for the server of `consolidator serve`; its logins end with the process.

    `stopping` ends what is watched live by `hub`; `runs` does what takes long; `is_driving` says that the process
    answers in sessions.
    """
    logins = Logins(load_token(settings.home))
    app = Starlette(
        routes=[
            route(PREFIX, _show_start),
            Mount(
                PREFIX,
                routes=[
                    route("/", _show_start),
                    route("/login", _log_in),
                    route("/logout", _log_out, methods=["POST"]),
                    route("/service", _prove),
                    Mount("/static", StaticFiles(directory=str(files("consolidator.ui") / "static"))),
                    *ROUTES,
                ],
            ),
        ],
        exception_handlers={
            HTTPException: _show_http_error,
            PageProblem: _show_error,
            ConsolidatorError: _show_error,
            Exception: _show_failure,
        },
    )
    app.router.redirect_slashes = False
    app.state.services = PageServices(database, settings, logins, SECTIONS, stopping, hub, runs, is_driving)

    def show_problem(request: Request, problem: PageProblem) -> Response:
        request.scope["app"] = app
        return _show_problem(request, problem)

    return [PrefixRoute(PREFIX, PageGuard(app, logins, show_problem, allowed_hosts(settings)))]


async def _prove(page: PageRequest) -> Response:
    """Show a program of this machine's owner that this is the owner's service."""
    challenge = page.query_params.get("challenge", "")[:200]
    return JSONResponse({"proof": prove_token(page.services.logins.token, challenge)})


async def _log_in(page: PageRequest) -> Response:
    """Change a link's code for a cookie.

    A page leads on, not a redirect: browsers send a strict cookie only from a page of the same site.
    """
    cookie = page.services.logins.log_in(page.query_params.get("code", ""))
    if cookie is None:
        advice = "Each link works once, for five minutes. Type `consolidator ui` in a terminal for a new one."
        raise PageProblem(401, "This link was used, or is too old", advice)
    response = page.show("notice.html", title="You are logged in", advice="", goes_on="Go on to Today")
    response.headers["refresh"] = f"0; url={PREFIX}/today"
    response.set_cookie(
        cookie_name(page.headers),
        cookie,
        max_age=int(LOGIN_SECONDS),
        path=PREFIX,
        secure=page.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


async def _log_out(page: PageRequest) -> Response:
    """End this browser's login."""
    name = cookie_name(page.headers)
    page.services.logins.log_out(page.cookies.get(name, ""))
    page.state.login = None
    advice = "To come back, type `consolidator ui` in a terminal."
    response = page.show("notice.html", title="You are logged out", advice=advice, goes_on="")
    response.delete_cookie(name, path=PREFIX, httponly=True, samesite="strict")
    return response


async def _show_start(page: PageRequest) -> Response:
    return redirect("/today")


def _show_problem(request: Request, problem: PageProblem) -> Response:
    page = PageRequest(request.scope)
    goes_on = "Back to Today" if getattr(page.state, "login", None) else ""
    return page.show("notice.html", status=problem.status, title=problem.title, advice=problem.advice, goes_on=goes_on)


async def _show_error(request: Request, error: Exception) -> Response:
    return _show_problem(request, to_problem(request, error))


async def _show_failure(request: Request, error: Exception) -> Response:
    """Show an error of the service itself, which is raised on to the guard: it logs it."""
    return _show_problem(request, PageProblem(500, "This went wrong", "The service's log says more."))


async def _show_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    titles = {404: "There is no such page", 405: "This page takes no such request"}
    title = titles.get(error.status_code, "This went wrong")
    return _show_problem(request, PageProblem(error.status_code, title, "The navigation leads to all there is."))


MAX_CONNECTIONS = 64


async def serve_page(
    database: Database, settings: Settings, listener: socket.socket, stop: asyncio.Event, opened: Callable[[], None]
) -> None:
    """Serve the page on a listening socket until `stop` is set; call `opened` as soon as it can be asked."""
    runs = RequestedRuns(database, settings, stop)
    async with open_hub(database) as hub:
        app = Starlette(routes=mount_ui(database, settings, stop, hub, runs))
        await serve_app(app, listener, stop, opened)
    await runs.close()


async def serve_app(app: ASGIApp, listener: socket.socket, stop: asyncio.Event, opened: Callable[[], None]) -> None:
    """Serve an application of a person's own machine on a listening socket until `stop` is set."""
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=2,
    )
    server = BoundedServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    opened()
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    server.should_exit = True
    await serving
