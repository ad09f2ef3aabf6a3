"""Builds the page's application: its routes and static files behind its guard, for `serve` and for `ui`."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from ipaddress import ip_address

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from consolidator.errors import ConsolidatorError
from consolidator.runtime.live.hub import FollowHub
from consolidator.service.credentials import load_token, prove_token
from consolidator.service.database import Database
from consolidator.service.nights.requested import RequestedRuns
from consolidator.settings import Settings
from consolidator.ui.guard import PREFIX, PageGuard, PageProblem, cookie_name, to_problem
from consolidator.ui.logins import LOGIN_SECONDS, Logins
from consolidator.ui.registry import ROUTES, SECTIONS
from consolidator.ui.view import PageRequest, PageServices, redirect, route


def mount_ui(
    database: Database,
    settings: Settings,
    *,
    stopping: asyncio.Event | None = None,
    hub: FollowHub | None = None,
    runs: RequestedRuns | None = None,
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
    stopping = stopping or asyncio.Event()
    app.state.services = PageServices(database, settings, logins, SECTIONS, stopping, hub, runs, is_driving)
    is_loopback = ip_address(settings.http_host).is_loopback
    hosts = [name.lower() for name in (*settings.http_allowed_hosts, settings.http_host)]

    def show_problem(request: Request, problem: PageProblem) -> Response:
        request.scope["app"] = app
        return _show_problem(request, problem)

    guard = PageGuard(app, logins, show_problem, hosts if is_loopback or settings.http_allowed_hosts else None)
    return [_PrefixRoute(guard)]


class _PrefixRoute(BaseRoute):
    """Every path under the page's prefix; the path is left as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Tell whether a path is the page's."""
        is_ours = scope["type"] == "http" and (scope["path"] + "/").startswith(PREFIX + "/")
        return (Match.FULL if is_ours else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        await self.app(scope, receive, send)


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
    response = page.show("login.html")
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
    response = page.show("logout.html")
    response.delete_cookie(name, path=PREFIX, httponly=True, samesite="strict")
    return response


async def _show_start(page: PageRequest) -> Response:
    return redirect("/today")


def _show_problem(request: Request, problem: PageProblem) -> Response:
    return PageRequest(request.scope).show(
        "problem.html", status=problem.status, title=problem.title, advice=problem.advice
    )


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
