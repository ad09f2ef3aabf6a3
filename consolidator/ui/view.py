"""What the pages work with: the database, the person who looks, and templates, in which all of a log is text."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from time import monotonic
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from consolidator.errors import UsageError
from consolidator.models.audience import describe_peer
from consolidator.models.fact import UNKNOWN_START
from consolidator.models.memory_filter import MemoryFilter
from consolidator.models.viewer import Viewer
from consolidator.runtime.live.hub import FollowHub
from consolidator.service.database import Database
from consolidator.service.encoding import decode_cursor, encode_cursor, mark_invisible
from consolidator.service.memory.learned import WaitingCountsRow, count_waiting
from consolidator.service.nights.requested import RequestedRuns
from consolidator.settings import Settings
from consolidator.ui.guard import PREFIX
from consolidator.ui.logins import Login, Logins

_CODE = re.compile(r"`([^`\n]+)`")
MAX_SHOWN, MIN_SHOWN = 4000, 200  # characters of one text; a line of a log may have millions


class _Shown(str):
    """A text that was looked at, and is not cut again; it is escaped as any other."""

    __slots__ = ()


def show_text(value: object, most: int = MAX_SHOWN) -> str:
    """Return a text of at most so many characters, each one that nobody sees marked."""
    if isinstance(value, _Shown):
        return value
    text = str(value)
    shown = mark_invisible(text[:most].replace("\r\n", "\n"))
    return _Shown(shown if len(text) <= most else f"{shown}… ({len(text):,} characters in all)")


def preview_text(value: object, most: int = 100) -> str:
    """Return the beginning of a text, which stands elsewhere in full, on one line."""
    text = str(value)
    return _Shown(show_text(" ".join(text[: most * 2].split()), most * 2)[:most] + ("…" if len(text) > most else ""))


def show_line(value: object, most: int = 600) -> Markup:
    """Return a sentence of memory, in which what stands between backticks is a command or a name."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(show_text(value, most)))))


def show_project(path: str | None) -> str:
    """Return how a project is called: the last part of its path."""
    return "everywhere" if not path else path.rstrip("/").rpartition("/")[2] or path


def fit_texts(texts: Iterable[str], kilobytes: int) -> int:
    """Return how many characters of each text can be shown so that all of them take no more than this as markup."""
    shown, most = list(texts), MAX_SHOWN
    while most > MIN_SHOWN and sum(len(escape(show_text(text, most)).encode()) for text in shown) > kilobytes * 1000:
        most = most * 2 // 3
    return max(most, MIN_SHOWN)


