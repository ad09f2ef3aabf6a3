"""What the pages work with: the open database, the templates, and the person who looks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute

from consolidator.errors import UsageError
from consolidator.service.cursors import decode_cursor, encode_cursor
from consolidator.service.database import Database
from consolidator.service.nights.requested import RequestedRuns
from consolidator.service.sessions.following import FollowHub
from consolidator.service.viewer import Viewer
from consolidator.settings import Settings
from consolidator.ui.guard import PREFIX
from consolidator.ui.logins import Login, Logins
from consolidator.ui.rendering import make_environment


class Entry(NamedTuple):
    """An entry of the navigation."""

    path: str  # below the prefix
    title: str


@dataclass(frozen=True, slots=True)
class PageModule:
    """What a page's module brings: its entry of the navigation, and its routes."""

    entry: Entry
    routes: tuple[BaseRoute, ...]
    also: tuple[str, ...] = ()  # beginnings of other paths at which the entry is the current one

    def is_at(self, path: str) -> bool:
        """Tell whether a path below the prefix is one of the page's."""
        return any(path == begin or path.startswith(begin + "/") for begin in (self.entry.path, *self.also))


PAGE_SIZE, MAX_ROWS = 50, 500  # rows of a list
MAX_WORDS = 1000  # characters of a filter


@dataclass(frozen=True, slots=True)
class PageServices:
    """What the process brings to every page."""

    database: Database
    settings: Settings
    logins: Logins
    pages: Sequence[PageModule]
    stopping: asyncio.Event
    hub: FollowHub | None = None  # follows sessions for those who watch
    runs: RequestedRuns | None = None  # does what takes long, on the connections of the nights
    environment: Environment = field(default_factory=make_environment)


def services_of(request: Request) -> PageServices:
    """Return what the process brings to every page."""
    services: PageServices = request.app.state.services
    return services


def viewer_of(request: Request) -> Viewer:
    """Return who looks."""
    login: Login = request.state.login
    return login.viewer


def show_page(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """Return a page; the template gets the values, and what the layout needs."""
    login: Login | None = getattr(request.state, "login", None)
    path = request.url.path.removeprefix(PREFIX)
    shared = {
        "prefix": PREFIX,
        "path": path,
        "navigation": [(page.entry, page.is_at(path)) for page in services_of(request).pages],
        "form_token": login.form_token if login else None,
        "now": services_of(request).database.clock.now(),
    }
    text = services_of(request).environment.get_template(template).render(shared | values)
    return HTMLResponse(text, status)


def redirect(path: str) -> Response:
    """Return an answer that leads to a page after a form was sent."""
    return RedirectResponse(PREFIX + path, 303)


def read_filter(request: Request, *names: str) -> dict[str, str | None]:
    """Return the words of a list's filter by their names; None where nothing is said."""
    words = {name: request.query_params.get(name, "").strip() or None for name in names}
    for name, value in words.items():
        if value is not None and (len(value) > MAX_WORDS or "\0" in value):
            raise UsageError(f"{name} is at most {MAX_WORDS} characters of text")
    return words


@dataclass(frozen=True, slots=True)
class ListSize:
    """How many rows of a list are shown, and the address of the page that shows more of them."""

    rows: int
    request: Request

    @property
    def wanted(self) -> int:
        """How many rows to ask for: one more tells whether there are more."""
        return self.rows + 1

    def more_address(self, found: int) -> str | None:
        """Return where more is shown; None where all is, or where the list is as long as a page can be."""
        if found <= self.rows or self.rows >= MAX_ROWS:
            return None
        return "?" + urlencode(
            dict(self.request.query_params) | {"rows": str(min(self.rows + PAGE_SIZE * 2, MAX_ROWS))}
        )

    def is_cut(self, found: int) -> bool:
        """Tell whether there is more than a page can show."""
        return found > self.rows and self.rows >= MAX_ROWS


def read_size(request: Request) -> ListSize:
    """Return how many rows a list shows."""
    text = request.query_params.get("rows", "")
    rows = int(text) if text.isdecimal() and len(text) < 5 else PAGE_SIZE
    return ListSize(max(1, min(rows, MAX_ROWS)), request)


def read_cursor(request: Request, of: str, *kinds: type) -> list[Any] | None:
    """Return the position that the address of a list's page names, of values of these kinds; None on the first page.

    `of` names the list and whatever it was narrowed to. Raises InvalidCursor.
    """
    return decode_cursor(f"ui {of}", request.query_params.get("cursor") or None, *kinds)


def next_address(request: Request, of: str, position: list[Any] | None) -> str | None:
    """Return the address of a list's next page, which begins after a position; None where there is none."""
    if position is None:
        return None
    return "?" + urlencode(dict(request.query_params) | {"cursor": encode_cursor(f"ui {of}", position)})


def list_values(size: ListSize, rows: list[Any]) -> Mapping[str, Any]:
    """Return a list for its template: the rows, where more is, and whether it is cut for good."""
    return {"rows": rows[: size.rows], "more": size.more_address(len(rows)), "is_cut": size.is_cut(len(rows))}