def show_time(moment: datetime | str | None) -> Markup:
    """Return a moment as an element that a script shows in the reader's zone; UTC without scripts."""
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return Markup("{}").format(show_text(moment, 100))
    if moment is None or moment == UNKNOWN_START:
        return Markup("")
    moment = moment.astimezone(UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(
        moment.isoformat(timespec="seconds"), moment.strftime("%Y-%m-%d %H:%M")
    )


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun: "1 session", "2 sessions"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _finalize(value: object) -> object:
    """Return what an expression of a template prints: never a text that was not looked at."""
    if value is None:
        return ""
    return show_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def make_environment() -> Environment:
    """Return the templates, which escape all that they print."""
    environment = Environment(
        loader=PackageLoader("consolidator.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"when": show_time, "cut": show_text, "preview": preview_text}
    environment.filters |= {"line": show_line, "project": show_project}
    environment.filters |= {"count_of": count_of, "person": describe_peer}
    return environment


F = TypeVar("F", bound=MemoryFilter)


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


@dataclass(frozen=True, slots=True)
class Section:
    """One of the four entries of the navigation; its pages are listed below it, and the first is where it leads."""

    title: str
    pages: tuple[PageModule, ...]


PAGE_SIZE = 50  # rows of a list
MAX_WORDS = 1000  # characters of a filter
BADGE_SECONDS = 15.0
NOTICES = {"forgotten": "Forgotten: no agent is told it again.", "corrected": "Corrected: agents are told your words."}
NOTICES |= {"restored": "It is believed again.", "dismissed": "Dismissed: it is proposed no more."}


@dataclass(slots=True)
class Badge:
    """How much waits for a person's word, counted at most every few seconds, and anew after each form."""

    waiting: WaitingCountsRow | None = None
    void_at: float = 0.0  # seconds of the monotonic clock

    async def load(self, database: Database, viewer: Viewer, *, anew: bool = False) -> WaitingCountsRow:
        """Return the counts."""
        if anew or self.waiting is None or monotonic() >= self.void_at:
            self.waiting, self.void_at = await count_waiting(database, viewer=viewer), monotonic() + BADGE_SECONDS
        return self.waiting


@dataclass(frozen=True, slots=True)
class PageServices:
    """What the process brings to every page."""

    database: Database
    settings: Settings
    logins: Logins
    sections: Sequence[Section]
    stopping: asyncio.Event
    hub: FollowHub  # follows sessions for those who watch
    runs: RequestedRuns  # does what takes long, on the connections of the nights
    is_driving: bool = False  # whether this process answers in sessions, as far as it has their models and tools
    environment: Environment = field(default_factory=make_environment)
    badge: Badge = field(default_factory=lambda: Badge())


class PageRequest(Request):
    """A request of a page: who looks, what the process brings, what the address says, and the answer."""

    @property
    def services(self) -> PageServices:
        """What the process brings to every page."""
        services: PageServices = self.app.state.services
        return services

    @property
    def database(self) -> Database:
        """The open database."""
        return self.services.database

    @property
    def viewer(self) -> Viewer:
        """Who looks."""
        login: Login = self.state.login
        return login.viewer

    @property
    def form_fields(self) -> dict[str, str]:
        """The fields of the form that was sent."""
        fields: dict[str, str] = self.state.form
        return fields

    def show(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Return a page; the template gets the values, and what the layout needs."""
        login: Login | None = getattr(self.state, "login", None)
        path = self.url.path.removeprefix(PREFIX)
        words = [(name, value) for name, value in self.query_params.multi_items() if name not in ("did", "of")]
        sections = self.services.sections
        current = next((each for each in sections if any(page.is_at(path) for page in each.pages)), None)
        shared = {
            "prefix": PREFIX,
            "path": path,
            "navigation": [(each.title, each.pages[0].entry.path, each is current) for each in sections],
            "tabs": [(page.entry, page.is_at(path)) for page in current.pages] if current else [],
            "here": path + (f"?{urlencode(words)}" if words else ""),
            "notice": NOTICES.get(self.query_params.get("did", "")),
            "notice_of": self.query_params.get("of", "")[:100],
            "badge": getattr(self.state, "badge", None),
            "form_token": login.form_token if login else None,
            "now": self.database.clock.now(),
        }
        text = self.services.environment.get_template(template).render(shared | values)
        return HTMLResponse(text, status)

    def read_filter(self, *names: str) -> dict[str, str | None]:
        """Return the words of a list's filter by their names; None where nothing is said."""
        words = {name: self.query_params.get(name, "").strip() or None for name in names}
        for name, value in words.items():
            if value is not None and (len(value) > MAX_WORDS or "\0" in value):
                raise UsageError(f"{name} is at most {MAX_WORDS} characters of text")
        return words

    def read_cursor(self, of: str, *kinds: type, name: str = "cursor") -> list[Any] | None:
        """Return the position that the address of a list's page names, of values of these kinds; None on the first.

        `of` names the list and whatever it was narrowed to, `name` the word of the address. Raises InvalidCursor.
        """
        return decode_cursor(f"ui {of}", self.query_params.get(name) or None, *kinds)

    def read_moment(self, of: str, name: str = "cursor") -> tuple[datetime, str] | None:
        """Return the position in a list by moment and id, as `read_cursor` does."""
        position = self.read_cursor(of, str, str, name=name)
        return None if position is None else (datetime.fromisoformat(position[0]), str(position[1]))

    def next_address(self, of: str, position: list[Any] | None, name: str = "cursor") -> str | None:
        """Return the address of a list's next page, which begins after a position; None where there is none."""
        if position is None:
            return None
        return "?" + urlencode(dict(self.query_params) | {name: encode_cursor(f"ui {of}", position)})

    def first_address(self, name: str = "cursor") -> str | None:
        """Return the address of a list's first page; None on that page."""
        if not self.query_params.get(name):
            return None
        return "?" + urlencode({key: value for key, value in self.query_params.items() if key != name})

    def list_values(self, of: str, rows: Sequence[Any], position: list[Any] | None) -> Mapping[str, Any]:
        """Return a page of a list for its template: its rows, and the addresses of the next and the first page."""
        return {"rows": rows, "next": self.next_address(of, position), "first_page": self.first_address()}


def route(path: str, show: Callable[[PageRequest], Awaitable[Response]], methods: Sequence[str] = ("GET",)) -> Route:
    """Return the route of a page."""

    async def endpoint(request: Request) -> Response:
        page = PageRequest(request.scope, request.receive)
        if getattr(page.state, "login", None) is None:
            return await show(page)
        badge = page.services.badge
        if request.method == "GET":
            page.state.badge = await badge.load(page.database, page.viewer)
            return await show(page)
        badge.void_at = 0.0
        return await show(page)

    return Route(path, endpoint, methods=[*methods])


def redirect(path: str) -> Response:
    """Return an answer that leads to a page after a form was sent."""
    return RedirectResponse(PREFIX + path, 303)


def go_back(page: PageRequest, otherwise: str, did: str, memory_id: str) -> Response:
    """Return an answer that leads to the page whose form was sent, with a notice of what was done."""
    path = page.form_fields.get("back", "")
    if not path.startswith("/"):
        return redirect(otherwise)
    return redirect(f"{path}{'&' if '?' in path else '?'}{urlencode({'did': did, 'of': memory_id})}")


def make_filter(kind: type[F], words: Mapping[str, Any], after: list[Any] | None) -> F:
    """Return what a list's filter selects, a page of it; a field that is a flag is on where anything is said."""
    flags = {each.name for each in fields(kind) if each.default is False}
    values: dict[str, Any] = {name: value is not None if name in flags else value for name, value in words.items()}
    return kind(**values, after=after, limit=PAGE_SIZE)
